//! Whether a session cookie counts: not on requests of another origin's page, and on a WebSocket
//! only with our own `Origin` (docs/behaviour.md#credentials).

use super::reason::Reason;
use crate::model::{
    arrival::{Arrival, Origin, Provenance, RequestClass},
    caller::Credential,
};

/// Whether the credential counts for this request. A bearer token always does. A cookie does where
/// our own origin led the browser to the request.
///
/// # Errors
/// [`Reason::ForeignOrigin`] for a WebSocket that a page of another origin opens, and
/// [`Reason::MissingOrigin`] for one that does not say who opens it.
pub(super) fn cookie_counts(arrival: &Arrival, credential: Credential) -> Result<bool, Reason> {
    match (
        credential,
        arrival.class,
        arrival.origin,
        arrival.provenance,
    ) {
        (Credential::Bearer | Credential::Address, _, _, _) => Ok(true),
        (Credential::Cookie, RequestClass::WebSocket, Origin::Own, Provenance::Own) => Ok(true),
        (Credential::Cookie, RequestClass::WebSocket, Origin::Absent, Provenance::Own) => {
            Err(Reason::MissingOrigin)
        }
        (Credential::Cookie, RequestClass::WebSocket, _, _) => Err(Reason::ForeignOrigin),
        (Credential::Cookie, _, _, Provenance::Own) => Ok(true),
        (Credential::Cookie, _, _, Provenance::Foreign) => Ok(false),
    }
}
