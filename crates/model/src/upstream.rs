//! The address of an app, and how connections to it are made.

use std::{fmt, net::SocketAddr, path::Path, sync::Arc};

use super::attested::AttestedUpstream;

/// The connection to an upstream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UpstreamScheme {
    /// Plain HTTP/1.1.
    Http,
    /// HTTP/1.1 in TLS.
    Https,
    /// Plain HTTP/1.1 over the unix socket at this path.
    Unix(Arc<Path>),
    /// Plain HTTP/1.1 to the ready pods of a Kubernetes Service. The host is its name, and is never
    /// resolved.
    Pods(Arc<[SocketAddr]>),
    /// HTTP/1.1 in TLS, with a proof over HTTP in place of a certificate authority.
    Attested(Arc<dyn AttestedUpstream>),
}

/// The HTTP version of an app.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.1.
    #[default]
    Http1,
    /// HTTP/2, as gRPC needs it: negotiated by ALPN with TLS, by prior knowledge without (RFC 9113
    /// section 3.3).
    Http2,
}

/// The address of an app.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upstream {
    /// Kind of connection.
    pub scheme: UpstreamScheme,
    /// A name or an address; IPv6 without brackets.
    pub host: Box<str>,
    /// TCP port; 0 for a unix socket, which has none.
    pub port: u16,
}

impl Upstream {
    /// An upstream at a unix socket. A Host header is required (RFC 9112 section 3.2) and a socket
    /// has no name, so it is `localhost`, as is usual for HTTP over unix sockets.
    pub fn unix(path: &Path) -> Upstream {
        Upstream {
            scheme: UpstreamScheme::Unix(path.into()),
            host: "localhost".into(),
            port: 0,
        }
    }

    /// The upstream, where it proves itself over HTTP.
    pub fn attested(&self) -> Option<&Arc<dyn AttestedUpstream>> {
        match &self.scheme {
            UpstreamScheme::Attested(upstream) => Some(upstream),
            UpstreamScheme::Http
            | UpstreamScheme::Https
            | UpstreamScheme::Unix(_)
            | UpstreamScheme::Pods(_) => None,
        }
    }

    /// The same host at another port; `None` for a unix socket.
    pub fn at_port(&self, port: u16) -> Option<Upstream> {
        match self.scheme {
            UpstreamScheme::Unix(_) => None,
            UpstreamScheme::Http
            | UpstreamScheme::Https
            | UpstreamScheme::Pods(_)
            | UpstreamScheme::Attested(_) => Some(Upstream {
                port,
                ..self.clone()
            }),
        }
    }

    /// Scheme and authority, as in an `Origin` header.
    pub fn origin(&self) -> String {
        let scheme = match self.scheme {
            UpstreamScheme::Https | UpstreamScheme::Attested(_) => "https",
            UpstreamScheme::Http | UpstreamScheme::Unix(_) | UpstreamScheme::Pods(_) => "http",
        };
        format!("{scheme}://{}", self.authority())
    }

    /// `host:port` as in a Host header, without the default port.
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
                | UpstreamScheme::Attested(_),
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
            UpstreamScheme::Attested(_) => "attested",
            UpstreamScheme::Unix(path) => return write!(f, "unix:{}", path.display()),
        };
        write!(f, "{scheme}://{}", self.authority())
    }
}
