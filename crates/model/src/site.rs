//! The public origin, our paths on it, and the other origins of apps.

use std::{fmt, sync::Arc};

use aws_lc_rs::digest;
use http::HeaderValue;
use url::Url;

use super::{
    app::{App, AppId},
    cookie_names::CookieNames,
    hex,
    path_prefix::below,
    vhost::{self, VirtualHost},
};

/// On every origin of ours: where another proxy asks whether it may forward a request.
pub const FORWARD_AUTH: &str = "/.ludgate/auth";

/// A web origin: scheme, host, port; written canonically.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebOrigin {
    /// Whether the scheme is https.
    pub secure: bool,
    /// Lower-case name or address; IPv6 in brackets.
    pub host: Box<str>,
    /// The port, also where it is the default.
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
        let authority = if port == default {
            host.to_owned()
        } else {
            format!("{host}:{port}")
        };
        WebOrigin {
            secure,
            host: host.into(),
            port,
            text: format!("{scheme}://{authority}").into(),
            authority: authority.into(),
        }
    }

    /// Parses scheme, host and port. Plain http is for loopback only, since secrets are sent there.
    ///
    /// # Errors
    /// See [`OriginError`].
    pub fn parse(text: &str) -> Result<WebOrigin, OriginError> {
        let no_url = |error| OriginError::NoUrl(text.to_owned(), error);
        let url = Url::parse(text).map_err(no_url)?;
        let secure = match url.scheme() {
            "https" => true,
            "http" => false,
            _ => return Err(OriginError::Scheme),
        };
        let host = url.host_str().unwrap_or_default();
        let plain = url.path() == "/" && url.query().is_none() && url.fragment().is_none();
        if !plain
            || !url.username().is_empty()
            || url.password().is_some()
            || text.ends_with(['?', '#'])
        {
            return Err(OriginError::NotOnly);
        }
        if !secure && !is_loopback_host(host) {
            return Err(OriginError::Insecure);
        }
        let port = url.port_or_known_default().unwrap_or_default();
        Ok(WebOrigin::new(secure, host, port))
    }

    /// `http` or `https`.
    pub fn scheme(&self) -> &'static str {
        if self.secure { "https" } else { "http" }
    }

    /// The port of an origin without a port: 443 or 80.
    pub fn default_port(&self) -> u16 {
        if self.secure { 443 } else { 80 }
    }
}

/// Why a text is no origin.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OriginError {
    /// It cannot be parsed.
    #[error("{0:?} is no URL: {1}")]
    NoUrl(String, url::ParseError),
    /// Neither https nor http.
    #[error("must begin with https:// or http://")]
    Scheme,
    /// It has a path, a user or a query.
    #[error("must be an origin only: no path, no user, no query")]
    NotOnly,
    /// http to another machine.
    #[error("plain http is accepted on loopback only; use https (TLS may end before Ludgate)")]
    Insecure,
}

/// Whether a host in a URL is this machine, so that plain http does not cross a network.
pub fn is_loopback_host(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    bare == "localhost"
        || bare.ends_with(".localhost")
        || bare
            .parse::<std::net::IpAddr>()
            .is_ok_and(|address| address.is_loopback())
}

impl fmt::Display for WebOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The site: the origin of sign-in, launcher and apps on paths.
#[derive(Debug)]
pub struct Site {
    /// The public origin.
    pub origin: WebOrigin,
    /// Whether an identity provider is configured.
    pub signs_in: bool,
    /// Whether there are keys that sign identities for apps.
    pub signs_assertions: bool,
    /// Whether logs of apps' pods are served below `/api/logs/`.
    pub serves_logs: bool,
    /// The `Strict-Transport-Security` header; `None`: not sent.
    pub hsts: Option<HeaderValue>,
    /// Another name of this machine that redirects to `origin` (`demo` only).
    pub alias: Option<WebOrigin>,
    /// A sentence for first-time visitors, above the launcher (`demo` only).
    pub welcome: Option<Box<str>>,
    /// Domain of the apps' own hosts, one label below it, such as `apps.example.com`. Scheme and
    /// port are the site's. Lower case, no dot at either end.
    pub apps_domain: Option<Box<str>>,
    /// Public ports for containers, on a host that serves nothing else.
    pub ports: Option<PortRange>,
    /// Prefix of apps, such as `/apps`: with a leading slash, without a final one.
    pub apps_prefix: Box<str>,
    /// Prefix of viewers of volumes, such as `/pvcviewers`; `None`: they are not served. It does
    /// not overlap with the others.
    pub viewers_prefix: Option<Box<str>>,
    /// Prefix of installed apps, such as `/installs`; `None`: they are not served. It does not
    /// overlap with the others.
    pub installs_prefix: Option<Box<str>>,
    /// Prefix of labs, such as `/nb/user`; `None`: they are not served. It may lie below that of
    /// apps, and has precedence for each lab that runs.
    pub labs_prefix: Option<Box<str>>,
    /// Prefix of our endpoints, such as `/oauth2`.
    pub endpoints: Box<str>,
    /// The API for people and their tools.
    pub api: Option<Arc<App>>,
    /// The console in sidecar mode.
    pub console: Option<Arc<App>>,
    /// Names of our cookies and the console's.
    pub cookies: CookieNames,
    /// Our `Via` entry. A request that already has it is in a loop. Replicas share it; other sites
    /// have another.
    pub via: HeaderValue,
}

