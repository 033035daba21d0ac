//! What the credentials of a request prove.

use crate::{
    model::{
        caller::{Caller, Credential},
        secret::Secret,
    },
    session::live::Live,
};

/// A caller, with the session or token behind it.
#[derive(Debug)]
pub struct Identified {
    /// The caller.
    pub caller: Caller,
    /// The session behind the caller, where a cookie or an address proved it.
    pub live: Option<Live>,
    /// When the token behind the caller expires, in seconds since 1970.
    pub token_expires: Option<i64>,
    /// The caller's token of a credential source, to see what they may see there.
    pub source_token: Option<Secret>,
    /// The Authorization header is a credential of ours, and is not forwarded.
    pub authorization_is_ours: bool,
    /// The cookie that proved the caller may have been set by any page below the apps' domain.
    pub by_shared_cookie: bool,
}

impl Identified {
    /// A caller without a valid credential.
    pub fn anonymous() -> Identified {
        Identified::without_session(Caller::Anonymous)
    }

    /// A caller who has no session.
    pub fn without_session(caller: Caller) -> Identified {
        Identified {
            caller,
            live: None,
            token_expires: None,
            source_token: None,
            authorization_is_ours: false,
            by_shared_cookie: false,
        }
    }

    /// The person of a session, and the session.
    pub fn by_session(live: Live, credential: Credential) -> Identified {
        let sign_in = live.sign_in();
        let caller = Caller::Person {
            principal: sign_in.principal().clone(),
            credential,
        };
        let source_token = sign_in.tokens.source_token.clone();
        Identified {
            live: Some(live),
            source_token,
            ..Identified::without_session(caller)
        }
    }
}
