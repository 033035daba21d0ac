//! A hosted app: a name, where it runs, and who may reach it.
//!
//! Everything a request needs of an app is computed here once, when the app is loaded.

use std::{borrow::Borrow, fmt, net::SocketAddr, path::Path, sync::Arc, time::Duration};

use http::HeaderValue;

use super::{
    access::Access, bare_path::BarePath, container::ContainerGateway, load::Load,
    upstream_tls::UpstreamTls, uuid::Uuid, vhost::HostLabel,
};

/// The id of an app: `[a-z0-9]([a-z0-9-]{0,57}[a-z0-9])?`, so that a Service `app-<id>` is a DNS
/// label.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AppId(Arc<str>);

impl AppId {
    /// `None` when the text does not follow the grammar.
    pub fn new(text: &str) -> Option<AppId> {
        is_app_id(text.as_bytes()).then(|| AppId(text.into()))
    }

    /// The name of one published port of this app. The colon stands in no id, so it is no other
    /// app's name.
    pub fn with_port(&self, port: u16) -> AppId {
        AppId(format!("{}:{port}", self.0).into())
    }

    /// The name of one port of a container.
    pub fn of_container(container: &Uuid, port: u16) -> AppId {
        AppId(format!("{container}:{port}").into())
    }

    /// One that was written down as text by ourselves; `None` when it is no name at all.
    pub fn of_record(text: &str) -> Option<AppId> {
        (1..=128).contains(&text.len()).then(|| AppId(text.into()))
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Whether the bytes are an app id, without making one.
pub fn is_app_id(bytes: &[u8]) -> bool {
    let inner = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit() || *b == b'-';
    match bytes {
        [] => false,
        [first, .., last] if *first == b'-' || *last == b'-' => false,
        [b'-'] => false,
        _ => bytes.len() <= 59 && bytes.iter().all(inner),
    }
}

impl Borrow<str> for AppId {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for AppId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// How the upstream is spoken to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UpstreamScheme {
    /// Plain HTTP/1.1.
    Http,
    /// HTTP/1.1 in TLS.
    Https,
    /// Plain HTTP/1.1 over the unix socket at this path.
    Unix(Arc<Path>),
    /// Plain HTTP/1.1 with the ready pods of a Kubernetes Service, whose name the host is: never
    /// looked up.
    Pods(Arc<[SocketAddr]>),
    /// HTTP/1.1 in TLS with the gateway of an Arvados container, where each side proves who it is.
    Container(Arc<ContainerGateway>),
}

/// What an app speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.1.
    #[default]
    Http1,
    /// HTTP/2: with TLS agreed on by ALPN, without it known beforehand (RFC 9113 section 3.3). What
    /// gRPC needs.
    Http2,
}

/// Where an app listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upstream {
    /// Plain or TLS.
    pub scheme: UpstreamScheme,
    /// A name or an address; IPv6 without brackets.
    pub host: Box<str>,
    /// TCP port; 0 for a unix socket, which has none.
    pub port: u16,
}

impl Upstream {
    /// At a unix socket. It has no name of its own, and a Host header must say one (RFC 9112
    /// section 3.2): the machine's for itself, as everybody does who speaks HTTP over such sockets.
    pub fn unix(path: &Path) -> Upstream {
        Upstream {
            scheme: UpstreamScheme::Unix(path.into()),
            host: "localhost".into(),
            port: 0,
        }
    }

    /// The same host at another port; `None` for a unix socket, where there is no such thing.
    pub fn at_port(&self, port: u16) -> Option<Upstream> {
        match self.scheme {
            UpstreamScheme::Unix(_) => None,
            UpstreamScheme::Http
            | UpstreamScheme::Https
            | UpstreamScheme::Pods(_)
            | UpstreamScheme::Container(_) => Some(Upstream {
                port,
                ..self.clone()
            }),
        }
    }

    /// Scheme and authority, as a browser would name it.
    pub fn origin(&self) -> String {
        let scheme = match self.scheme {
            UpstreamScheme::Https | UpstreamScheme::Container(_) => "https",
            UpstreamScheme::Http | UpstreamScheme::Unix(_) | UpstreamScheme::Pods(_) => "http",
        };
        format!("{scheme}://{}", self.authority())
    }

