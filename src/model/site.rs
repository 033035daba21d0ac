//! The origin that people see, and the paths on it that are ours.

use std::{fmt, sync::Arc};

use aws_lc_rs::digest;
use http::HeaderValue;

use super::{app::App, cookie_names::CookieNames};

/// A web origin: scheme, host, port; written canonically.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebOrigin {
    /// Whether the scheme is https.
    pub secure: bool,
    /// Lower-case name or address; IPv6 in brackets.
    pub host: Box<str>,
    /// The port, the default one spelled out.
    pub port: u16,
    /// `scheme://host[:port]` as a browser sends it in `Origin`.
    pub text: Box<str>,
    /// `host[:port]` as a browser sends it in `Host`.
    pub authority: Box<str>,
}

impl WebOrigin {
    /// Builds the canonical texts; `host` must already be lower-case.
    pub fn new(secure: bool, host: &str, port: u16) -> WebOrigin {
        let default = if secure { 443 } else { 80 };
        let scheme = if secure { "https" } else { "http" };
        let authority = if port == default { host.to_owned() } else { format!("{host}:{port}") };
        WebOrigin {
            secure,
            host: host.into(),
            port,
            text: format!("{scheme}://{authority}").into(),
            authority: authority.into(),
        }
    }
}

/// Whether a host in a URL can only be this machine: plain http to it leaves no wire to listen on.
pub fn is_loopback_host(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    bare == "localhost"
        || bare.ends_with(".localhost")
        || bare.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

impl fmt::Display for WebOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The site: where sign-in lives and under which prefix the apps are.
#[derive(Debug)]
pub struct Site {
    /// The public origin.
    pub origin: WebOrigin,
    /// Another name of this machine that is sent on to `origin` (`demo` only).
    pub alias: Option<WebOrigin>,
    /// A sentence for first-time visitors, above the launcher (`demo` only).
    pub welcome: Option<Box<str>>,
    /// For example `/apps`: begins with a slash and ends without one.
    pub apps_prefix: Box<str>,
    /// For example `/oauth2`.
    pub endpoints: Box<str>,
    /// The console in sidecar mode.
    pub console: Option<Arc<App>>,
    /// Whose cookies are whose.
    pub cookies: CookieNames,
    /// How this site names itself in `Via`; seen again, a request goes in circles. Replicas share it, other
    /// sites have another.
    pub via: HeaderValue,
    /// `X-Forwarded-Proto`, `-Host`, `-Port` as apps get them.
    pub forwarded: ForwardedConstants,
}

/// The parts of the forwarded headers that are the same for every request of a site.
#[derive(Clone, Debug)]
pub struct ForwardedConstants {
    /// `http` or `https`.
    pub proto: HeaderValue,
    /// The public authority.
    pub host: HeaderValue,
    /// The public port.
    pub port: HeaderValue,
}

impl ForwardedConstants {
    /// The values for an origin; `None` when the host cannot stand in a header.
    pub fn new(origin: &WebOrigin) -> Option<ForwardedConstants> {
        Some(ForwardedConstants {
            proto: HeaderValue::from_static(if origin.secure { "https" } else { "http" }),
            host: HeaderValue::from_str(&origin.authority).ok()?,
            port: HeaderValue::from(origin.port),
        })
    }
}

/// The `Via` entry of a site: the protocol and a pseudonym (RFC 9110 section 7.6.3).
pub fn via(origin: &WebOrigin) -> HeaderValue {
    let hash = digest::digest(&digest::SHA256, origin.text.as_bytes());
    let short: String = hash.as_ref().iter().take(4).map(|byte| format!("{byte:02x}")).collect();
    HeaderValue::try_from(format!("1.1 ludgate-{short}"))
        .unwrap_or_else(|_| HeaderValue::from_static("1.1 ludgate"))
}

impl Site {
    /// The path of one of our endpoints, such as `/oauth2/start`.
    pub fn endpoint(&self, name: &str) -> String {
        format!("{}/{name}", self.endpoints)
    }

    /// The launcher's path.
    pub fn launcher(&self) -> String {
        format!("{}/", self.apps_prefix)
    }
}

#[cfg(test)]
impl Site {
    /// The site of unit tests: default paths, no console.
    pub fn of(origin: WebOrigin, cookies: CookieNames) -> Site {
        let forwarded = ForwardedConstants::new(&origin).expect("a host");
        let (apps_prefix, endpoints) = ("/apps".into(), "/oauth2".into());
        Site {
            via: via(&origin),
            forwarded,
            origin,
            alias: None,
            welcome: None,
            apps_prefix,
            endpoints,
            console: None,
            cookies,
        }
    }
}