/// A range of public ports on a host of its own, for sites without a wildcard DNS name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortRange {
    /// The host, lower case.
    pub host: Box<str>,
    /// The lowest port.
    pub first: u16,
    /// The highest port.
    pub last: u16,
}

/// `X-Forwarded-Proto`, `-Host`, `-Port` as apps get them: the same for every request to one
/// origin.
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
    /// The values for an origin; `None` if the host is no valid header value.
    pub fn new(origin: &WebOrigin) -> Option<ForwardedConstants> {
        Some(ForwardedConstants {
            proto: HeaderValue::from_static(origin.scheme()),
            host: HeaderValue::from_str(&origin.authority).ok()?,
            port: HeaderValue::from(origin.port),
        })
    }
}

/// The `Via` entry of a site: the protocol and a pseudonym (RFC 9110 section 7.6.3).
pub fn via(origin: &WebOrigin) -> HeaderValue {
    let hash = digest::digest(&digest::SHA256, origin.text.as_bytes());
    let short = hex::encode(&hash.as_ref()[..4]);
    HeaderValue::try_from(format!("1.1 ludgate-{short}"))
        .unwrap_or_else(|_| HeaderValue::from_static("1.1 ludgate"))
}

impl Site {
    /// The web origin of a virtual host. Allocates, so not for every request.
    pub fn origin_of(&self, vhost: &VirtualHost) -> WebOrigin {
        let WebOrigin { secure, port, .. } = self.origin;
        match (vhost, &self.apps_domain, &self.ports) {
            (VirtualHost::Host(label), Some(domain), _) => {
                WebOrigin::new(secure, &format!("{label}.{domain}"), port)
            }
            (VirtualHost::Port(port), _, Some(range)) => WebOrigin::new(secure, &range.host, *port),
            (VirtualHost::Site, _, _)
            | (VirtualHost::Host(_), None, _)
            | (VirtualHost::Port(_), _, None) => self.origin.clone(),
        }
    }

    /// The absolute URL of a target at a virtual host.
    pub fn url(&self, vhost: &VirtualHost, target: &str) -> String {
        match vhost {
            VirtualHost::Site => format!("{}{target}", self.origin),
            VirtualHost::Host(_) | VirtualHost::Port(_) => {
                format!("{}{target}", self.origin_of(vhost))
            }
        }
    }

    /// Whether an `Origin` header names the virtual host, byte for byte. Does not allocate.
    pub fn is_origin(&self, vhost: &VirtualHost, text: &[u8]) -> bool {
        let scheme = self.origin.scheme().as_bytes();
        let authority = text
            .strip_prefix(scheme)
            .and_then(|rest| rest.strip_prefix(b"://"));
        let after_host = match (vhost, authority) {
            (_, None) => None,
            (VirtualHost::Site, Some(authority)) => {
                return authority == self.origin.authority.as_bytes();
            }
            (VirtualHost::Host(label), Some(authority)) => {
                let domain = authority
                    .strip_prefix(label.as_str().as_bytes())
                    .and_then(|r| r.strip_prefix(b"."));
                domain
                    .zip(self.apps_domain.as_ref())
                    .and_then(|(rest, ours)| rest.strip_prefix(ours.as_bytes()))
            }
            (VirtualHost::Port(_), Some(authority)) => self
                .ports
                .as_ref()
                .and_then(|range| authority.strip_prefix(range.host.as_bytes())),
        };
        let expected = match vhost {
            VirtualHost::Site | VirtualHost::Host(_) => self.origin.port,
            VirtualHost::Port(port) => *port,
        };
        match after_host {
            None => false,
            // Browsers omit the default port and write every other.
            Some([]) => expected == self.origin.default_port(),
            Some([b':', digits @ ..]) => {
                expected != self.origin.default_port()
                    && vhost::parse_port(digits) == Some(expected)
            }
            Some(_) => false,
        }
    }

    /// Label of the site's own host, if it lies directly below the apps' domain. No app may have
    /// it.
    pub fn own_label(&self) -> Option<&str> {
        let domain = self.apps_domain.as_ref()?;
        let rest = self.origin.host.strip_suffix(&**domain)?;
        rest.strip_suffix('.')
    }

