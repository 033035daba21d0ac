//! Who is asking: session cookie, then bearer token, then the console's token, then one of Arvados,
//! then nobody (behaviour section 4).

use std::{net::IpAddr, sync::Arc};

use http::{HeaderMap, header};

use super::{
    Gateway,
    address_token::AddressToken,
    decide,
    decision::{Early, Reason, Refusal},
    recognised::Recognised,
};
use crate::{
    arvados::{
        kept::Unavailable,
        tokens::{self, ArvadosTokens, Form},
    },
    authorize::{Denied, Permit},
    identity::oidc::{
        Oidc,
        bearer::{IssuerToken, VerifiedToken},
    },
    incoming::{
        Malformed,
        cookies::{self, Presented},
    },
    model::{
        access::Access,
        app::App,
        arrival::{Arrival, Provenance, RequestClass},
        caller::{Caller, Credential},
        client::Client,
        clock::Moment,
        destination::Destination,
        secret::Secret,
        site::Site,
    },
    session::{
        live::Live, provider_tokens::ProviderTokens, record::SignIn,
        replication::error::SessionLoadError,
    },
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
    pub arvados_token: Option<Secret>,
    /// A cookie proved the caller that any page below the apps' domain may have set.
    by_shared_cookie: bool,
}

impl Consulted {
    /// Nobody in particular.
    pub fn nobody() -> Consulted {
        Consulted::without_session(Caller::Anonymous)
    }

    /// A caller who has no session.
    pub fn without_session(caller: Caller) -> Consulted {
        Consulted {
            caller,
            live: None,
            token_expires: None,
            authorization_is_ours: false,
            arvados_token: None,
            by_shared_cookie: false,
        }
    }

    /// What the caller gets. A refusal that a neighbour's cookie may have brought about is judged
    /// as nobody's.
    ///
    /// # Errors
    /// What the caller gets instead of the app.
    pub fn judge(
        &self,
        arrival: &Arrival,
        destination: Destination,
        site: &Site,
    ) -> Result<Permit, Early> {
        if !self.may_be_planted(arrival, site) {
            return decide::judge(arrival, &self.caller, destination);
        }
        decide::judge(arrival, &self.caller, destination.clone())
            .or_else(|_| decide::judge(arrival, &Caller::Anonymous, destination))
    }

    /// Whether a refusal may be a neighbour's doing, who set a token of their own for the domain
    /// above both. Who opens a page is then asked to sign in, and afterwards has a session that
    /// comes first.
    fn may_be_planted(&self, arrival: &Arrival, site: &Site) -> bool {
        self.by_shared_cookie && arrival.class == RequestClass::Navigation && site.signs_in
    }

    /// The person of a session, and the session.
    pub fn by_session(live: Live, credential: Credential) -> Consulted {
        let sign_in = live.sign_in();
        let caller = Caller::Person {
            principal: sign_in.principal().clone(),
            credential,
        };
        let arvados_token = sign_in.tokens.arvados.clone();
        Consulted {
            live: Some(live),
            arvados_token,
            ..Consulted::without_session(caller)
        }
    }
}

/// What says who sends a request.
pub struct Asked<'r> {
    /// Its headers.
    pub headers: &'r HeaderMap,
    /// The head as it was understood.
    pub arrival: &'r Arrival,
    /// What it is for.
    pub destination: &'r Destination,
    /// The token of its address.
    pub token: Option<&'r AddressToken>,
    /// Who asks.
    pub client: Client,
    /// What came last on the same connection.
    pub recognised: &'r Recognised,
}