    /// `host:port` as it stands in a Host header, the default port left out.
    pub fn authority(&self) -> String {
        let host = if self.host.contains(':') {
            format!("[{}]", self.host)
        } else {
            self.host.to_string()
        };
        match (&self.scheme, self.port) {
            (UpstreamScheme::Http | UpstreamScheme::Pods(_), 80)
            | (UpstreamScheme::Https, 443)
            | (UpstreamScheme::Unix(_), _) => host,
            (
                UpstreamScheme::Http
                | UpstreamScheme::Https
                | UpstreamScheme::Pods(_)
                | UpstreamScheme::Container(_),
                port,
            ) => {
                format!("{host}:{port}")
            }
        }
    }
}

impl fmt::Display for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = match &self.scheme {
            UpstreamScheme::Http | UpstreamScheme::Pods(_) => "http",
            UpstreamScheme::Https => "https",
            UpstreamScheme::Container(_) => "container",
            UpstreamScheme::Unix(path) => return write!(f, "unix:{}", path.display()),
        };
        write!(f, "{scheme}://{}", self.authority())
    }
}

/// Who stands behind an upstream: it decides which cookies pass (behaviour row 31).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AppKind {
    /// An app written by a stranger: no secret of ours or of the console reaches it.
    Hosted,
    /// The console that Ludgate stands in front of: it keeps its own cookies.
    Console,
}

/// Where an app on paths is opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Isolation {
    /// On its path, beside the other apps; its host, where there is one, works too.
    #[default]
    Path,
    /// On its host only: its path leads there.
    Host,
}

/// Whether an app can be reached now. Asked after whether the person may.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AppState {
    /// It is there, as far as anybody knows.
    #[default]
    Running,
    /// Not yet.
    Starting,
    /// Not for long.
    Stopping,
    /// Somebody stopped it; it may be started again.
    Stopped,
    /// It does not come up.
    Failed,
    /// No longer, and it will not come back.
    Ended,
}

impl AppState {
    /// One word for lists and explanations.
    pub fn as_str(self) -> &'static str {
        match self {
            AppState::Running => "running",
            AppState::Starting => "starting",
            AppState::Stopping => "stopping",
            AppState::Stopped => "stopped",
            AppState::Failed => "failed",
            AppState::Ended => "ended",
        }
    }
}

/// A further port of an app, on a host of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublishedPort {
    /// The port, as in `<id>-<port>.<apps_domain>`.
    pub port: u16,
    /// Who may reach it.
    pub access: Access,
    /// Shown in lists.
    pub label: Option<String>,
    /// Where it runs; `None`: the app's host, at this port.
    pub upstream: Option<Upstream>,
}

/// What its catalogue says about one app.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppSpec {
    /// Its id.
    pub id: AppId,
    /// Shown in the launcher; the id when absent.
    pub name: Option<String>,
    /// Shown in the launcher: a short text such as an emoji.
    pub icon: Option<String>,
    /// Where it runs.
    pub upstream: Upstream,
    /// Who may reach it.
    pub access: Access,
    /// Remove `<prefix>/<id>` before forwarding.
    pub strip_prefix: bool,
    /// On a path or on its own host.
    pub isolation: Isolation,
    /// Further ports, each on a host of its own.
    pub published_ports: Vec<PublishedPort>,
    /// Tell the app who the person is.
    pub identity_headers: bool,
    /// Send the upstream's own authority as Host.
    pub rewrite_host: bool,
    /// The app serves `<prefix>/<id>` without a slash at the end.
    pub serves_bare_path: bool,
    /// Leave a bearer token of our issuer on the request.
    pub keep_authorization: bool,
    /// What it speaks.
    pub protocol: Protocol,
    /// Begin each connection with a PROXY protocol header, version 2, that names the client.
    pub proxy_protocol: bool,
    /// How long the app may take until its response headers.
    pub timeout: Duration,
    /// Largest request body, in bytes; `None`: no limit.
    pub max_body: Option<u64>,
    /// What TLS towards it must hold, on its https upstreams.
    pub tls: UpstreamTls,
    /// Where its first page is, from its root: `/lab`; `None`: at its root.
    pub first_page: Option<Box<str>>,
    /// Whether it can be reached now.
    pub state: AppState,
    /// Why it is in that state, for those who may reach it.
    pub message: Option<Box<str>>,
}

