//! What it means: the written file becomes each room's own settings. What cannot be meant is a
//! mistake.

use std::{path::Path, sync::Arc, time::Duration};

use http::HeaderValue;
use openidconnect::IssuerUrl;
use url::Url;

use super::{
    Settings,
    file::{File, Section},
    resolve_apps, resolve_hosts, resolve_kubernetes,
    resolve_listen::{self, Limits, address},
    resolve_session,
    values::{ca_file, origin, secret_file, upstream},
};
use crate::{
    identity::oidc::{self, settings::GroupDirectory},
    model::{
        access::GroupName,
        app::{App, AppKind},
        cookie_names::CookieNames,
        secret::Secret,
        site::{Site, is_loopback_host, via},
    },
    ops::{self, logging},
    peer,
};

/// Resolves everything; `None` only together with at least one mistake.
pub fn resolve(file: &File<'_>, folder: &Path) -> Option<Settings> {
    let limits = Limits::read(&file.section("limits"));
    let forward = limits.forward.clone();
    let response_head = forward.response_head;
    let listen = resolve_listen::listen(file, &limits, folder);
    let kubernetes = resolve_kubernetes::kubernetes(file, folder);
    let serves_logs = matches!(&kubernetes, Some(Some(cluster)) if cluster.logs);
    let site = site(file, response_head).map(|site| {
        Arc::new(Site {
            serves_logs,
            ..site
        })
    });
    let admin = admin(&file.section("admin"), folder);
    let addresses = listen
        .iter()
        .flat_map(|(first, others)| std::iter::once(first).chain(others));
    if let Some(admin) = &admin
        && addresses
            .clone()
            .any(|listen| listen.address == admin.address && listen.address.port() != 0)
    {
        file.section("admin").wrong(
            "address",
            "is that of [listen]; operators need one of their own",
            None,
        );
    }
    let identity = if file.has("identity") {
        identity(&file.section("identity"), folder)
    } else {
        None
    };
    let (session, keys) = resolve_session::session(&file.section("session"), folder);
    let log = log(&file.section("log"));
    let apps = resolve_apps::apps(file, folder, response_head);
    if let Some(site) = &site {
        resolve_hosts::check_apps(file, site, &apps);
    }
    let arvados = resolve_hosts::arvados(file, site.as_deref(), folder);
    let mut warnings = site
        .as_deref()
        .map(resolve_hosts::warnings)
        .unwrap_or_default();
    warnings.extend(addresses.clone().filter_map(resolve_listen::warning));
    warnings.extend(resolve_session::warning(&session));
    if addresses.clone().any(|listen| listen.redirects)
        && site.as_ref().is_some_and(|site| !site.origin.secure)
    {
        file.section("site")
            .wrong("url", "is not https, and a listener redirects to it", None);
    }
    let (listen, more_listeners) = listen?;
    Some(Settings {
        peers: peer::PeerSettings {
            trusted: listen.trusted_proxies.clone(),
        },
        listen,
        more_listeners,
        admin: admin?,
        site: site?,
        identity,
        session,
        keys: Arc::new(keys?),
        forward,
        stop_grace: limits.stop_grace,
        sign_ins: limits.sign_ins,
        log,
        apps,
        arvados: arvados?,
        kubernetes: kubernetes?,
        warnings,
    })
}

fn site(file: &File<'_>, timeout: Duration) -> Option<Site> {
    let site = file.section("site");
    let url = site
        .text("url")
        .unwrap_or_else(|| "http://127.0.0.1:8080".to_owned());
    let origin = match origin(&url) {
        Ok(origin) => Some(origin),
        Err(what) => {
            site.wrong(
                "url",
                what,
                Some("for example url = \"https://hub.example.com\"".to_owned()),
            );
            None
        }
    };
    let apps_prefix = path(&site, "apps_prefix", "/apps");
    let endpoints = path(&site, "endpoints", "/oauth2");
    if let (Some(prefix), Some(endpoints)) = (&apps_prefix, &endpoints)
        && (within(prefix, endpoints) || within(endpoints, prefix))
    {
        site.wrong("endpoints", "must not overlap with site.apps_prefix", None);
    }
    let console = match site.text("console") {
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
    };
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
    let mut cookies = origin
        .as_ref()
        .map(|origin| CookieNames::new(origin.secure, &app_cookie, &console_cookies));
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
    let hsts = match site.duration("hsts") {
        Some(_) if origin.as_ref().is_some_and(|origin| !origin.secure) => {
            site.wrong("hsts", "means nothing on a site that is not https", None);
            None
        }
        Some(age) => HeaderValue::from_str(&format!("max-age={}", age.as_secs()))
            .ok()
            .map(Some),
        None => Some(None),
    };
    let apps_domain = resolve_hosts::apps_domain(&site, origin.as_ref());
    let ports = resolve_hosts::port_range(file, apps_domain.as_deref(), origin.as_ref());
    let origin = origin?;
    Some(Site {
        via: via(&origin),
        cookies: cookies?,
        origin,
        signs_in: file.has("identity"),
        serves_logs: false,
        alias: None,
        hsts: hsts?,
        welcome: None,
        apps_domain,
        ports,
        apps_prefix: apps_prefix?.into(),
        endpoints: endpoints?.into(),
        console: console?,
    })
}

