//! A hosted app: its name, its address, and its access rule.
//!
//! Everything a request needs of an app is computed here once, when the app is loaded.

mod id;

use std::{fmt, sync::Arc, time::Duration};

use aws_lc_rs::digest;
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use http::HeaderValue;

use super::{
    access::Access,
    activity::Activity,
    attested::AttestedUpstream,
    authentication::AuthenticationRequirement,
    basic_credentials::BasicCredentials,
    clock::Clock,
    concurrency_limit::Load,
    frame_ancestors::FrameAncestors,
    header_template::AppHeader,
    health_check::HealthCheck,
    path_rule::{PathRules, RuleIndex},
    route_activity::RouteActivity,
    session_policy::SessionPolicy,
    stray_requests::StrayRequests,
    trailing_slash::TrailingSlash,
    upstream_group::UpstreamGroup,
    upstream_health::UpstreamHealth,
    upstream_tls::UpstreamTls,
    vhost::HostLabel,
};

pub use super::upstream::{Protocol, Upstream, UpstreamScheme};
pub use id::{AppId, is_app_id, is_installation_id, is_lab_username, is_viewer_id};

/// The trust in an app: it decides which cookies are forwarded (docs/behaviour.md#cookies).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AppKind {
    /// An untrusted app: no secret of ours or of the console reaches it.
    Hosted,
    /// The console behind Ludgate: it receives its own cookies.
    Console,
}

/// The address under which browsers open an app.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Isolation {
    /// Its path on the site, and its own host, where hosts are served.
    #[default]
    Both,
    /// Its path only.
    Path,
    /// Its own host only; its path redirects there.
    Host,
}

/// The path that an app gets for a path below its mount.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum PathRewrite {
    /// The same path.
    #[default]
    Keep,
    /// This prefix in place of the mount: a path without a slash at the end, or empty.
    ReplacePrefix(Box<str>),
}

impl PathRewrite {
    /// The app gets the path below its mount.
    pub fn strip() -> PathRewrite {
        PathRewrite::ReplacePrefix("".into())
    }

    /// What replaces the mount; `None`: the path stays.
    pub fn prefix(&self) -> Option<&str> {
        match self {
            PathRewrite::Keep => None,
            PathRewrite::ReplacePrefix(prefix) => Some(prefix),
        }
    }
}

/// Whether an app is available. Checked after the access rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AppState {
    /// Available, as far as is known.
    #[default]
    Running,
    /// Not available yet.
    Starting,
    /// Scaled to zero because it was not used. A permitted request is a use, so it starts again.
    Idle,
    /// Shutting down.
    Stopping,
    /// Stopped by a person; it may be started again.
    Stopped,
    /// It failed to start.
    Failed,
    /// Ended for good, such as a finished container.
    Ended,
}

impl AppState {
    /// The word in lists and explanations.
    pub fn as_str(self) -> &'static str {
        match self {
            AppState::Running => "running",
            AppState::Starting => "starting",
            AppState::Idle => "idle",
            AppState::Stopping => "stopping",
            AppState::Stopped => "stopped",
            AppState::Failed => "failed",
            AppState::Ended => "ended",
        }
    }
}

/// The bearer tokens that count at an app.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BearerKind {
    /// JWTs of known issuers; all others belong to the app.
    #[default]
    Jwt,
    /// Also opaque tokens of the provider.
    Opaque,
}

/// A further port of an app, on a host of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublishedPort {
    /// The port, as in `<id>-<port>.<apps_domain>`.
    pub port: u16,
    /// Its access rule, which may differ from the app's.
    pub access: Access,
    /// Title in lists.
    pub label: Option<String>,
    /// Its address; `None`: the app's host, at this port.
    pub upstream: Option<Upstream>,
}