impl Gateway {
    /// Reads the credentials of a request, unless its app is public. Warm requests make no call and
    /// wait for nothing; only a token signed with an unknown key has the provider asked, once in 30
    /// s, and a token of Arvados that was not seen lately the API server.
    ///
    /// # Errors
    /// [`Malformed::Cookies`].
    pub async fn consult(&self, asked: &Asked<'_>, site: &Site) -> Result<Consulted, Malformed> {
        if decide::is_open(asked.destination) {
            return Ok(Consulted::nobody());
        }
        let Asked {
            headers, arrival, ..
        } = asked;
        let (app, now) = (&asked.destination.app, self.clock.now());
        // A foreign page's request is anonymous; a WebSocket is told apart, because it is refused
        // instead.
        let cookies_speak =
            arrival.provenance == Provenance::Own || arrival.class == RequestClass::WebSocket;
        if cookies_speak
            && let Some(session) = asked
                .recognised
                .find(headers, app.id(), &arrival.vhost, now)
            && !session.sign_in().check().is_required()
        {
            self.sessions.store.metrics().lookup("app");
            let live = Live::App(session);
            self.recheck(&live);
            return Ok(Consulted::by_session(live, Credential::Cookie));
        }
        let presented = cookies::scan(headers, &site.cookies, &arrival.vhost)?;
        let found = if cookies_speak {
            self.find(&presented, asked, now).await
        } else {
            Ok(None)
        };
        if let Ok(Some(live)) = &found
            && self.is_proved(live, &presented.access_token, app).await
        {
            asked.recognised.note(headers, &presented, live);
            return Ok(self.by_live(live, app).await);
        }
        let consulted = self.by_tokens(asked, &presented, cookies_speak, site).await;
        // Whoever is signed in with another replica is asked to come back, not to sign in.
        if matches!((&found, &consulted.caller), (Err(_), Caller::Anonymous)) {
            return Ok(Consulted::without_session(Caller::Unverifiable));
        }
        Ok(consulted)
    }

    /// The session that the cookies prove, from memory; what is not there another replica may have.
    async fn find(
        &self,
        presented: &Presented<'_>,
        asked: &Asked<'_>,
        now: Moment,
    ) -> Result<Option<Live>, SessionLoadError> {
        let (app, vhost) = (asked.destination.app.id(), &asked.arrival.vhost);
        let find = || {
            self.sessions.store.find(
                presented.app.iter(),
                presented.sign_in.iter(),
                app,
                vhost,
                now,
            )
        };
        let found = find();
        if matches!(found, Some(Live::App(_))) || !self.sessions.replication.is_enabled() {
            return Ok(found);
        }
        let brought = Box::pin(self.sessions.replication.load(
            presented.app.iter(),
            presented.sign_in.iter(),
            asked.client,
        ))
        .await;
        match (find(), brought) {
            (None, Err(error)) => Err(error),
            (found, _) => Ok(found),
        }
    }

    /// The caller that a token proves, wherever it stands.
    async fn by_tokens(
        &self,
        asked: &Asked<'_>,
        presented: &Presented<'_>,
        cookies_speak: bool,
        site: &Site,
    ) -> Consulted {
        let (headers, app) = (asked.headers, &asked.destination.app);
        let by_bearer = self.bearer(headers).await;
        if let (Caller::Anonymous, true, false) = (
            &by_bearer.caller,
            cookies_speak,
            presented.access_token.is_empty(),
        ) {
            return Box::pin(self.by_console_token(&presented.access_token)).await;
        }
        let (Some(arvados), Some(_), Caller::Anonymous) =
            (&self.arvados, app.container(), &by_bearer.caller)
        else {
            return by_bearer;
        };
        let by_arvados = self.by_arvados_tokens(arvados, asked, presented, cookies_speak, site);
        Box::pin(by_arvados).await.unwrap_or(by_bearer)
    }

    /// The caller that a token of Arvados proves.
    async fn by_arvados_tokens(
        &self,
        arvados: &Arc<ArvadosTokens>,
        asked: &Asked<'_>,
        presented: &Presented<'_>,
        cookies_speak: bool,
        site: &Site,
    ) -> Option<Consulted> {
        let client = asked.client.address;
        if let Some(consulted) = arvados_bearer(arvados, asked.headers, client).await {
            return Some(consulted);
        }
        match asked.token {
            Some(AddressToken::Several) => {
                return Some(Consulted::without_session(Caller::BadToken));
            }
            Some(AddressToken::One(token)) => {
                return Some(by_token(arvados, token, Credential::Address, client).await);
            }
            None => {}
        }
        let tokens = presented
            .arvados
            .iter()
            .filter(|_| cookies_speak)
            .filter_map(tokens::of_cookie);
        by_cookies(arvados, tokens, site, client).await
    }

