//! Who is asking: session cookie, then bearer token, then a token of Arvados, then nobody (behaviour section 4).

use std::sync::Arc;

use http::{HeaderMap, header};

use super::{
    Gateway,
    address_token::AddressToken,
    decision::{Early, Reason, Refusal},
};
use crate::{
    arvados::kept::Unavailable,
    authorize::Denied,
    identity::{
        arvados_token::{self, ArvadosTokens, Form},
        oidc::Oidc,
    },
    incoming::{Malformed, cookies},
    model::{
        app::App,
        arrival::{Arrival, Provenance, RequestClass},
        caller::{Caller, Credential},
        clock::Moment,
        secret::Secret,
        site::Site,
    },
    session::store::Live,
};

/// What the credentials said.
pub struct Consulted {
    /// The caller.
    pub caller: Caller,
    /// The session behind the caller, when a cookie or an address proved it.
    pub live: Option<Live>,
    /// When the token behind the caller expires, in seconds since 1970.
    pub token_expires: Option<i64>,
    /// The Authorization header was for us and is not for the app.
    pub authorization_is_ours: bool,
    /// The caller's own Arvados token, to see what they may see.
    arvados: Option<Secret>,
}

impl Consulted {
    /// Nobody in particular.
    pub fn nobody() -> Consulted {
        Consulted::without_session(Caller::Anonymous)
    }

    fn without_session(caller: Caller) -> Consulted {
        Consulted { caller, live: None, token_expires: None, authorization_is_ours: false, arvados: None }
    }

    fn by_session(live: Live, credential: Credential) -> Consulted {
        let sign_in = live.sign_in();
        let caller = Caller::Person { principal: sign_in.principal().clone(), credential };
        let arvados = sign_in.tokens.arvados.clone();
        Consulted { live: Some(live), arvados, ..Consulted::without_session(caller) }
    }
}

/// What a request brings beside its cookies.
pub struct Asked<'r> {
    /// Its headers.
    pub headers: &'r HeaderMap,
    /// The head as it was understood.
    pub arrival: &'r Arrival,
    /// The app it is for.
    pub app: &'r App,
    /// The token of its address.
    pub from_address: Option<&'r AddressToken>,
}

impl Gateway {
    /// Reads the credentials of a request to an app that is not public. Warm requests make no call and wait
    /// for nothing; only a token signed with an unknown key has the provider asked, once in 30 s, and a token
    /// of Arvados that was not seen lately the API server.
    ///
    /// # Errors
    /// [`Malformed::Cookies`].
    pub async fn consult(&self, asked: &Asked<'_>, site: &Site, now: Moment) -> Result<Consulted, Malformed> {
        let Asked { headers, arrival, app, .. } = asked;
        let presented = cookies::scan(headers, &site.cookies, &arrival.place)?;
        // A foreign page's request is anonymous; a WebSocket is told apart, because it is refused instead.
        let cookies_speak = arrival.provenance == Provenance::Own || arrival.class == RequestClass::WebSocket;
        if cookies_speak {
            let (own, sign_in) = (presented.app.iter(), presented.sign_in.iter());
            if let Some(live) = self.sessions.find(own, sign_in, app.id(), &arrival.place, now) {
                self.recheck(&live);
                return Ok(Consulted::by_session(live, Credential::Cookie));
            }
        }
        let by_bearer = self.bearer(headers).await;
        let (Some(arvados), Some(_), Caller::Anonymous) = (&self.arvados, app.container(), &by_bearer.caller)
        else {
            return Ok(by_bearer);
        };
        if let Some(consulted) = arvados_bearer(arvados, headers).await {
            return Ok(consulted);
        }
        match asked.from_address {
            Some(AddressToken::Several) => return Ok(Consulted::without_session(Caller::BadToken)),
            Some(AddressToken::One(token)) => {
                return Ok(by_token(arvados, token, Credential::Address).await);
            }
            None => {}
        }
        if cookies_speak {
            for token in presented.arvados.iter().filter_map(arvados_token::of_cookie) {
                let consulted = by_token(arvados, &token, Credential::Cookie).await;
                // An old cookie is no reason to refuse somebody who could sign in.
                if !matches!(consulted.caller, Caller::BadToken) {
                    return Ok(consulted);
                }
            }
        }
        Ok(by_bearer)
    }

