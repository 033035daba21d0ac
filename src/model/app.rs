//! A hosted app: a name, where it runs, and who may reach it.
//!
//! Everything a request needs of an app is computed here once, when the app is loaded.

use std::{borrow::Borrow, fmt, sync::Arc, time::Duration};

use http::HeaderValue;

use super::access::Access;

/// The id of an app: `[a-z0-9]([a-z0-9-]{0,57}[a-z0-9])?`, so that a Service `app-<id>` is a DNS label.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AppId(Arc<str>);

impl AppId {
    /// `None` when the text does not follow the grammar.
    pub fn new(text: &str) -> Option<AppId> {
        is_app_id(text.as_bytes()).then(|| AppId(text.into()))
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UpstreamScheme {
    /// Plain HTTP/1.1.
    Http,
    /// HTTP/1.1 in TLS.
    Https,
}

/// Where an app listens.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Upstream {
    /// Plain or TLS.
    pub scheme: UpstreamScheme,
    /// A name or an address; IPv6 without brackets.
    pub host: Box<str>,
    /// TCP port.
    pub port: u16,
}

impl Upstream {
    /// `host:port` as it stands in a Host header, the default port left out.
    pub fn authority(&self) -> String {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.to_string() };
        match (self.scheme, self.port) {
            (UpstreamScheme::Http, 80) | (UpstreamScheme::Https, 443) => host,
            (UpstreamScheme::Http | UpstreamScheme::Https, port) => format!("{host}:{port}"),
        }
    }
}

impl fmt::Display for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = match self.scheme {
            UpstreamScheme::Http => "http",
            UpstreamScheme::Https => "https",
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

/// What the catalogue's author wrote about one app.
#[derive(Clone, Debug)]
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
    /// Tell the app who the person is.
    pub identity_headers: bool,
    /// Send the upstream's own authority as Host.
    pub rewrite_host: bool,
    /// Leave a bearer token of our issuer on the request.
    pub keep_authorization: bool,
    /// How long the app may take until its response headers.
    pub timeout: Duration,
    /// Largest request body, in bytes; `None`: no limit.
    pub max_body: Option<u64>,
    /// PEM file content of the CA that signed the upstream's certificate; `None`: the system's.
    pub ca: Option<Arc<[u8]>>,
}

/// An app as requests meet it.
#[derive(Debug)]
pub struct App {
    /// What was written.
    pub spec: AppSpec,
    /// Hosted, or the console.
    pub kind: AppKind,
    /// `<prefix>/<id>`, without a slash at the end; empty for the console.
    pub mount: Box<str>,
    /// The mount as `X-Forwarded-Prefix` carries it; absent for the console.
    pub mount_header: Option<HeaderValue>,
    /// The Host header for `rewrite_host`.
    pub upstream_host: Option<HeaderValue>,
}

impl App {
    /// An app published at `<prefix>/<id>/`.
    pub fn hosted(spec: AppSpec, prefix: &str) -> App {
        let mount = format!("{prefix}/{}", spec.id);
        App {
            mount_header: HeaderValue::from_str(&mount).ok(),
            upstream_host: HeaderValue::from_str(&spec.upstream.authority()).ok(),
            mount: mount.into(),
            kind: AppKind::Hosted,
            spec,
        }
    }

    /// The console in sidecar mode: it gets everything that is not ours, whoever asks.
    pub fn console(upstream: Upstream, timeout: Duration) -> Option<App> {
        Some(App {
            mount_header: None,
            upstream_host: HeaderValue::from_str(&upstream.authority()).ok(),
            mount: "".into(),
            kind: AppKind::Console,
            spec: AppSpec {
                id: AppId::new("console")?,
                name: None,
                icon: None,
                upstream,
                access: Access::Public,
                strip_prefix: false,
                identity_headers: false,
                rewrite_host: false,
                keep_authorization: true,
                timeout,
                max_body: None,
                ca: None,
            },
        })
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
        for bad in ["", "-", "-a", "a-", "A", "a.b", "a_b", "a%2D1", "ä", too_long.as_str()] {
            assert!(AppId::new(bad).is_none(), "{bad:?}");
        }
    }
}
