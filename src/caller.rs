//! Who sends a request: the session cookie, else one of the credential sources in their order, else
//! an anonymous caller.
//!
//! Invariant: a request whose credential is cached makes no call and does not wait. A caller is an
//! identity, never a permission.

pub mod bearer;
pub mod identified;
pub mod opaque_tokens;
pub mod service_tokens;
pub mod session_memo;
pub mod source;

use std::sync::Arc;

use http::HeaderValue;

use crate::{
    identity::rechecks::Rechecks,
    incoming::{IncomingRequest, Malformed, cookies::Presented},
    model::{
        app::App,
        arrival::{Provenance, RequestClass},
        caller::{Caller, Credential},
        client::Client,
        clock::{Clock, Moment},
        destination::Destination,
        principal::Principal,
        secret::Secret,
    },
    session::{
        Sessions, cookie::RecordKey, live::Live, record::SignIn,
        replication::error::SessionLoadError,
    },
};
use bearer::BearerTokens;
pub use identified::Identified;
use session_memo::SessionMemo;
use source::{CredentialSource, Evidence};

/// Identifies callers. Shared by all data threads.
#[derive(Debug)]
pub struct Callers {
    /// The sessions of signed-in people.
    sessions: Arc<Sessions>,
    /// Checks the persons of sessions again; `None`: there is no identity provider.
    rechecks: Option<Arc<Rechecks>>,
    /// Bearer tokens of our issuer and of trusted issuers; `None`: there is no identity provider.
    bearer: Option<Arc<BearerTokens>>,
    /// Tried in this order if neither a session nor a bearer token identifies the caller.
    sources: Vec<Arc<dyn CredentialSource>>,
    clock: Clock,
}

impl Callers {
    /// Identifies callers by session, by bearer token, then by `sources`.
    pub fn new(
        sessions: Arc<Sessions>,
        rechecks: Option<Arc<Rechecks>>,
        bearer: Option<Arc<BearerTokens>>,
        sources: Vec<Arc<dyn CredentialSource>>,
        clock: Clock,
    ) -> Callers {
        Callers {
            sessions,
            rechecks,
            bearer,
            sources,
            clock,
        }
    }

    /// Identifies the caller of a request to this destination. An open one needs no caller.
    ///
    /// # Errors
    /// [`Malformed::Cookies`].
    pub async fn identify(
        &self,
        request: &IncomingRequest<'_>,
        destination: &Destination,
        memo: &SessionMemo,
    ) -> Result<Identified, Malformed> {
        if destination.is_open() {
            return Ok(Identified::anonymous());
        }
        let app = &destination.app;
        let arrival = &request.arrival;
        // Cookies of a foreign page's request do not count. A WebSocket with them is refused later
        // instead of being anonymous.
        let cookies_count =
            arrival.provenance == Provenance::Own || arrival.class == RequestClass::WebSocket;
        let now = self.clock.now();
        if cookies_count
            && let Some(session) = memo.find(request, app.id(), now)
            && !session.sign_in().check().is_required()
            && !self.lacks_access_token(app, session.sign_in())
        {
            self.sessions.store.metrics().lookup("app");
            let live = Live::App(session);
            self.recheck(&live, now);
            self.renew_access_token(app, &live);
            return Ok(Identified::by_session(live, Credential::Cookie));
        }
        Box::pin(self.identify_unknown(request, destination, memo, cookies_count)).await
    }

    /// The caller of a request whose session the connection does not remember.
    async fn identify_unknown(
        &self,
        request: &IncomingRequest<'_>,
        destination: &Destination,
        memo: &SessionMemo,
        cookies_count: bool,
    ) -> Result<Identified, Malformed> {
        let cookies = request.cookies()?;
        let evidence = Evidence::new(request, Some(destination), cookies_count.then_some(cookies));
        let found = if cookies_count {
            self.find_session(cookies, request, &destination.app).await
        } else {
            Ok(None)
        };
        if let Ok(Some(live)) = &found
            && self.confirms(live, &evidence).await
        {
            memo.note(request, live);
            return Ok(self.by_live(live, destination).await);
        }
        let identified = self.by_source(&evidence).await;
        // Another replica may know this session: ask the client to retry, not to sign in.
        if matches!((&found, &identified.caller), (Err(_), Caller::Anonymous)) {
            return Ok(Identified::without_session(Caller::Unverifiable));
        }
        Ok(identified)
    }

