//! Who is asking, as the credentials on the request say. It says who, never may.

use std::sync::Arc;

use super::principal::Principal;

/// The caller of a request.
#[derive(Clone, Debug)]
pub enum Caller {
    /// No credential that counts.
    Anonymous,
    /// A person, and what proved it.
    Person {
        /// The person.
        principal: Arc<Principal>,
        /// What proved it.
        credential: Credential,
    },
    /// A token of our own issuer, or of Arvados, that does not hold: refused, never forwarded
    /// (behaviour row 20).
    BadToken,
    /// Credentials that could not be checked now; nothing is decided on a guess.
    Unverifiable,
}

/// What proved the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Credential {
    /// A session or sign-in cookie: counts only where the browser was led by our own origin.
    Cookie,
    /// `Authorization: Bearer`: cannot be sent by a foreign page.
    Bearer,
    /// A token in the address: whoever made the link had it.
    Address,
}

impl Caller {
    /// The person, if there is one.
    pub fn principal(&self) -> Option<&Arc<Principal>> {
        match self {
            Caller::Person { principal, .. } => Some(principal),
            Caller::Anonymous | Caller::BadToken | Caller::Unverifiable => None,
        }
    }
}