/// One app as its catalogue describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppSpec {
    /// Unique in the catalogue.
    pub id: AppId,
    /// Title in the launcher; `None`: the id.
    pub name: Option<String>,
    /// A short text for the launcher, such as an emoji.
    pub icon: Option<String>,
    /// Address of the app; the first, where it has several.
    pub upstream: Upstream,
    /// Its further addresses, with the same scheme as the first.
    pub further_upstreams: Vec<Upstream>,
    /// A visitor stays with one of several upstreams.
    pub sticky: bool,
    /// The health check of its upstreams.
    pub health: Option<HealthCheck>,
    /// The rule that admits callers.
    pub access: Access,
    /// Rules for paths below the app, in place of `access`.
    pub paths: PathRules,
    /// What it requires of the sign-in of a person that a rule admits. Boxed, because few apps
    /// require anything.
    pub authentication: Option<Box<AuthenticationRequirement>>,
    /// CORS preflights need no person.
    pub cors_preflight: bool,
    /// What becomes of the mount in the path before forwarding.
    pub path_rewrite: PathRewrite,
    /// On a path or on its own host.
    pub isolation: Isolation,
    /// Other origins of the site whose pages may show it in a frame.
    pub frame_ancestors: Option<FrameAncestors>,
    /// Further ports, each on a host of its own.
    pub published_ports: Vec<PublishedPort>,
    /// Send the app headers that name the person.
    pub identity_headers: bool,
    /// Send the app a signed token that names the person.
    pub assertion: bool,
    /// Further headers of its requests.
    pub headers: Box<[AppHeader]>,
    /// Credentials of the gateway at the app, in place of the client's.
    pub basic_auth: Option<BasicCredentials>,
    /// Send the app the person's access token of the provider.
    pub pass_access_token: bool,
    /// Send the upstream's own authority as Host.
    pub rewrite_host: bool,
    /// The app serves `<prefix>/<id>` without a slash at the end.
    pub serves_bare_path: bool,
    /// Forward bearer tokens that count as credentials.
    pub keep_authorization: bool,
    /// The bearer tokens that count.
    pub bearer: BearerKind,
    /// HTTP version of the app.
    pub protocol: Protocol,
    /// Start each connection with a PROXY protocol v2 header that names the client.
    pub proxy_protocol: bool,
    /// Deadline for the response headers.
    pub timeout: Duration,
    /// Largest request body, in bytes; `None`: no limit.
    pub max_body: Option<u64>,
    /// TLS requirements of its https upstreams.
    pub tls: UpstreamTls,
    /// What it asks of the sessions of its users.
    pub session: SessionPolicy,
    /// Whether it is available.
    pub state: AppState,
    /// The reason for the state, for callers who have access.
    pub message: Option<Box<str>>,
}

impl AppSpec {
    /// An app with defaults for everything optional.
    pub fn new(id: AppId, upstream: Upstream, access: Access, timeout: Duration) -> AppSpec {
        AppSpec {
            id,
            name: None,
            icon: None,
            upstream,
            further_upstreams: Vec::new(),
            sticky: false,
            health: None,
            access,
            paths: PathRules::default(),
            authentication: None,
            cors_preflight: false,
            path_rewrite: PathRewrite::Keep,
            isolation: Isolation::Both,
            frame_ancestors: None,
            published_ports: Vec::new(),
            identity_headers: true,
            assertion: false,
            headers: Box::default(),
            basic_auth: None,
            pass_access_token: false,
            rewrite_host: false,
            serves_bare_path: false,
            keep_authorization: false,
            bearer: BearerKind::Jwt,
            protocol: Protocol::Http1,
            proxy_protocol: false,
            timeout,
            max_body: None,
            tls: UpstreamTls::default(),
            session: SessionPolicy::default(),
            state: AppState::Running,
            message: None,
        }
    }

