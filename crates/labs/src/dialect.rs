//! The two forms of the API, of names and of events.

use serde::{Deserialize, Serialize};

/// Which form answers, names and events have.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Dialect {
    /// The design document SQR-066.
    #[default]
    #[serde(rename = "sqr-066")]
    Sqr066,
    /// What Nublado made of it, and what its hubs speak.
    Nublado,
}
