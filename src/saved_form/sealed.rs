//! A form that was sent after its session expired, sealed for the person who wrote it. It is kept
//! in the page that the person gets, and nowhere else.

use serde::{Deserialize, Serialize};

use crate::{
    model::vhost::VirtualHost,
    session::{
        keys::{KeyRing, Purpose},
        stored::StoredVirtualHost,
    },
};

/// The form field that holds the sealed form when it is sent again.
pub const FIELD: &str = "ludgate-form";
/// Largest body that is saved, in bytes.
pub const MAX_BODY: usize = 64 * 1024;
/// A saved form can be sent for this long, in seconds.
pub const MAX_AGE: i64 = 600;
/// The clocks of two replicas may differ by this much, in seconds.
const SKEW: i64 = 60;

/// A form and everything that it is bound to.
#[derive(Debug, Serialize, Deserialize)]
pub struct SealedForm {
    /// The subject of the person who sent it.
    pub person: String,
    /// The app that it was for.
    pub app: String,
    /// The origin that it was sent to.
    #[serde(rename = "place")]
    pub vhost: StoredVirtualHost,
    /// Path and query there.
    pub target: String,
    /// The url-encoded body.
    pub body: String,
    /// When it was sent first, in seconds since 1970.
    pub came: i64,
}

impl SealedForm {
    /// Seals it; `None` without a key.
    pub fn seal(&self, keys: &KeyRing) -> Option<String> {
        keys.seal(Purpose::SavedForm, &serde_json::to_vec(self).ok()?)
            .ok()
    }

    /// Opens what a page sent, if we sealed it, for this origin, at most ten minutes ago.
    pub fn open(sealed: &str, keys: &KeyRing, vhost: &VirtualHost, now: i64) -> Option<SealedForm> {
        let plain = keys.open(Purpose::SavedForm, sealed).ok()?;
        let form: SealedForm = serde_json::from_slice(&plain).ok()?;
        let is_young = (-SKEW..=MAX_AGE).contains(&now.saturating_sub(form.came));
        (is_young && form.vhost.to_vhost() == Some(*vhost)).then_some(form)
    }
}