    /// All its upstreams in words, for messages.
    pub fn upstream_list(&self) -> UpstreamList<'_> {
        UpstreamList(self)
    }

    /// The address of a port without an upstream of its own; `None`: a unix socket has no ports,
    /// and of several upstreams none stands for all.
    pub fn port_upstream(&self, port: u16) -> Option<Upstream> {
        if !self.further_upstreams.is_empty() {
            return None;
        }
        self.upstream.at_port(port)
    }

    /// A published port as an app of its own. `None` if neither the app nor the port has an
    /// upstream for it: it must not fall back to the app itself, whose access rule differs.
    pub fn port(&self, published: &PublishedPort) -> Option<AppSpec> {
        let port = published.port;
        let title = self.name.as_deref().unwrap_or(self.id.as_str());
        Some(AppSpec {
            id: self.id.with_port(port),
            name: Some(
                published
                    .label
                    .clone()
                    .unwrap_or_else(|| format!("{title}, port {port}")),
            ),
            upstream: published
                .upstream
                .clone()
                .or_else(|| self.port_upstream(port))?,
            access: published.access.clone(),
            // These belong to the app itself, not to its ports.
            further_upstreams: Vec::new(),
            sticky: false,
            health: None,
            paths: PathRules::default(),
            cors_preflight: false,
            frame_ancestors: None,
            published_ports: Vec::new(),
            // Its upstream may be another program, which must not get the app's secrets.
            basic_auth: None,
            pass_access_token: false,
            ..self.clone()
        })
    }
}

/// The upstreams of an app, as `http://10.0.0.1:5000, http://10.0.0.2:5000`.
pub struct UpstreamList<'s>(&'s AppSpec);

impl fmt::Display for UpstreamList<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.upstream)?;
        for further in &self.0.further_upstreams {
            write!(f, ", {further}")?;
        }
        Ok(())
    }
}

/// An app as published under one address. An app with a path and a host is published twice.
#[derive(Debug)]
pub struct App {
    /// The app as its catalogue describes it.
    pub spec: AppSpec,
    /// Whether the app is trusted with the console's cookies.
    pub kind: AppKind,
    /// `<prefix>/<id>`, without a slash at the end; empty for the console and on a host. See
    /// `Site::mount_of`.
    pub mount: Box<str>,
    /// The mount as `X-Forwarded-Prefix` carries it; absent where there is none.
    pub mount_header: Option<HeaderValue>,
    /// The Host header for `rewrite_host`.
    pub upstream_host: Option<HeaderValue>,
    /// The `Origin` that matches `upstream_host`.
    pub upstream_origin: Box<str>,
    /// Label of its own host, where it has one.
    pub host: Option<HostLabel>,
    /// The tenant as browsers remember it in a cookie: a hash that does not name it. `None`: the
    /// app's address is never another app's.
    pub tenant_hash: Option<Box<str>>,
    /// Requests and connections in use.
    pub load: Load,
    /// When it was used last.
    pub activity: Activity,
    /// The last activity of a hub's route; `None` for all other apps.
    pub route_activity: Option<RouteActivity>,
    /// Whether the app serves its mount without a slash.
    pub trailing_slash: TrailingSlash,
    /// When requests of its pages outside of its mount were reported.
    pub stray_requests: StrayRequests,
    /// Whether its upstream fails, and why.
    pub upstream_health: UpstreamHealth,
    /// Its upstreams, where there are several or they are checked.
    pub group: Option<Arc<UpstreamGroup>>,
}

impl App {
    /// An app published below a mount, a path without a slash at the end, and at `host` as well.
    pub fn hosted(spec: AppSpec, mount: String, host: Option<HostLabel>) -> App {
        App {
            mount_header: HeaderValue::from_str(&mount).ok(),
            mount: mount.into(),
            host,
            ..App::on_host(spec)
        }
    }

    /// An app at the root of an origin of its own.
    pub fn on_host(spec: AppSpec) -> App {
        App {
            mount_header: None,
            upstream_host: HeaderValue::from_str(&spec.upstream.authority()).ok(),
            upstream_origin: spec.upstream.origin().into(),
            mount: "".into(),
            kind: AppKind::Hosted,
            host: None,
            tenant_hash: spec
                .upstream
                .attested()
                .map(|upstream| hash(upstream.tenant())),
            load: Load::default(),
            activity: Activity::default(),
            route_activity: None,
            trailing_slash: TrailingSlash::default(),
            stray_requests: StrayRequests::default(),
            upstream_health: UpstreamHealth::default(),
            group: UpstreamGroup::new(
                &spec.upstream,
                &spec.further_upstreams,
                spec.sticky,
                spec.health.as_ref(),
            ),
            spec,
        }
    }

