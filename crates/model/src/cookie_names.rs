//! The names of all cookies that are secrets of Ludgate or the console, and which apps may see
//! them.

use std::borrow::Cow;

use super::{app::AppKind, vhost::VirtualHost};

/// The cookie names of one site.
#[derive(Clone, Debug)]
pub struct CookieNames {
    /// Cookie of the sign-in, on the site.
    pub sign_in: Box<str>,
    /// Cookie that binds a sign-in to the browser that started it.
    pub bind: Box<str>,
    /// Cookie of an app session on a path.
    app: Box<str>,
    /// Cookie of an app session on a host of its own.
    host_app: Box<str>,
    /// Cookie with the last tenant of an address, on hosts whose tenant may change.
    tenant: Box<str>,
    /// All our names in lower case, with and without `__Host-`.
    ours: Vec<Box<str>>,
    /// The console's secrets with their `.sig` twins, in lower case.
    console: Vec<Box<str>>,
    /// The console's access token cookie, where it is accepted as a credential.
    access_token: Option<Box<str>>,
    /// Cookies on apps' hosts that are credentials of integrations; never sent to apps.
    credentials: Vec<Box<str>>,
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
            credentials: Vec::new(),
        }
    }

    /// Adds a cookie that an integration reads as a credential.
    pub fn with_credential(mut self, name: &str) -> CookieNames {
        self.credentials.push(name.into());
        self
    }

    /// Whether a cookie of this name, byte for byte, is a credential of an integration.
    pub fn is_credential(&self, name: &[u8]) -> bool {
        self.credentials.iter().any(|own| own.as_bytes() == name)
    }

    /// Adds the console's access token cookie: a credential, and one more of its secrets.
    pub fn with_access_token(mut self, name: &str) -> CookieNames {
        let lower = name.to_ascii_lowercase();
        self.console
            .extend([format!("{lower}.sig").into(), lower.into()]);
        self.access_token = Some(name.into());
        self
    }

    /// Whether this is the console's access token cookie.
    pub fn is_access_token(&self, name: &[u8]) -> bool {
        self.access_token
            .as_ref()
            .is_some_and(|ours| ours.as_bytes() == name)
    }

    /// Name of the app session cookie at an origin. Cookies ignore ports, so on a port of the range
    /// the name holds the port.
    pub fn app_at(&self, vhost: &VirtualHost) -> Cow<'_, str> {
        match vhost {
            VirtualHost::Site => Cow::Borrowed(&self.app),
            VirtualHost::Host(_) => Cow::Borrowed(&self.host_app),
            VirtualHost::Port(port) => Cow::Owned(format!("{}-{port}", self.host_app)),
        }
    }

    /// Name of the tenant cookie at an origin.
    pub fn tenant_at(&self, vhost: &VirtualHost) -> Cow<'_, str> {
        match vhost {
            VirtualHost::Site | VirtualHost::Host(_) => Cow::Borrowed(&self.tenant),
            VirtualHost::Port(port) => Cow::Owned(format!("{}-{port}", self.tenant)),
        }
    }

    /// Whether the name is ours, at any port.
    pub fn is_ours(&self, name: &[u8]) -> bool {
        let name = without_port(name);
        self.ours
            .iter()
            .any(|ours| ours.as_bytes().eq_ignore_ascii_case(name))
    }

    /// Whether a cookie of this name is neither sent to nor accepted from this kind of app.
    /// Case does not matter: careless parsers accept a name that differs only in case.
    pub fn is_withheld_from(&self, kind: AppKind, name: &[u8]) -> bool {
        match kind {
            AppKind::Console => self.is_ours(name),
            AppKind::Hosted => {
                self.is_ours(name)
                    || self
                        .credentials
                        .iter()
                        .any(|own| own.as_bytes().eq_ignore_ascii_case(name))
                    || self
                        .console
                        .iter()
                        .any(|n| n.as_bytes().eq_ignore_ascii_case(name))
            }
        }
    }
}

/// The name without the suffix `-<port>`.
fn without_port(name: &[u8]) -> &[u8] {
    // Each cookie of each request is compared, and most names have no port to search for.
    if !name.last().is_some_and(u8::is_ascii_digit) {
        return name;
    }
    match name.iter().rposition(|byte| *byte == b'-') {
        Some(dash) if name[dash + 1..].iter().all(u8::is_ascii_digit) => &name[..dash],
        Some(_) | None => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_app_sees_a_cookie_of_ours_at_whichever_port() {
        let names = CookieNames::new(true, "phapplication-session-id", &["accessToken".into()])
            .with_credential("other_token");
        for ours in [
            "__Host-ludgate",
            "ludgate-app",
            "__Host-ludgate-app-2000",
            "__host-ludgate-tenant-1",
            "Ludgate-Bind",
            "phapplication-session-id",
            "accesstoken.sig",
            "other_token",
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
            "other_tokens",
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
