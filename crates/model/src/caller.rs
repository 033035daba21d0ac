//! The caller of a request by its credentials: authentication only, no authorization.

use std::sync::Arc;

use super::principal::Principal;

/// The caller of a request.
#[derive(Clone, Debug)]
pub enum Caller {
    /// No valid credential.
    Anonymous,
    /// A person with a valid credential.
    Person {
        /// Identity and groups.
        principal: Arc<Principal>,
        /// The credential that was accepted.
        credential: Credential,
    },
    /// An invalid token of our issuer or of a credential source: refused, never forwarded
    /// (docs/behaviour.md#credentials).
    BadToken,
    /// Credentials that cannot be checked now. The request fails instead of being treated as
    /// anonymous.
    Unverifiable,
}

/// The kind of credential.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Credential {
    /// A session or sign-in cookie: valid only on requests that our own origin started.
    Cookie,
    /// `Authorization: Bearer`: a foreign page cannot send it.
    Bearer,
    /// A token in the address: the author of the link had it.
    Address,
}

impl Caller {
    /// The person, for an authenticated caller.
    pub fn principal(&self) -> Option<&Arc<Principal>> {
        match self {
            Caller::Person { principal, .. } => Some(principal),
            Caller::Anonymous | Caller::BadToken | Caller::Unverifiable => None,
        }
    }
}