    /// Has the proof behind a session renewed in the background, when that is due.
    pub fn recheck(&self, live: &Live) {
        if let (Some(arvados), Some(_)) = (&self.arvados, &live.sign_in().tokens.arvados) {
            arvados.recheck(live.sign_in());
        }
    }

    /// Who may not reach a container and may not see its record either is not told that it exists
    /// (behaviour row 18).
    pub async fn veil(&self, early: Early, consulted: &Consulted) -> Early {
        let Early::Refuse(Refusal { reason: Reason::Denied(Denied::NotOwner), app: Some(app) }) = &early
        else {
            return early;
        };
        let Some(gateway) = app.container() else { return early };
        let readable = match (&self.arvados, &consulted.arvados) {
            (Some(arvados), Some(token)) => arvados.can_read(token, gateway.container).await,
            (_, _) => false,
        };
        if readable { early } else { Early::Refuse(Refusal { reason: Reason::UnknownApp, app: None }) }
    }

    /// Whether the Authorization header is a token that only we are to see, whoever asks for what: one of our
    /// own issuer, and at a container one that has Arvados' unmistakable form.
    pub fn authorization_is_ours(&self, headers: &HeaderMap, app: &App) -> bool {
        let Some(value) = headers.get(header::AUTHORIZATION) else { return false };
        let of_issuer = self.oidc.as_ref().is_some_and(|oidc| oidc.claims_to_be_ours(value).is_some());
        let of_arvados = || {
            let token = arvados_token::of_authorization(value.as_bytes());
            app.container().is_some() && token.is_some_and(|(_, form)| form == Form::V2)
        };
        of_issuer || of_arvados()
    }

    /// The caller that a bearer token of our issuer proves.
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
                Consulted { token_expires: Some(judged.expires), ..Consulted::without_session(caller) }
            }
            Err(error) => {
                tracing::debug!(%error, "a bearer token of our issuer was refused");
                Consulted::without_session(Caller::BadToken)
            }
        }
    }
}

/// The caller that an Arvados token in `Authorization` proves. It makes no session. One that only looks like
/// an old token, and is none, is the app's own business.
async fn arvados_bearer(arvados: &ArvadosTokens, headers: &HeaderMap) -> Option<Consulted> {
    let value = headers.get(header::AUTHORIZATION)?;
    let (token, form) = arvados_token::of_authorization(value.as_bytes())?;
    let token = Secret::new(token);
    let caller = match (arvados.person(&token).await, form) {
        (Ok(Some(principal)), _) => Caller::Person { principal, credential: Credential::Bearer },
        (Ok(None), Form::V2) => Caller::BadToken,
        (Ok(None), Form::Old) => return None,
        (Err(Unavailable), _) => Caller::Unverifiable,
    };
    Some(Consulted {
        authorization_is_ours: true,
        arvados: Some(token),
        ..Consulted::without_session(caller)
    })
}

/// The caller that a token in an address or a cookie proves, with the sign-in that stands on it.
async fn by_token(arvados: &Arc<ArvadosTokens>, token: &Secret, credential: Credential) -> Consulted {
    match arvados.sign_in(token).await {
        Ok(Some(sign_in)) => {
            arvados.recheck(&sign_in);
            Consulted::by_session(Live::SignIn(sign_in), credential)
        }
        Ok(None) => Consulted::without_session(Caller::BadToken),
        Err(Unavailable) => Consulted::without_session(Caller::Unverifiable),
    }
}
