//! The hosts of apps, beside the site.

use super::{file::ConfigFile, section::ConfigSection};
use crate::model::{
    app::{AppSpec, Isolation},
    dns,
    site::{Site, WebOrigin, is_loopback_host},
};

/// The domain of the apps' own hosts.
pub fn apps_domain(site: &ConfigSection<'_>, origin: Option<&WebOrigin>) -> Option<Box<str>> {
    let text = site.text("apps_domain")?;
    let example = || Some("for example apps_domain = \"apps.example.net\"".to_owned());
    if !is_host_name(&text) {
        site.wrong(
            "apps_domain",
            format!("{text:?} is no lower-case host name"),
            example(),
        );
        return None;
    }
    if let Some(origin) = origin.filter(|origin| text == *origin.host) {
        site.wrong(
            "apps_domain",
            "is the host of site.url; apps need a name of their own",
            on_this_machine(origin).or_else(example),
        );
    }
    Some(text.into())
}

/// How a site on loopback and its apps get different hosts: browsers resolve all names below
/// localhost to this machine.
fn on_this_machine(origin: &WebOrigin) -> Option<String> {
    let port = origin.authority.strip_prefix(&*origin.host)?;
    let scheme = if origin.secure { "https" } else { "http" };
    is_loopback_host(&origin.host).then(|| {
        format!(
            "on this machine: url = \"{scheme}://hub.localhost{port}\" and apps_domain = \"localhost\""
        )
    })
}

/// Checks the apps against the hosts.
pub fn check_apps(file: &ConfigFile<'_>, site: &Site, apps: &[AppSpec]) {
    let on_hosts = apps
        .iter()
        .any(|app| app.isolation == Isolation::Host || !app.published_ports.is_empty());
    if on_hosts && site.apps_domain.is_none() {
        let needed = Some("for example apps_domain = \"apps.example.net\"".to_owned());
        let what = "is needed: an app has isolation = \"host\" or published_ports";
        file.section("site").wrong("apps_domain", what, needed);
    }
    let taken = site.own_label();
    let mut with_host = apps.iter().filter(|app| app.isolation != Isolation::Path);
    if let Some(app) = with_host.find(|app| Some(app.id.as_str()) == taken) {
        let what = format!("gives the app {} the host of site.url", app.id);
        file.section("site").wrong("apps_domain", what, None);
    }
}

/// Warnings about valid but unsafe hosts.
pub fn warnings(site: &Site) -> Vec<String> {
    let mut warnings = Vec::new();
    if let Some(host) = &site.apps_domain {
        warnings.extend(plain_http("site.apps_domain", host, site));
    }
    let registrable = |host: &str| psl::domain_str(host).map(str::to_owned);
    if let Some(domain) = &site.apps_domain
        && let Some(shared) = registrable(domain)
        && registrable(&site.origin.host).as_ref() == Some(&shared)
    {
        warnings.push(format!(
            "site.apps_domain {domain} and site.url {} are both under {shared}: to browsers apps and site are then \
             one site. Give the apps a registrable domain of their own",
            site.origin
        ));
    }
    warnings
}

/// The warning about a host whose sessions would travel without encryption.
pub fn plain_http(key: &str, host: &str, site: &Site) -> Option<String> {
    (!site.origin.secure && !is_loopback_host(host)).then(|| {
        format!(
            "{key} {host} is no loopback name and site.url is plain http: sessions there travel in clear, and \
             browsers do not protect their cookies"
        )
    })
}

/// Whether a host is the domain or below it.
pub fn is_within(host: &str, domain: &str) -> bool {
    host.strip_suffix(domain)
        .is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

/// Whether a text is a lower-case host name with room for another label.
pub fn is_host_name(text: &str) -> bool {
    let label = |label: &str| dns::is_label(label.as_bytes(), dns::MAX_LABEL);
    // Leaves room for a label of 63 bytes and its dot within the 253 bytes of a host name.
    text.len() <= 253 - 64 && text.split('.').all(label)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::cookie_names::CookieNames;

    fn warned(site: &str, apps: &str) -> bool {
        let mut of = Site::with_default_paths(
            WebOrigin::new(true, site, 443),
            CookieNames::new(true, "c", &[]),
        );
        of.apps_domain = Some(apps.into());
        !warnings(&of).is_empty()
    }

    #[test]
    fn apps_under_the_site_s_registrable_domain_are_warned_of() {
        assert!(warned("hub.example.com", "apps.example.com"));
        assert!(warned("example.com", "apps.example.com"));
        assert!(warned("hub.example.co.uk", "apps.example.co.uk"));
        assert!(!warned("hub.example.com", "apps.example.net"));
        assert!(!warned("hub.one.co.uk", "apps.two.co.uk"));
        assert!(!warned("127.0.0.1", "localhost"));
        assert!(
            !warned("me.github.io", "apps.github.io"),
            "github.io is a public suffix"
        );
    }
}
