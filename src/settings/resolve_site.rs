//! `[site]`: the public origin, our paths on it, the console, and the names of cookies.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use http::HeaderValue;

use super::{
    file::ConfigFile,
    resolve_arvados, resolve_assertion_keys, resolve_hosts,
    section::ConfigSection,
    values::{API_ADDRESS, origin, upstream},
};
use crate::{
    integrations::arvados::TOKEN_COOKIE,
    model::{
        app::{App, AppKind},
        cookie_names::CookieNames,
        path_prefix::below,
        site::{Site, WebOrigin, via},
    },
    route::path::RESERVED,
};

/// Default prefix of apps.
const APPS_PREFIX: &str = "/apps";
/// Default prefix of our endpoints.
const ENDPOINTS: &str = "/oauth2";

/// Reads `[site]`. `None` only together with an error.
pub(super) fn site(file: &ConfigFile<'_>, timeout: Duration) -> Option<Site> {
    let site = file.section("site");
    let origin = public_origin(&site);
    let apps_prefix = path(&site, "apps_prefix", APPS_PREFIX);
    let endpoints = path(&site, "endpoints", ENDPOINTS);
    if let (Some(prefix), Some(endpoints)) = (&apps_prefix, &endpoints)
        && overlap(prefix, endpoints)
    {
        site.wrong("endpoints", "must not overlap with site.apps_prefix", None);
    }
    let console = console(&site, timeout);
    let api = api(file, timeout);
    let secure = origin.as_ref().map(|origin| origin.secure);
    let cookies = cookies(file, &site, secure);
    let hsts = hsts(&site, secure);
    let apps_domain = resolve_hosts::apps_domain(&site, origin.as_ref());
    let ports = resolve_arvados::port_range(file, apps_domain.as_deref(), origin.as_ref());
    let origin = origin?;
    Some(Site {
        via: via(&origin),
        cookies: cookies?,
        origin,
        signs_in: file.has("identity"),
        signs_assertions: resolve_assertion_keys::are_configured(file),
        serves_logs: false,
        alias: None,
        hsts: hsts?,
        welcome: None,
        apps_domain,
        ports,
        apps_prefix: apps_prefix?.into(),
        viewers_prefix: None,
        installs_prefix: None,
        labs_prefix: None,
        endpoints: endpoints?.into(),
        api: api?,
        console: console?,
    })
}

/// `site.url`, or its default.
pub(super) fn public_url(site: &ConfigSection<'_>) -> String {
    let written = site.text("url");
    written.unwrap_or_else(|| "http://127.0.0.1:8080".to_owned())
}

fn public_origin(site: &ConfigSection<'_>) -> Option<WebOrigin> {
    match origin(&public_url(site)) {
        Ok(origin) => Some(origin),
        Err(what) => {
            site.wrong(
                "url",
                what,
                Some("for example url = \"https://hub.example.com\"".to_owned()),
            );
            None
        }
    }
}

/// `None` only together with an error.
fn console(site: &ConfigSection<'_>, timeout: Duration) -> Option<Option<Arc<App>>> {
    match site.text("console") {
        None => Some(None),
        Some(text) => match upstream(&text) {
            Ok(upstream) => Some(App::console(upstream, timeout).map(Arc::new)),
            Err(what) => {
                site.wrong(
                    "console",
                    what,
                    Some("for example console = \"http://127.0.0.1:3000\"".to_owned()),
                );
                None
            }
        },
    }
}

/// The API: where `site.api` says, or in this process. `None` only together with an error.
fn api(file: &ConfigFile<'_>, timeout: Duration) -> Option<Option<Arc<App>>> {
    let site = file.section("site");
    let written = match site.text("api") {
        None if file.has("api") => match own_api(file) {
            Some(address) => format!("http://{address}"),
            None => return Some(None),
        },
        None => return Some(None),
        Some(text) => text,
    };
    match upstream(&written) {
        Ok(upstream) => Some(App::api(upstream, timeout).map(Arc::new)),
        Err(what) => {
            let example = "for example api = \"http://ludgate-api:8082\"";
            site.wrong("api", what, Some(example.to_owned()));
            None
        }
    }
}

/// The address of the API in this process. A port that the system chooses is not known yet.
fn own_api(file: &ConfigFile<'_>) -> Option<SocketAddr> {
    let address = file.section("api").text("address");
    let address = address.as_deref().unwrap_or(API_ADDRESS);
    // Another error is reported where the listener is resolved.
    address
        .parse()
        .ok()
        .filter(|it: &SocketAddr| it.port() != 0)
}