    /// The path of an app on the site, without a slash at the end: `/apps/mlflow`, for the
    /// viewer `team/v` `/pvcviewers/team/v`, for the installation `/team/a` `/installs/team/a`,
    /// for the lab of rachel `/nb/user/rachel`, and for a hub's route its path.
    pub fn mount_of(&self, id: &AppId) -> String {
        if let Some(path) = id.hub_route_path() {
            return path.to_owned();
        }
        if let (Some(labs), Some(username)) = (&self.labs_prefix, id.lab_username()) {
            return format!("{labs}/{username}");
        }
        if let (Some(installs), true) = (&self.installs_prefix, id.is_installation()) {
            return format!("{installs}{id}");
        }
        let prefix = match &self.viewers_prefix {
            Some(viewers) if id.is_viewer() => viewers,
            Some(_) | None => &self.apps_prefix,
        };
        format!("{prefix}/{id}")
    }

    /// The path of one of our endpoints, such as `/oauth2/start`.
    pub fn endpoint(&self, name: &str) -> String {
        format!("{}/{name}", self.endpoints)
    }

    /// What follows the address at which another proxy asks whether it may forward a request: the
    /// path that it asks about, or nothing. `None`: the path is another one.
    pub fn below_forward_auth<'t>(&self, vhost: &VirtualHost, path: &'t str) -> Option<&'t str> {
        match vhost {
            VirtualHost::Site => {
                let named = || below(path.strip_prefix(&*self.endpoints)?, "/auth");
                below(path, FORWARD_AUTH).or_else(named)
            }
            // On its own host an app may use the other prefix itself.
            VirtualHost::Host(_) | VirtualHost::Port(_) => below(path, FORWARD_AUTH),
        }
    }

    /// The launcher's path.
    pub fn launcher(&self) -> String {
        format!("{}/", self.apps_prefix)
    }
}

impl Site {
    /// A site with the default paths and without a console, for tests.
    pub fn with_default_paths(origin: WebOrigin, cookies: CookieNames) -> Site {
        Site {
            via: via(&origin),
            origin,
            signs_in: true,
            signs_assertions: false,
            serves_logs: false,
            hsts: None,
            alias: None,
            welcome: None,
            apps_domain: None,
            ports: None,
            apps_prefix: "/apps".into(),
            viewers_prefix: None,
            installs_prefix: None,
            labs_prefix: None,
            endpoints: "/oauth2".into(),
            api: None,
            console: None,
            cookies,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vhost::HostLabel;

    #[test]
    fn an_origin_is_compared_byte_for_byte() {
        let names = CookieNames::new(true, "c", &[]);
        let mut site = Site::with_default_paths(WebOrigin::new(true, "gw.test", 443), names);
        site.apps_domain = Some("svc.test".into());
        site.ports = Some(PortRange {
            host: "ports.test".into(),
            first: 2000,
            last: 2009,
        });
        let host = VirtualHost::Host(HostLabel::new(b"web").expect("a label"));
        for (vhost, text) in [
            (VirtualHost::Site, "https://gw.test"),
            (host, "https://web.svc.test"),
            (VirtualHost::Port(2001), "https://ports.test:2001"),
        ] {
            assert_eq!(&*site.origin_of(&vhost).text, text);
            assert!(site.is_origin(&vhost, text.as_bytes()));
            for other in [
                "",
                "null",
                "http://web.svc.test",
                "https://web.svc.test:443",
                "https://web.svc.test.",
                "https://x.svc.test",
            ] {
                assert!(!site.is_origin(&vhost, other.as_bytes()), "{other:?}");
            }
        }
        assert!(!site.is_origin(&VirtualHost::Port(2001), b"https://ports.test:2002"));
        assert!(!site.is_origin(&VirtualHost::Port(2001), b"https://ports.test:02001"));
        assert_eq!(site.url(&host, "/a?b"), "https://web.svc.test/a?b");
    }

    #[test]
    fn the_mount_of_an_app_follows_from_its_id() {
        let names = CookieNames::new(true, "c", &[]);
        let mut site = Site::with_default_paths(WebOrigin::new(true, "gw.test", 443), names);
        site.viewers_prefix = Some("/pvcviewers".into());
        let app = AppId::new("mlflow").expect("an id");
        let viewer = AppId::for_viewer("team", "v").expect("an id");
        assert_eq!(site.mount_of(&app), "/apps/mlflow");
        assert_eq!(site.mount_of(&viewer), "/pvcviewers/team/v");
        site.installs_prefix = Some("/installs".into());
        let installed = AppId::for_installation("team", "a").expect("an id");
        assert_eq!(site.mount_of(&installed), "/installs/team/a");
        site.labs_prefix = Some("/nb/user".into());
        let lab = AppId::for_lab("rachel").expect("an id");
        assert_eq!(site.mount_of(&lab), "/nb/user/rachel");
    }
}
