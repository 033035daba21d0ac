//! What is at the origin that a request arrived at.

use std::sync::Arc;

use crate::model::app::App;

/// What is at a place.
#[derive(Clone, Debug)]
pub enum Lookup {
    /// The site: its paths say which app.
    Site,
    /// One app, or one port of one.
    App(Arc<App>),
    /// Nobody has this host.
    Unknown,
    /// The host begins as a uuid and its port is not written as ports are.
    Malformed,
    /// A port of the range that nobody has now.
    Unassigned,
    /// Whoever would know cannot be asked now.
    Unavailable,
}
