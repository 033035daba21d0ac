//! `[arvados]`, and the public ports of its containers on a host that serves nothing else.

use std::path::Path;

use url::Url;

use super::{
    file::ConfigFile,
    resolve_hosts::{is_host_name, is_within, plain_http},
    values::{ca_file, origin, secret_file},
};
use crate::{
    integrations::arvados::ArvadosSettings,
    model::{
        site::{PortRange, Site, WebOrigin},
        vhost,
    },
};

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

/// Reads the table. `None` only together with an error.
pub fn arvados(
    file: &ConfigFile<'_>,
    site: Option<&Site>,
    folder: &Path,
) -> Option<Option<ArvadosSettings>> {
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
    Some(Some(ArvadosSettings {
        api: api?,
        root_token: root_token?,
        ca,
        accept_sign_in,
    }))
}

/// The warning about a host that is valid but unsafe.
pub fn warning(site: &Site) -> Option<String> {
    let range = site.ports.as_ref()?;
    plain_http("arvados.ports", &range.host, site)
}
