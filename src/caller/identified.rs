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
    /// The token of a credential source in `Authorization`, which begins no session.
    pub header_token: Option<Secret>,
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
            header_token: None,
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
        Identified {
            live: Some(live),
            ..Identified::without_session(caller)
        }
    }

    /// The caller's token of a credential source, to see what they may see there.
    pub fn source_token(&self) -> Option<&Secret> {
        match &self.live {
            Some(live) => live.sign_in().tokens.source_token.as_ref(),
            None => self.header_token.as_ref(),
        }
    }
}
