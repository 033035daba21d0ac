//! The origins beside the site: hosts of apps, and public ports of containers on a host that serves
//! nothing else. Also `[arvados]`, which needs one of them.

use std::path::Path;

use url::Url;

use super::{
    file::ConfigFile,
    section::ConfigSection,
    values::{ca_file, origin, secret_file},
};
use crate::{
    integrations::arvados,
    model::{
        app::{AppSpec, Isolation},
        dns,
        site::{PortRange, Site, WebOrigin, is_loopback_host},
        vhost,
    },
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
    if origin.is_some_and(|origin| text == *origin.host) {
        site.wrong(
            "apps_domain",
            "is the host of site.url; apps need a name of their own",
            example(),
        );
    }
    Some(text.into())
}

/// The host and the range of `arvados.ports`.
pub fn port_range(
    file: &ConfigFile<'_>,
    apps_domain: Option<&str>,
    origin: Option<&WebOrigin>,
) -> Option<PortRange> {
    if !file.has("arvados") {
        return None;
    }
    let arvados = file.section("arvados");
    let (host, range) = arvados.pair("ports", "host", "range")?;
    let example = || {
        Some(
            "for example ports = { host = \"ports.example.org\", range = \"2000-2999\" }"
                .to_owned(),
        )
    };
    let bounds = range.split_once('-').and_then(|(first, last)| {
        Some((
            vhost::parse_port(first.as_bytes())?,
            vhost::parse_port(last.as_bytes())?,
        ))
    });
    let Some((first, last)) = bounds.filter(|(first, last)| first <= last) else {
        arvados.wrong(
            "ports",
            format!("{range:?} is no range of ports"),
            example(),
        );
        return None;
    };
    if !is_host_name(&host) {
        arvados.wrong(
            "ports",
            format!("{host:?} is no lower-case host name"),
            example(),
        );
    }
    // Cookies ignore ports, and with a `Domain` attribute they reach the hosts below.
    if origin.is_some_and(|origin| is_within(&origin.host, &host)) {
        arvados.wrong(
            "ports",
            format!("{host} is the host of site.url, or above it"),
            example(),
        );
    }
    if apps_domain.is_some_and(|domain| is_within(domain, &host) || is_within(&host, domain)) {
        arvados.wrong(
            "ports",
            format!("{host} is above or below site.apps_domain"),
            example(),
        );
    }
    Some(PortRange {
        host: host.into(),
        first,
        last,
    })
}

/// Reads `[arvados]`. `None` only together with an error.
pub fn arvados(
    file: &ConfigFile<'_>,
    site: Option<&Site>,
    folder: &Path,
) -> Option<Option<arvados::ArvadosSettings>> {
    if !file.has("arvados") {
        return Some(None);
    }
    let section = file.section("arvados");
    let api = section.required("api", |text| {
        let origin = origin(text)?;
        Url::parse(&origin.text).map_err(|error| error.to_string())
    });
    let root_token = secret_file(&section, "root_token_file", folder);
    if root_token
        .as_ref()
        .is_some_and(|token| !token.expose().bytes().all(|byte| byte.is_ascii_graphic()))
    {
        section.wrong("root_token_file", "holds something that is no token", None);
    }
    if section.text("root_token_file").is_none() {
        section.missing("root_token_file");
    }
    if site.is_some_and(|site| site.apps_domain.is_none() && site.ports.is_none()) {
        let needed = Some(
            "set site.apps_domain, or arvados.ports where no wildcard name can be had".to_owned(),
        );
        section.wrong("api", "has containers without an address", needed);
    }
    let ca = ca_file(&section, "ca", folder);
    let accept_sign_in = section.switch("accept_sign_in").unwrap_or(false);
    Some(Some(arvados::ArvadosSettings {
        api: api?,
        root_token: root_token?,
        ca,
        accept_sign_in,
    }))
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
    if let Some(app) = apps.iter().find(|app| Some(app.id.as_str()) == taken) {
        let what = format!("gives the app {} the host of site.url", app.id);
        file.section("site").wrong("apps_domain", what, None);
    }
}

/// Warnings about valid but unsafe hosts.
pub fn warnings(site: &Site) -> Vec<String> {
    let mut warnings = Vec::new();
    let hosts = [
        ("site.apps_domain", site.apps_domain.as_deref()),
        (
            "arvados.ports",
            site.ports.as_ref().map(|range| &*range.host),
        ),
    ];
    for (key, host) in hosts
        .into_iter()
        .filter_map(|(key, host)| Some((key, host?)))
    {
        if !site.origin.secure && !is_loopback_host(host) {
            warnings.push(format!(
                "{key} {host} is no loopback name and site.url is plain http: sessions there travel in clear, and \
                 browsers do not protect their cookies"
            ));
        }
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

/// Whether a host is the domain or below it.
fn is_within(host: &str, domain: &str) -> bool {
    host.strip_suffix(domain)
        .is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

fn is_host_name(text: &str) -> bool {
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
