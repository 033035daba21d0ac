//! The names of every cookie that is a secret of ours or of the console, and who may see which.

use std::borrow::Cow;

use super::{app::AppKind, vhost::VirtualHost};

/// Where Arvados' own programs keep a token in a browser: a credential, never for an app.
pub const ARVADOS_TOKEN: &[u8] = b"arvados_api_token";

/// The cookie names of one site.
#[derive(Clone, Debug)]
pub struct CookieNames {
    /// The sign-in, on the site.
    pub sign_in: Box<str>,
    /// The browser that started a sign-in.
    pub bind: Box<str>,
    /// The session of one app on a path.
    app: Box<str>,
    /// The session of one app on a host of its own.
    host_app: Box<str>,
    /// Which tenant of an address this browser knows, on hosts whose tenant may change.
    tenant: Box<str>,
    /// Every spelling that is ours, lower-cased: with and without `__Host-`.
    ours: Vec<Box<str>>,
    /// The console's own secrets with their `.sig` twins, lower-cased.
    console: Vec<Box<str>>,
    /// Where the console keeps its access token, when that is a credential here.
    access_token: Option<Box<str>>,
}

impl CookieNames {
    /// The names for a site; `__Host-` needs `Secure`, so plain http (loopback) goes without.
    pub fn new(secure: bool, app: &str, console: &[String]) -> CookieNames {
        let bases = ["ludgate", "ludgate-bind", "ludgate-app", "ludgate-tenant"];
        let named = |base: &str| -> Box<str> {
            if secure {
                format!("__Host-{base}").into()
            } else {
                base.into()
            }
        };
        let mut ours: Vec<Box<str>> = vec![app.to_ascii_lowercase().into()];
        for base in bases {
            ours.push(base.into());
            ours.push(format!("__host-{base}").into());
        }
        let console = console
            .iter()
            .flat_map(|name| {
                [
                    name.to_ascii_lowercase(),
                    format!("{}.sig", name.to_ascii_lowercase()),
                ]
            })
            .map(String::into_boxed_str)
            .collect();
        CookieNames {
            sign_in: named("ludgate"),
            bind: named("ludgate-bind"),
            app: app.into(),
            host_app: named("ludgate-app"),
            tenant: named("ludgate-tenant"),
            ours,
            console,
            access_token: None,
        }
    }

    /// With the cookie in which the console keeps its access token: a credential, and one more of
    /// its secrets.
    pub fn with_access_token(mut self, name: &str) -> CookieNames {
        let lower = name.to_ascii_lowercase();
        self.console
            .extend([format!("{lower}.sig").into(), lower.into()]);
        self.access_token = Some(name.into());
        self
    }

    /// Whether the console keeps its access token under this name.
    pub fn is_access_token(&self, name: &[u8]) -> bool {
        self.access_token
            .as_ref()
            .is_some_and(|ours| ours.as_bytes() == name)
    }

    /// The name of the session of one app at a place. Cookies ignore ports, so there the name holds
    /// the port.
    pub fn app_at(&self, vhost: &VirtualHost) -> Cow<'_, str> {
        match vhost {
            VirtualHost::Site => Cow::Borrowed(&self.app),
            VirtualHost::Host(_) => Cow::Borrowed(&self.host_app),
            VirtualHost::Port(port) => Cow::Owned(format!("{}-{port}", self.host_app)),
        }
    }

    /// The name of the cookie that tells which tenant of a place the browser knows.
    pub fn tenant_at(&self, vhost: &VirtualHost) -> Cow<'_, str> {
        match vhost {
            VirtualHost::Site | VirtualHost::Host(_) => Cow::Borrowed(&self.tenant),
            VirtualHost::Port(port) => Cow::Owned(format!("{}-{port}", self.tenant)),
        }
    }

    /// Whether it is one of our own names, at whichever port.
    pub fn is_ours(&self, name: &[u8]) -> bool {
        let name = without_port(name);
        self.ours
            .iter()
            .any(|ours| ours.as_bytes().eq_ignore_ascii_case(name))
    }

    /// Whether a cookie of this name must be kept from, and not taken from, this kind of app.
    /// Case does not matter: a name that only differs in case would fool a careless reader.
    pub fn is_withheld_from(&self, kind: AppKind, name: &[u8]) -> bool {
        match kind {
            AppKind::Console => self.is_ours(name),
            AppKind::Hosted => {
                self.is_ours(name)
                    || name.eq_ignore_ascii_case(ARVADOS_TOKEN)
                    || self
                        .console
                        .iter()
                        .any(|n| n.as_bytes().eq_ignore_ascii_case(name))
            }
        }
    }
}

/// A name without the `-<port>` that it has at a port of the range.
fn without_port(name: &[u8]) -> &[u8] {
    match name.iter().rposition(|byte| *byte == b'-') {
        Some(dash)
            if !name[dash + 1..].is_empty() && name[dash + 1..].iter().all(u8::is_ascii_digit) =>
        {
            &name[..dash]
        }
        Some(_) | None => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_app_sees_a_cookie_of_ours_at_whichever_port() {
        let names = CookieNames::new(true, "phapplication-session-id", &["accessToken".into()]);
        for ours in [
            "__Host-ludgate",
            "ludgate-app",
            "__Host-ludgate-app-2000",
            "__host-ludgate-tenant-1",
            "Ludgate-Bind",
            "phapplication-session-id",
            "accesstoken.sig",
            "arvados_api_token",
        ] {
            assert!(
                names.is_withheld_from(AppKind::Hosted, ours.as_bytes()),
                "{ours}"
            );
        }
        for theirs in [
            "ludgate-application",
            "ludgate-app-",
            "session",
            "x-2000",
            "arvados_api_tokens",
        ] {
            assert!(
                !names.is_withheld_from(AppKind::Hosted, theirs.as_bytes()),
                "{theirs}"
            );
        }
        let port = VirtualHost::Port(2000);
        assert!(names.is_withheld_from(AppKind::Hosted, names.app_at(&port).as_bytes()));
        assert!(names.is_withheld_from(AppKind::Hosted, names.tenant_at(&port).as_bytes()));
    }
}
