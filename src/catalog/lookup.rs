//! The result of looking up a virtual host.

use std::sync::Arc;

use crate::model::app::App;

/// What is at a virtual host.
#[derive(Clone, Debug)]
pub enum Lookup {
    /// The site: the path selects the app.
    Site,
    /// One app, or one port of one.
    App(Arc<App>),
    /// No app has this host.
    Unknown,
    /// The host is a uuid with an invalid port.
    Malformed,
    /// A port of the range that no app has now.
    Unassigned,
    /// The app cannot be looked up now: its source gives no answer, or the look-up limit is
    /// reached.
    Unavailable,
}