    /// The caller of a session, once it may be believed. One that another replica has begun, and
    /// whose proof is older than `recheck`, is proved again first where groups or ownership matter.
    async fn by_live(&self, live: &Live, app: &App) -> Consulted {
        let sign_in = live.sign_in();
        if app.spec.access == Access::User && sign_in.check().is_required() {
            self.recheck(live);
            // Apps may authorize by the groups header, so it carries none that were not proved.
            let principal = Arc::new(sign_in.principal().without_groups());
            let caller = Caller::Person {
                principal,
                credential: Credential::Cookie,
            };
            return Consulted {
                caller,
                ..Consulted::by_session(live.clone(), Credential::Cookie)
            };
        }
        if !sign_in.check().is_required() || self.proves(sign_in).await {
            self.recheck(live);
            return Consulted::by_session(live.clone(), Credential::Cookie);
        }
        // If asking the provider again cannot help, the person may sign in again.
        let is_over = !live.is_live(self.clock.now()) || sign_in.check().is_unusable();
        Consulted::without_session(if is_over {
            Caller::Anonymous
        } else {
            Caller::Unverifiable
        })
    }

    /// Whether the person of a sign-in can be proved now.
    pub async fn proves(&self, sign_in: &Arc<SignIn>) -> bool {
        match &self.rechecks {
            Some(rechecks) => Box::pin(rechecks.run_required(sign_in)).await,
            None => false,
        }
    }

    /// Revokes the refresh token of an ended sign-in at the provider, in the background.
    pub fn revoke_at_provider(&self, sign_in: &Arc<SignIn>) {
        if let Some(oidc) = &self.oidc {
            let (oidc, sign_in) = (oidc.clone(), sign_in.clone());
            self.control
                .spawn(async move { oidc.logout.revoke_refresh_token(&sign_in).await });
        }
    }

    /// Has the proof behind a session renewed in the background, when that is due.
    pub fn recheck(&self, live: &Live) {
        let sign_in = live.sign_in();
        let ProviderTokens {
            arvados: of_arvados,
            console,
            ..
        } = &sign_in.tokens;
        match (&self.arvados, &self.rechecks) {
            (Some(arvados), _) if of_arvados.is_some() => arvados.recheck(sign_in),
            // The console's token is looked at on every request.
            (_, Some(rechecks)) if of_arvados.is_none() && console.is_none() => {
                rechecks.start_if_due(sign_in)
            }
            (_, _) => {}
        }
    }

    /// Who may not reach a container and may not see its record either is not told that it exists
    /// (behaviour row 18).
    pub async fn veil(&self, early: Early, token: Option<&Secret>) -> Early {
        match early {
            Early::Refuse(refusal) => Early::Refuse(self.veil_refusal(refusal, token).await),
            Early::Endpoint(_)
            | Early::Launcher
            | Early::Redirect { .. }
            | Early::SignIn { .. } => early,
        }
    }

    /// The same for a refusal; `token` is the caller's own.
    pub async fn veil_refusal(&self, refusal: Refusal, token: Option<&Secret>) -> Refusal {
        let Refusal {
            reason: Reason::Denied(Denied::NotOwner),
            app: Some(app),
        } = &refusal
        else {
            return refusal;
        };
        let Some(gateway) = app.container() else {
            return refusal;
        };
        let readable = match (&self.arvados, token) {
            (Some(arvados), Some(token)) => arvados.can_read(token, gateway.container).await,
            (_, _) => false,
        };
        if readable {
            refusal
        } else {
            Refusal {
                reason: Reason::UnknownApp,
                app: None,
            }
        }
    }

    /// Whether the Authorization header is a token that only we are to see, whoever asks for what:
    /// one of our own issuer, and at a container one that has Arvados' unmistakable form or is
    /// known to be somebody's.
    pub fn authorization_is_ours(&self, headers: &HeaderMap, app: &App) -> bool {
        let Some(value) = headers.get(header::AUTHORIZATION) else {
            return false;
        };
        let ours = |oidc: &Arc<Oidc>| {
            oidc.bearer.cached(value).is_some() || oidc.bearer.parse_header(value).is_some()
        };
        let of_issuer = self.oidc.as_ref().is_some_and(ours);
        let of_arvados = || {
            let token = tokens::of_authorization(value.as_bytes());
            let known = |token: &str| {
                self.arvados
                    .as_ref()
                    .is_some_and(|arvados| arvados.is_known(token))
            };
            app.container().is_some()
                && token.is_some_and(|(token, form)| form == Form::Sure || known(token))
        };
        of_issuer || of_arvados()
    }

