//! The names of every cookie that is a secret of ours or of the console, and who may see which.

use super::app::AppKind;

/// The cookie names of one site.
#[derive(Clone, Debug)]
pub struct CookieNames {
    /// The sign-in, on the site.
    pub sign_in: Box<str>,
    /// The browser that started a sign-in.
    pub bind: Box<str>,
    /// The session of one app on a path.
    pub app: Box<str>,
    /// Every spelling that is ours, lower-cased: with and without `__Host-`.
    ours: Vec<Box<str>>,
    /// The console's own secrets with their `.sig` twins, lower-cased.
    console: Vec<Box<str>>,
}

impl CookieNames {
    /// The names for a site; `__Host-` needs `Secure`, so plain http (loopback) goes without.
    pub fn new(secure: bool, app: &str, console: &[String]) -> CookieNames {
        let bases = ["ludgate", "ludgate-bind", "ludgate-app"];
        let named =
            |base: &str| -> Box<str> { if secure { format!("__Host-{base}").into() } else { base.into() } };
        let mut ours: Vec<Box<str>> = vec![app.to_ascii_lowercase().into()];
        for base in bases {
            ours.push(base.into());
            ours.push(format!("__host-{base}").into());
        }
        let console = console
            .iter()
            .flat_map(|name| [name.to_ascii_lowercase(), format!("{}.sig", name.to_ascii_lowercase())])
            .map(String::into_boxed_str)
            .collect();
        CookieNames { sign_in: named("ludgate"), bind: named("ludgate-bind"), app: app.into(), ours, console }
    }

    /// Whether a cookie of this name must be kept from, and not taken from, this kind of app.
    /// Case does not matter: a name that only differs in case would fool a careless reader.
    pub fn is_withheld_from(&self, kind: AppKind, name: &[u8]) -> bool {
        let among = |list: &[Box<str>]| list.iter().any(|n| n.as_bytes().eq_ignore_ascii_case(name));
        match kind {
            AppKind::Console => among(&self.ours),
            AppKind::Hosted => among(&self.ours) || among(&self.console),
        }
    }
}
