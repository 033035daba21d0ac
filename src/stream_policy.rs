//! Whether an open stream may go on, by the rule for a new request at this moment.

use std::{cell::RefCell, rc::Rc, sync::Arc};

use http::{HeaderMap, Method};

use crate::{
    authorize::{Denied, Grounds, Permit, check_rules},
    caller::Identified,
    cluster::pod_logs::PodOfApp,
    decide::path_rules::rules_for,
    forward::is_event_stream,
    gateway::Gateway,
    model::{
        app::{App, AppKind},
        destination::is_for_every_user,
        path_rule::RuleSet,
        principal::Principal,
        secret::Secret,
        session_policy::KeepAlive,
        vhost::VirtualHost,
    },
    session::{live::Live, usage::Usage},
    streams::{RevocationReason, StreamPolicy},
};

/// What a request was permitted by.
pub struct Grant<'r> {
    /// The permit.
    pub permit: &'r Permit,
    /// The method of the request.
    pub method: &'r Method,
    /// Where the request arrived.
    pub vhost: VirtualHost,
    /// The use of its session.
    pub usage: Option<&'r Usage>,
    /// When its token expires, in seconds since 1970.
    pub token_expires: Option<i64>,
    /// The token in `Authorization` that proved the person.
    pub header_token: Option<Secret>,
}

/// The policy of the last request on a connection. The next request is mostly of the same person to
/// the same app, and shares it.
#[derive(Debug, Default)]
pub struct LastStream(RefCell<Option<Rc<AppStream>>>);

impl LastStream {
    /// The policy of this grant.
    pub fn policy(&self, gateway: &Arc<Gateway>, grant: Grant<'_>) -> Rc<AppStream> {
        let mut last = self.0.borrow_mut();
        if let Some(policy) = last.as_ref().filter(|policy| policy.is_for(&grant)) {
            return policy.clone();
        }
        let policy = Rc::new(AppStream::new(gateway.clone(), grant));
        // A token in a header is not held for as long as the connection lives.
        *last = Some(policy.clone()).filter(|policy| policy.header_token.is_none());
        policy
    }
}

/// A stream of an app.
#[derive(Debug)]
pub struct AppStream {
    gateway: Arc<Gateway>,
    app: Arc<App>,
    vhost: VirtualHost,
    /// What selects the rules, where the app has several. Boxed, because most apps have one.
    selector: Option<Box<RuleSelector>>,
    usage: Option<Usage>,
    principal: Option<Arc<Principal>>,
    token_expires: Option<i64>,
    /// The token in `Authorization` that proved the person.
    header_token: Option<Secret>,
}

/// The parts of a request by which the rules of its app are selected.
#[derive(Debug)]
struct RuleSelector {
    /// The path below the app's root.
    path: Box<str>,
    method: Method,
    /// It was permitted as a CORS preflight.
    is_preflight: bool,
}

impl RuleSelector {
    /// `None` where the app's own rule is for every request.
    fn new(grant: &Grant<'_>) -> Option<Box<RuleSelector>> {
        let is_preflight = grant.permit.grounds() == Grounds::Preflight;
        let is_needed = is_preflight || !grant.permit.app().spec.paths.is_empty();
        is_needed.then(|| {
            Box::new(RuleSelector {
                path: grant.permit.destination().path().into(),
                method: grant.method.clone(),
                is_preflight,
            })
        })
    }
}

impl AppStream {
    /// A stream that was just permitted. The person of a session is checked again; a token in a
    /// header counts until it expires.
    pub fn new(gateway: Arc<Gateway>, grant: Grant<'_>) -> AppStream {
        AppStream {
            gateway,
            app: grant.permit.app().clone(),
            vhost: grant.vhost,
            selector: RuleSelector::new(&grant),
            usage: grant.usage.cloned(),
            principal: grant.permit.principal().cloned(),
            token_expires: grant.token_expires,
            header_token: grant.header_token,
        }
    }

    /// The policy of a response: of an open stream if it is server-sent events.
    pub fn for_response(self: Rc<Self>, headers: &HeaderMap) -> Rc<dyn StreamPolicy> {
        if self.counts_while_open(&self.app) && is_event_stream(headers) {
            return Rc::new(OpenAppStream(self));
        }
        self
    }

    /// The policy of a WebSocket.
    pub fn for_websocket(self: Rc<Self>) -> Rc<dyn StreamPolicy> {
        if self.counts_while_open(&self.app) {
            return Rc::new(OpenAppStream(self));
        }
        self
    }

    /// Whether the open stream counts as use of its session.
    fn counts_while_open(&self, app: &App) -> bool {
        app.spec.session.keep_alive == KeepAlive::Open && self.usage.is_some()
    }

    /// Whether the policy of this grant is the same.
    fn is_for(&self, grant: &Grant<'_>) -> bool {
        let person = self.principal.as_ref().map(Arc::as_ptr);
        person == grant.permit.principal().map(Arc::as_ptr)
            && self.usage.as_ref() == grant.usage
            && Arc::ptr_eq(&self.app, grant.permit.app())
            && self.vhost == grant.vhost
            && self.token_expires == grant.token_expires
            && self.selector.is_none()
            && grant.permit.grounds() != Grounds::Preflight
            && self.header_token.is_none()
            && grant.header_token.is_none()
    }