    /// The caller that a bearer token of our issuer proves.
    pub async fn bearer(&self, headers: &HeaderMap) -> Consulted {
        let (Some(oidc), Some(value)) = (&self.oidc, headers.get(header::AUTHORIZATION)) else {
            return Consulted::nobody();
        };
        let judged = match (oidc.bearer.cached(value), oidc) {
            (Some(judged), _) => Ok(judged),
            (None, oidc) => match oidc.bearer.parse_header(value) {
                Some(token) => Box::pin(self.judge_token(oidc, token)).await,
                None => return Consulted::nobody(),
            },
        };
        match judged {
            Ok(judged) => {
                let caller = Caller::Person {
                    principal: judged.principal,
                    credential: Credential::Bearer,
                };
                Consulted {
                    token_expires: Some(judged.expires),
                    ..Consulted::without_session(caller)
                }
            }
            Err(caller) => Consulted::without_session(caller),
        }
    }

    /// Judges a token of our issuer; a signing key that is not known is looked for first.
    ///
    /// # Errors
    /// What the caller is instead of a person.
    pub async fn judge_token(
        &self,
        oidc: &Arc<Oidc>,
        token: IssuerToken<'_>,
    ) -> Result<VerifiedToken, Caller> {
        if let Some(key) = oidc.bearer.missing_key(token) {
            if !oidc.is_ready() {
                return Err(Caller::Unverifiable);
            }
            let asking: Arc<Oidc> = oidc.clone();
            // A task that failed leaves the keys as they are, and the token is refused.
            let _ = self
                .control
                .spawn(async move { asking.bearer.look_for_key(key).await })
                .await;
        }
        oidc.bearer.verify(token).map_err(|error| {
            tracing::debug!(%error, "a token of our issuer was refused");
            Caller::BadToken
        })
    }
}

/// The caller that an Arvados token in `Authorization` proves. It makes no session. One that only
/// looks like an old token, and is none, is the app's own business.
async fn arvados_bearer(
    arvados: &ArvadosTokens,
    headers: &HeaderMap,
    client: IpAddr,
) -> Option<Consulted> {
    let value = headers.get(header::AUTHORIZATION)?;
    let (token, form) = tokens::of_authorization(value.as_bytes())?;
    let token = Secret::new(token);
    let caller = match (arvados.person(&token, client).await, form) {
        (Ok(Some(principal)), _) => Caller::Person {
            principal,
            credential: Credential::Bearer,
        },
        (Ok(None), Form::Sure) => Caller::BadToken,
        (Ok(None), Form::Old) => return None,
        (Err(Unavailable), _) => Caller::Unverifiable,
    };
    Some(Consulted {
        authorization_is_ours: true,
        arvados_token: Some(token),
        ..Consulted::without_session(caller)
    })
}

/// The caller that the tokens in cookies prove. Two people who both hold are no answer to who is
/// asking.
async fn by_cookies(
    arvados: &Arc<ArvadosTokens>,
    tokens: impl Iterator<Item = Secret>,
    site: &Site,
    client: IpAddr,
) -> Option<Consulted> {
    let mut proved: Option<Consulted> = None;
    for token in tokens {
        let consulted = by_token(arvados, &token, Credential::Cookie, client).await;
        match (&consulted.caller, &proved) {
            (Caller::Person { principal, .. }, Some(other)) => {
                if other
                    .caller
                    .principal()
                    .is_some_and(|person| person.subject != principal.subject)
                {
                    return None;
                }
            }
            (Caller::Person { .. }, None) => proved = Some(consulted),
            // An old cookie, or one that cannot be checked now, is no reason to refuse somebody who
            // could sign in; where nobody can, it is.
            (Caller::Unverifiable, None) if !site.signs_in => return Some(consulted),
            (Caller::BadToken | Caller::Unverifiable | Caller::Anonymous, _) => {}
        }
    }
    proved.map(|proved| Consulted {
        by_shared_cookie: true,
        ..proved
    })
}

/// The caller that a token in an address or a cookie proves, with the sign-in that stands on it.
async fn by_token(
    arvados: &Arc<ArvadosTokens>,
    token: &Secret,
    credential: Credential,
    client: IpAddr,
) -> Consulted {
    match arvados.sign_in(token, client).await {
        Ok(Some(sign_in)) => {
            arvados.recheck(&sign_in);
            Consulted::by_session(Live::SignIn(sign_in), credential)
        }
        Ok(None) => Consulted::without_session(Caller::BadToken),
        Err(Unavailable) => Consulted::without_session(Caller::Unverifiable),
    }
}