    /// The console in sidecar mode: it receives every request that is not ours, from any caller.
    pub fn console(upstream: Upstream, timeout: Duration) -> Option<App> {
        let spec = AppSpec {
            identity_headers: false,
            keep_authorization: true,
            ..AppSpec::new(AppId::new("console")?, upstream, Access::Public, timeout)
        };
        Some(App {
            kind: AppKind::Console,
            ..App::on_host(spec)
        })
    }

    /// The API for people and their tools. It verifies tokens itself, so it receives requests from
    /// any caller, without cookies of ours.
    pub fn api(upstream: Upstream, timeout: Duration) -> Option<App> {
        let spec = AppSpec {
            identity_headers: false,
            keep_authorization: true,
            ..AppSpec::new(AppId::new("api")?, upstream, Access::Public, timeout)
        };
        Some(App::on_host(spec))
    }

    /// The upstream of this index, of an app that has several; else its only one.
    pub fn upstream_at(&self, index: usize) -> &Upstream {
        let members = self.group.as_deref().map(UpstreamGroup::members);
        let member = members.and_then(|members| members.get(index));
        member.map_or(&self.spec.upstream, |member| &member.upstream)
    }

    /// Whether it is a route that a hub added.
    pub fn is_hub_route(&self) -> bool {
        self.route_activity.is_some()
    }

    /// Whether a request for the mount without a slash is forwarded as it is.
    pub fn serves_bare_path(&self) -> bool {
        self.spec.path_rewrite == PathRewrite::Keep
            && (self.spec.serves_bare_path || self.trailing_slash.is_omitted())
    }

    /// One of its rules; its own for a number that it does not have.
    pub fn rule(&self, index: RuleIndex) -> &Access {
        let rule = self.spec.paths.get(index);
        rule.map_or(&self.spec.access, |rule| rule.access())
    }

    /// The wall clock for a decision about the app, in seconds since 1970. Read only if the
    /// decision depends on it; otherwise 0.
    pub fn decision_time(&self, clock: &Clock) -> i64 {
        match self.spec.authentication {
            Some(_) => clock.wall_seconds(),
            None => 0,
        }
    }

    /// Whether its own rule lets every caller in, so that no credential is read.
    pub fn is_open(&self) -> bool {
        match (self.kind, &self.spec.access) {
            (AppKind::Console, _) | (AppKind::Hosted, Access::Public) => true,
            (
                AppKind::Hosted,
                Access::User
                | Access::Group(_)
                | Access::Owner(_)
                | Access::Admins
                | Access::Person(_)
                | Access::Compound(_)
                | Access::Unknown(_),
            ) => false,
        }
    }

    /// The workload that has the address now, where that changes over time.
    pub fn tenant(&self) -> Option<&str> {
        self.attested().map(|upstream| upstream.tenant())
    }

    /// The upstream, where it proves itself over HTTP.
    pub fn attested(&self) -> Option<&Arc<dyn AttestedUpstream>> {
        self.spec.upstream.attested()
    }

    /// The id from its spec.
    pub fn id(&self) -> &AppId {
        &self.spec.id
    }

    /// The name, or the id where it has none.
    pub fn title(&self) -> &str {
        self.spec.name.as_deref().unwrap_or(self.spec.id.as_str())
    }
}

fn hash(tenant: &str) -> Box<str> {
    let hash = digest::digest(&digest::SHA256, tenant.as_bytes());
    URL_SAFE_NO_PAD.encode(&hash.as_ref()[..16]).into()
}

#[cfg(test)]
mod tests;