/// Whether one path is the other or lies below it.
fn within(path: &str, other: &str) -> bool {
    path.strip_prefix(other)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn is_cookie_name(name: &str) -> bool {
    !name.is_empty()
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
}

fn path(section: &Section<'_>, name: &'static str, default: &str) -> Option<String> {
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

fn admin(section: &Section<'_>, folder: &Path) -> Option<ops::admin::AdminSettings> {
    let address = address(section, "127.0.0.1:9090");
    let token = secret_file(section, "token_file", folder);
    Some(ops::admin::AdminSettings {
        address: address?,
        token,
    })
}

fn identity(section: &Section<'_>, folder: &Path) -> Option<oidc::OidcSettings> {
    let issuer = section.required("issuer", issuer);
    let client_id = section.required("client_id", |id| {
        if id.is_empty() {
            Err("must not be empty".to_owned())
        } else {
            Ok(id.to_owned())
        }
    });
    let inline = section.text("client_secret").map(Secret::new);
    let from_file = secret_file(section, "client_secret_file", folder);
    if inline.is_some() && section.text("client_secret_file").is_some() {
        section.wrong(
            "client_secret",
            "and client_secret_file are both given",
            None,
        );
    }
    let mut scopes = section
        .texts("scopes")
        .unwrap_or_else(|| ["openid", "profile", "email"].map(str::to_owned).into());
    if !scopes.iter().any(|scope| scope == "openid") {
        scopes.insert(0, "openid".into());
    }
    let groups_claim = section
        .text("groups_claim")
        .unwrap_or_else(|| "groups".to_owned());
    if groups_claim.is_empty() || groups_claim == "/" {
        section.wrong("groups_claim", "must name a claim", None);
    }
    let directory = directory(section);
    let mut admin_groups = Vec::new();
    for name in section.texts("admin_groups").unwrap_or_default() {
        match GroupName::new(&name) {
            Some(group) => admin_groups.push(group),
            None => section.wrong("admin_groups", format!("{name:?} is no group"), None),
        }
    }
    let ca = ca_file(section, "ca", folder);
    let audiences = section.texts("audiences");
    let client_id = client_id?;
    Some(oidc::OidcSettings {
        issuer: issuer?,
        audiences: audiences.unwrap_or_else(|| vec![client_id.clone()]),
        client_id,
        client_secret: inline.or(from_file),
        scopes,
        groups_claim,
        directory,
        admin_groups,
        sign_out_at_provider: section.switch("sign_out_at_provider").unwrap_or(true),
        ca,
    })
}

fn directory(section: &Section<'_>) -> Option<GroupDirectory> {
    let field = section.text("groups_field");
    let Some(text) = section.text("groups_url") else {
        if field.is_some() {
            section.wrong("groups_field", "means nothing without groups_url", None);
        }
        return None;
    };
    let safe = |url: &Url| match url.scheme() {
        "https" => true,
        "http" => url.host_str().is_some_and(is_loopback_host),
        _ => false,
    };
    let url = Url::parse(&text)
        .ok()
        .filter(|url| safe(url) && url.username().is_empty() && url.password().is_none());
    if url.is_none() {
        section.wrong(
            "groups_url",
            "must be an https address (http is accepted on loopback only), without a user",
            None,
        );
    }
    Some(GroupDirectory {
        url: url?,
        field: field.unwrap_or_else(|| "id".to_owned()),
    })
}

fn issuer(text: &str) -> Result<IssuerUrl, String> {
    let issuer =
        IssuerUrl::new(text.to_owned()).map_err(|error| format!("{text:?} is no URL: {error}"))?;
    let url = issuer.url();
    let safe = match url.scheme() {
        "https" => true,
        "http" => url.host_str().is_some_and(is_loopback_host),
        _ => false,
    };
    if !safe {
        return Err("must be https (http is accepted on loopback only)".into());
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err("must have no query and no fragment".into());
    }
    Ok(issuer)
}

fn log(section: &Section<'_>) -> logging::LogSettings {
    let level = section.text("level").unwrap_or_else(|| "info".to_owned());
    if !logging::is_level(&level) {
        section.wrong(
            "level",
            format!("{level:?} is no level"),
            Some("level = \"info\"".to_owned()),
        );
    }
    logging::LogSettings {
        requests: section.switch("requests").unwrap_or(true),
        level,
    }
}