impl AppSpec {
    /// An app of which nothing is said beyond what must be.
    pub fn new(id: AppId, upstream: Upstream, access: Access, timeout: Duration) -> AppSpec {
        AppSpec {
            id,
            name: None,
            icon: None,
            upstream,
            access,
            strip_prefix: false,
            isolation: Isolation::Path,
            published_ports: Vec::new(),
            identity_headers: true,
            rewrite_host: false,
            serves_bare_path: false,
            keep_authorization: false,
            protocol: Protocol::Http1,
            proxy_protocol: false,
            timeout,
            max_body: None,
            tls: UpstreamTls::default(),
            first_page: None,
            state: AppState::Running,
            message: None,
        }
    }

    /// One published port of this app, as an app; `None` where the app has no ports and this one is
    /// nowhere else. It must not lead to the app itself, whose access rule is another.
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
                .or_else(|| self.upstream.at_port(port))?,
            access: published.access.clone(),
            published_ports: Vec::new(),
            first_page: None,
            ..self.clone()
        })
    }
}

/// An app as requests meet it, at one place: on its path and on its host it is published twice.
#[derive(Debug)]
pub struct App {
    /// What was written.
    pub spec: AppSpec,
    /// Hosted, or the console.
    pub kind: AppKind,
    /// `<prefix>/<id>`, without a slash at the end; empty for the console and on a host.
    pub mount: Box<str>,
    /// The mount as `X-Forwarded-Prefix` carries it; absent where there is none.
    pub mount_header: Option<HeaderValue>,
    /// The Host header for `rewrite_host`.
    pub upstream_host: Option<HeaderValue>,
    /// The origin that goes with it.
    pub upstream_origin: Box<str>,
    /// The label of its own host, when it has one.
    pub host: Option<HostLabel>,
    /// How much it has to do.
    pub load: Load,
    /// Whether its address without a slash is its own.
    pub bare_path: BarePath,
}

impl App {
    /// An app published at `<prefix>/<id>/`; `host` is where else it is.
    pub fn hosted(spec: AppSpec, prefix: &str, host: Option<HostLabel>) -> App {
        let mount = format!("{prefix}/{}", spec.id);
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
            load: Load::default(),
            bare_path: BarePath::default(),
            spec,
        }
    }

    /// The console in sidecar mode: it gets everything that is not ours, whoever asks.
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

    /// Whether a request for the address without a slash at its end goes to the app as it is.
    pub fn serves_bare_path(&self) -> bool {
        !self.spec.strip_prefix && (self.spec.serves_bare_path || self.bare_path.is_served())
    }

    /// Whether everybody is let in, so that no credential is read.
    pub fn is_open(&self) -> bool {
        match (self.kind, &self.spec.access) {
            (AppKind::Console, _) | (AppKind::Hosted, Access::Public) => true,
            (
                AppKind::Hosted,
                Access::User
                | Access::Group(_)
                | Access::Owner(_)
                | Access::Admins
                | Access::Unknown(_),
            ) => false,
        }
    }

    /// Who has the address now, where that changes over time.
    pub fn tenant(&self) -> Option<&str> {
        self.container().map(|gateway| gateway.container.as_str())
    }

    /// The container whose port it is, when it is one.
    pub fn container(&self) -> Option<&ContainerGateway> {
        match &self.spec.upstream.scheme {
            UpstreamScheme::Container(gateway) => Some(gateway),
            UpstreamScheme::Http
            | UpstreamScheme::Https
            | UpstreamScheme::Unix(_)
            | UpstreamScheme::Pods(_) => None,
        }
    }

    /// Its id.
    pub fn id(&self) -> &AppId {
        &self.spec.id
    }

    /// The name people see.
    pub fn title(&self) -> &str {
        self.spec.name.as_deref().unwrap_or(self.spec.id.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_app_id_is_a_dns_label_that_leaves_room_for_its_service() {
        let long = "a".repeat(59);
        for good in ["a", "0", "a-1", "mlflow", long.as_str()] {
            assert!(AppId::new(good).is_some(), "{good:?}");
        }
        let too_long = "a".repeat(60);
        for bad in [
            "",
            "-",
            "-a",
            "a-",
            "A",
            "a.b",
            "a_b",
            "a%2D1",
            "ä",
            too_long.as_str(),
        ] {
            assert!(AppId::new(bad).is_none(), "{bad:?}");
        }
    }
}
