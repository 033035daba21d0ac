//! Who is asking: session cookie, then bearer token, then nobody (behaviour section 4).

use std::sync::Arc;

use http::{HeaderMap, header};

use super::Gateway;
use crate::{
    identity::oidc::Oidc,
    incoming::{Malformed, cookies},
    model::{
        app::App,
        arrival::{Arrival, Provenance, RequestClass},
        caller::{Caller, Credential},
        clock::Moment,
        site::Site,
    },
    session::store::Live,
};

/// What the credentials said.
pub struct Consulted {
    /// The caller.
    pub caller: Caller,
    /// The session behind the caller, when a cookie proved it.
    pub live: Option<Live>,
    /// When the token behind the caller expires, in seconds since 1970.
    pub token_expires: Option<i64>,
}

impl Consulted {
    /// Nobody in particular.
    pub fn nobody() -> Consulted {
        Consulted::without_session(Caller::Anonymous)
    }

    fn without_session(caller: Caller) -> Consulted {
        Consulted { caller, live: None, token_expires: None }
    }
}

impl Gateway {
    /// Reads the credentials of a request to an app that is not public. Warm requests make no call and wait
    /// for nothing; only a token signed with an unknown key has the provider asked, once in 30 s.
    ///
    /// # Errors
    /// [`Malformed::Cookies`].
    pub async fn consult(
        &self,
        headers: &HeaderMap,
        arrival: &Arrival,
        app: &App,
        site: &Site,
        now: Moment,
    ) -> Result<Consulted, Malformed> {
        let place = &arrival.place;
        let presented = cookies::scan(headers, &site.cookies, place)?;
        // A foreign page's request is anonymous; a WebSocket is told apart, because it is refused instead.
        if arrival.provenance == Provenance::Own || arrival.class == RequestClass::WebSocket {
            let (own, sign_in) = (presented.app.iter(), presented.sign_in.iter());
            let live = self.sessions.find(own, sign_in, app.id(), place, now);
            if let Some(live) = live {
                let principal = live.sign_in().principal().clone();
                let caller = Caller::Person { principal, credential: Credential::Cookie };
                return Ok(Consulted { caller, live: Some(live), token_expires: None });
            }
        }
        Ok(self.bearer(headers).await)
    }

    /// Whether the Authorization header is a token of our own issuer, and so never for an app.
    pub fn authorization_is_ours(&self, headers: &HeaderMap) -> bool {
        let (Some(oidc), Some(value)) = (&self.oidc, headers.get(header::AUTHORIZATION)) else {
            return false;
        };
        oidc.claims_to_be_ours(value).is_some()
    }

    /// The caller that a bearer token proves.
    pub async fn bearer(&self, headers: &HeaderMap) -> Consulted {
        let (Some(oidc), Some(value)) = (&self.oidc, headers.get(header::AUTHORIZATION)) else {
            return Consulted::nobody();
        };
        let Some(token) = oidc.claims_to_be_ours(value) else { return Consulted::nobody() };
        if let Some(key) = oidc.missing_key(token) {
            if !oidc.is_ready() {
                return Consulted::without_session(Caller::Unverifiable);
            }
            let asking: Arc<Oidc> = oidc.clone();
            // A task that failed leaves the keys as they are, and the token is refused.
            let _ = self.control.spawn(async move { asking.look_for_key(key).await }).await;
        }
        match oidc.judge_bearer(token) {
            Ok(judged) => {
                let principal = Arc::new(judged.principal);
                let caller = Caller::Person { principal, credential: Credential::Bearer };
                Consulted { caller, live: None, token_expires: Some(judged.expires) }
            }
            Err(error) => {
                tracing::debug!(%error, "a bearer token of our issuer was refused");
                Consulted::without_session(Caller::BadToken)
            }
        }
    }
}