    /// The session that the cookies prove, from memory, else from the shared store.
    async fn find_session(
        &self,
        cookies: &Presented<'_>,
        request: &IncomingRequest<'_>,
        app: &Arc<App>,
    ) -> Result<Option<Live>, SessionLoadError> {
        let found = self.find_or_load(cookies, request, app).await;
        self.sessions.store.metrics().lookup(match &found {
            Ok(Some(Live::App(_))) => "app",
            Ok(Some(Live::SignIn(_))) => "sign_in",
            Ok(None) | Err(_) => "none",
        });
        found
    }

    async fn find_or_load(
        &self,
        cookies: &Presented<'_>,
        request: &IncomingRequest<'_>,
        app: &Arc<App>,
    ) -> Result<Option<Live>, SessionLoadError> {
        let vhost = &request.arrival.vhost;
        let now = self.clock.now();
        let find = || {
            let (apps, sign_ins) = (cookies.app.iter(), cookies.sign_in.iter());
            let found = self
                .sessions
                .store
                .find(apps, sign_ins, app.id(), vhost, now);
            found.filter(|live| match live {
                Live::App(_) => true,
                Live::SignIn(sign_in) => self.may_begin_session(sign_in, app),
            })
        };
        let found = find();
        if matches!(found, Some(Live::App(_))) || !self.sessions.replication.is_enabled() {
            return Ok(found);
        }
        // Another thread may have loaded them meanwhile.
        match load_sessions(&self.sessions, cookies, request.client).await {
            Ok(()) => Ok(find()),
            Err(error) => find().map(Some).ok_or(error),
        }
    }

    /// Whether a sign-in may begin a session at this app: an app with an idle time of its own needs
    /// one that is not older. Otherwise the site would renew an expired session by itself.
    pub fn may_begin_session(&self, sign_in: &SignIn, app: &App) -> bool {
        let idle = app.spec.session.idle;
        idle.is_none_or(|idle| self.sessions.store.is_recent(sign_in, idle))
    }

    /// Whether a session counts at this app: the source that began it may require its credential.
    async fn confirms(&self, live: &Live, evidence: &Evidence<'_>) -> bool {
        match self.source_of(live.sign_in()) {
            Some(source) => source.confirms(live.sign_in(), evidence).await,
            None => true,
        }
    }

    /// The caller of a session. Where groups or ownership matter, the person of a session that
    /// another replica began is checked first, if the last confirmation is older than `recheck`.
    async fn by_live(&self, live: &Live, destination: &Destination) -> Identified {
        let sign_in = live.sign_in();
        if self.lacks_access_token(&destination.app, sign_in) {
            self.fetch_access_token(sign_in).await;
            // The provider may have ended the grant.
            if !live.is_live(self.clock.now()) {
                return Identified::without_session(Caller::Anonymous);
            }
        }
        self.renew_access_token(&destination.app, live);
        if sign_in.check().is_required() && destination.is_for_every_user() {
            self.recheck(live, self.clock.now());
            // Apps may authorize by the groups header: unconfirmed groups are left out.
            let principal = Arc::new(sign_in.principal().without_groups());
            let identified = Identified::by_session(live.clone(), Credential::Cookie);
            let caller = Caller::Person {
                principal,
                credential: Credential::Cookie,
            };
            return Identified {
                caller,
                ..identified
            };
        }
        if !sign_in.check().is_required() || self.confirm(sign_in).await {
            self.recheck(live, self.clock.now());
            return Identified::by_session(live.clone(), Credential::Cookie);
        }
        // If the provider cannot confirm the person, the person may sign in again.
        let is_over = !live.is_live(self.clock.now()) || sign_in.check().is_unusable();
        Identified::without_session(if is_over {
            Caller::Anonymous
        } else {
            Caller::Unverifiable
        })
    }

    /// Whether an app gets the person's access token, and it must be fetched first.
    fn lacks_access_token(&self, app: &App, sign_in: &SignIn) -> bool {
        let lacks = |rechecks: &Arc<Rechecks>| rechecks.lacks_access_token(sign_in);
        app.spec.pass_access_token && self.rechecks.as_ref().is_some_and(lacks)
    }

    async fn fetch_access_token(&self, sign_in: &Arc<SignIn>) {
        if let Some(rechecks) = &self.rechecks {
            Box::pin(rechecks.fetch_access_token(sign_in)).await;
        }
    }