    /// The rules that apply to the stream by the app's present form. Rules of paths that are newer
    /// than the stream apply all at once: the app must not be reached around them.
    fn rules(&self, app: &App) -> RuleSet {
        match &self.selector {
            Some(selector) => {
                let is_free = selector.is_preflight && app.spec.cors_preflight;
                rules_for(app, &selector.path, &selector.method, is_free)
            }
            None => app.spec.paths.all_with_own(),
        }
    }

    fn check_session(&self, usage: &Usage, app: &App) -> Result<(), RevocationReason> {
        let callers = &self.gateway.callers;
        if !usage.is_live() {
            return Err(RevocationReason::SessionEnded);
        }
        // A stream that outlasts the interval of checks has the person checked, as a request would.
        callers.recheck(usage.live(), self.gateway.clock.now());
        let sign_in = usage.live().sign_in();
        if !callers.is_confirmed(sign_in) && !is_for_every_user(app, self.rules(app)) {
            return Err(RevocationReason::SessionEnded);
        }
        self.check_access(app, Some(&sign_in.principal()))
    }

    fn check_access(&self, app: &App, person: Option<&Principal>) -> Result<(), RevocationReason> {
        check_rules(app, self.rules(app), person)
            .map(|_| ())
            .map_err(|_| RevocationReason::NoLongerAllowed)
    }
}

impl StreamPolicy for AppStream {
    fn check(&self) -> Result<(), RevocationReason> {
        if self.app.kind == AppKind::Console {
            return Ok(());
        }
        let gateway = &self.gateway;
        let now = gateway.clock.wall_seconds();
        if self.token_expires.is_some_and(|expires| now >= expires) {
            return Err(RevocationReason::SessionEnded);
        }
        let app = gateway.catalog.still_published(&self.app, &self.vhost);
        let app = app.ok_or(RevocationReason::AppGone)?;
        match (&self.usage, &self.header_token) {
            (Some(usage), _) => self.check_session(usage, &app),
            (None, Some(token)) => {
                let person = gateway.callers.person_of_token(token);
                let person = person.ok_or(RevocationReason::SessionEnded)?;
                self.check_access(&app, Some(&person))
            }
            (None, None) => self.check_access(&app, self.principal.as_deref()),
        }
    }
}

/// A stream that counts as use of its session for as long as it may stay open. The check comes
/// first, so that neither a revoked session nor lost rights are prolonged; no use moves
/// `session.lifetime`.
#[derive(Debug)]
struct OpenAppStream(Rc<AppStream>);

impl StreamPolicy for OpenAppStream {
    fn check(&self) -> Result<(), RevocationReason> {
        let OpenAppStream(stream) = self;
        stream.check()?;
        // By the app's present form: a reload may have changed what counts as use.
        let catalog = &stream.gateway.catalog;
        let app = catalog.still_published(&stream.app, &stream.vhost);
        if let (Some(app), Some(usage)) = (app, &stream.usage)
            && stream.counts_while_open(&app)
        {
            usage.touch();
        }
        Ok(())
    }
}

/// The log of a pod: for members of its app's group, independent of the app's access rule.
#[derive(Debug)]
pub struct LogStream {
    gateway: Arc<Gateway>,
    pod: PodOfApp,
    principal: Arc<Principal>,
    live: Option<Live>,
    token_expires: Option<i64>,
}

impl LogStream {
    /// The log of this pod for a person.
    pub fn new(
        gateway: Arc<Gateway>,
        pod: &PodOfApp,
        principal: Arc<Principal>,
        caller: Identified,
    ) -> LogStream {
        LogStream {
            gateway,
            pod: pod.clone(),
            principal,
            live: caller.live,
            token_expires: caller.token_expires,
        }
    }

    /// Whether the person may read it, by the apps and groups of this moment.
    ///
    /// # Errors
    /// `None`: there is no such app.
    pub fn authorize(&self) -> Result<(), Option<Denied>> {
        let snapshot = self.gateway.catalog.load();
        let person = match &self.live {
            Some(live) => live.sign_in().principal().clone(),
            None => self.principal.clone(),
        };
        let group_of = |app: &str| snapshot.group_of(&self.pod.namespace, app);
        let mut groups = self.pod.apps().filter_map(group_of).peekable();
        groups.peek().ok_or(None)?;
        // The person must be in the groups of all apps that the pod's label may mean: an app with a
        // fitting name then gives access to nothing.
        if groups.all(|group| person.is_in(group)) {
            Ok(())
        } else {
            Err(Some(Denied::NotInGroup))
        }
    }

    fn is_session_live(&self) -> bool {
        let gateway = &self.gateway;
        self.live.as_ref().is_none_or(|live| {
            live.is_live(gateway.clock.now()) && gateway.callers.is_confirmed(live.sign_in())
        })
    }
}

impl StreamPolicy for LogStream {
    fn check(&self) -> Result<(), RevocationReason> {
        let now = self.gateway.clock.wall_seconds();
        let is_expired = self.token_expires.is_some_and(|expires| now >= expires);
        if is_expired || !self.is_session_live() {
            return Err(RevocationReason::SessionEnded);
        }
        self.authorize().map_err(|denied| match denied {
            None => RevocationReason::AppGone,
            Some(_) => RevocationReason::NoLongerAllowed,
        })
    }
}