/// The names of all cookies. `secure` is whether the site is https, where that is known.
fn cookies(
    file: &ConfigFile<'_>,
    site: &ConfigSection<'_>,
    secure: Option<bool>,
) -> Option<CookieNames> {
    let session = file.section("session");
    let app_cookie = session
        .text("cookie")
        .unwrap_or_else(|| "phapplication-session-id".to_owned());
    if !is_cookie_name(&app_cookie) || app_cookie.to_ascii_lowercase().starts_with("__") {
        session.wrong(
            "cookie",
            "is no cookie name of a path (letters, digits, - and _; no __ prefix)",
            None,
        );
    }
    let console_cookies = site.texts("console_cookies").unwrap_or_default();
    let taken = CookieNames::new(false, "", &console_cookies);
    if taken.is_withheld_from(AppKind::Hosted, app_cookie.as_bytes()) {
        session.wrong(
            "cookie",
            "is the name of another cookie of the gateway or of the console",
            None,
        );
    }
    if console_cookies.iter().any(|name| !is_cookie_name(name)) {
        site.wrong(
            "console_cookies",
            "holds something that is no cookie name",
            None,
        );
    }
    let mut cookies = secure.map(|secure| {
        CookieNames::new(secure, &app_cookie, &console_cookies).with_credential(TOKEN_COOKIE)
    });
    if file.has("identity")
        && let Some(name) = file.section("identity").text("access_token_cookie")
    {
        if !is_cookie_name(&name) || taken.is_ours(name.as_bytes()) || name == app_cookie {
            file.section("identity").wrong(
                "access_token_cookie",
                "is no name for a cookie of the console",
                None,
            );
        }
        cookies = cookies.map(|cookies| cookies.with_access_token(&name));
    }
    cookies
}

/// `None` only together with an error.
fn hsts(site: &ConfigSection<'_>, secure: Option<bool>) -> Option<Option<HeaderValue>> {
    match site.duration("hsts") {
        Some(_) if secure == Some(false) => {
            site.wrong("hsts", "means nothing on a site that is not https", None);
            None
        }
        Some(age) => HeaderValue::from_str(&format!("max-age={}", age.as_secs()))
            .ok()
            .map(Some),
        None => Some(None),
    }
}

/// `site.apps_prefix`, or its default.
pub(super) fn apps_prefix(file: &ConfigFile<'_>) -> String {
    let written = file.section("site").text("apps_prefix");
    written.unwrap_or_else(|| APPS_PREFIX.to_owned())
}

/// The paths at which Ludgate itself answers, with their names in errors.
pub(super) fn own_paths(file: &ConfigFile<'_>) -> [(&'static str, String); 4] {
    let endpoints = file.section("site").text("endpoints");
    let endpoints = endpoints.unwrap_or_else(|| ENDPOINTS.to_owned());
    [
        ("site.endpoints", endpoints),
        ("the API below /api", "/api".to_owned()),
        ("the API below /oidc", "/oidc".to_owned()),
        ("our own paths below /.ludgate", RESERVED.to_owned()),
    ]
}

/// Reports each of the paths that the value of the key `prefix` overlaps with.
pub(super) fn check_overlap(
    section: &ConfigSection<'_>,
    prefix: &str,
    paths: impl IntoIterator<Item = (&'static str, String)>,
) {
    for (name, path) in paths {
        if overlap(prefix, &path) {
            section.wrong("prefix", format!("must not overlap with {name}"), None);
        }
    }
}

/// Whether the paths are equal, or one lies below the other.
fn overlap(path: &str, other: &str) -> bool {
    below(path, other).is_some() || below(other, path).is_some()
}

fn is_cookie_name(name: &str) -> bool {
    !name.is_empty()
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
}

/// A path of plain segments. `None` only together with an error.
pub(super) fn path(
    section: &ConfigSection<'_>,
    name: &'static str,
    default: &str,
) -> Option<String> {
    let text = section.text(name).unwrap_or_else(|| default.to_owned());
    let segment = |s: &str| {
        !s.is_empty()
            && !s.starts_with('.')
            && s.bytes()
                .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.' | b'~'))
    };
    let fine = text
        .strip_prefix('/')
        .is_some_and(|rest| rest.split('/').all(segment));
    if !fine {
        let suggestion = Some(format!("for example {name} = \"{default}\""));
        section.wrong(
            name,
            "must be a path of plain segments, with a slash before and none after it",
            suggestion,
        );
    }
    fine.then_some(text)
}