    /// Renews the access token for an app in the background, when it expires soon.
    fn renew_access_token(&self, app: &App, live: &Live) {
        if app.spec.pass_access_token
            && let Some(rechecks) = &self.rechecks
        {
            rechecks.renew_access_token(live.sign_in());
        }
    }

    /// The caller by the first source that finds its credential on the request.
    pub async fn by_source(&self, evidence: &Evidence<'_>) -> Identified {
        if let Some(identified) = self.by_bearer(evidence.authorization).await {
            return identified;
        }
        for source in &self.sources {
            if let Some(identified) = source.identify(evidence).await {
                return identified;
            }
        }
        Identified::anonymous()
    }

    /// The caller by a bearer token of a known issuer; `None`: there is none.
    pub async fn by_bearer(&self, authorization: Option<&HeaderValue>) -> Option<Identified> {
        let bearer = self.bearer.as_ref()?;
        bearer.identify(authorization?).await
    }

    /// Checks the person of a sign-in, whose check is required. Whether they are confirmed.
    pub async fn confirm(&self, sign_in: &Arc<SignIn>) -> bool {
        match &self.rechecks {
            Some(rechecks) => Box::pin(rechecks.run_required(sign_in)).await,
            None => false,
        }
    }

    /// Checks the person of a session in the background, when that is due.
    pub fn recheck(&self, live: &Live, now: Moment) {
        let sign_in = live.sign_in();
        match (self.source_of(sign_in), &self.rechecks) {
            (Some(source), _) => source.recheck(sign_in),
            (None, Some(rechecks)) => rechecks.start_if_due(sign_in, now),
            (None, None) => {}
        }
    }

    /// Whether the person of a session was confirmed lately enough for a stream to go on, where
    /// membership or ownership matters.
    pub fn is_confirmed(&self, sign_in: &SignIn) -> bool {
        let by_source = || {
            self.source_of(sign_in)
                .is_none_or(|source| source.is_confirmed(sign_in))
        };
        !sign_in.check().is_required() && by_source()
    }

    /// The person of a source's token, as last verified; `None`: the token is no longer valid.
    pub fn person_of_token(&self, token: &Secret) -> Option<Arc<Principal>> {
        self.sources
            .iter()
            .find_map(|source| source.person_of_token(token))
    }

    /// Whether the Authorization header is a credential of ours, which no app may see.
    pub fn owns_authorization(&self, authorization: &HeaderValue, app: &App) -> bool {
        let by_issuer = |bearer: &Arc<BearerTokens>| bearer.owns(authorization);
        self.bearer.as_ref().is_some_and(by_issuer)
            || self
                .sources
                .iter()
                .any(|source| source.owns_authorization(authorization, app))
    }

    /// Whether the caller may learn that the app exists, although they may not reach it.
    pub async fn may_learn_of(&self, app: &App, token: Option<&Secret>) -> bool {
        for source in &self.sources {
            if let Some(may) = source.may_learn_of(app, token).await {
                return may;
            }
        }
        true
    }

    /// The person that another sign-in on this site proves, and the key that a sign-out form is
    /// bound to.
    pub fn person_beside(&self, cookies: &Presented<'_>) -> Option<(Arc<Principal>, RecordKey)> {
        self.sources
            .iter()
            .find_map(|source| source.person_beside(cookies))
    }

    /// The sources, for sign-in and sign-out.
    pub fn sources(&self) -> &[Arc<dyn CredentialSource>] {
        &self.sources
    }

    fn source_of(&self, sign_in: &SignIn) -> Option<&Arc<dyn CredentialSource>> {
        // Nearly every sign-in is the provider's own.
        if !sign_in.tokens.is_for_token() {
            return None;
        }
        self.sources.iter().find(|source| source.began(sign_in))
    }
}

/// Loads the sessions of these cookies into memory, where replicas share them.
///
/// # Errors
/// When one of them is not in memory and cannot be looked up.
pub async fn load_sessions(
    sessions: &Sessions,
    cookies: &Presented<'_>,
    client: Client,
) -> Result<(), SessionLoadError> {
    let (apps, sign_ins) = (cookies.app.iter(), cookies.sign_in.iter());
    sessions.replication.load(apps, sign_ins, client).await
}
