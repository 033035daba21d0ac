//! Resolution: the configuration file becomes each room's own settings. Invalid values are reported
//! as errors, all together.

use std::{net::SocketAddr, path::Path, sync::Arc};

use super::{
    file::ConfigFile,
    resolve_apps, resolve_arvados, resolve_hosts, resolve_identity, resolve_kubernetes,
    resolve_listen::{self, Limits, Listeners, address},
    resolve_session, resolve_site,
    resolved::Settings,
    section::ConfigSection,
    values::secret_file,
};
use crate::{
    model::site::Site,
    ops::{self, logging},
    peer,
    session::SessionSettings,
};

/// Resolves the whole file. `None` only together with at least one error.
pub fn resolve(file: &ConfigFile<'_>, folder: &Path) -> Option<Settings> {
    let limits = Limits::from_section(&file.section("limits"));
    let response_head = limits.forward.response_head;
    let listeners = resolve_listen::listen(file, &limits, folder);
    let kubernetes = resolve_kubernetes::kubernetes(file, folder);
    let serves_logs = matches!(&kubernetes, Some(Some(cluster)) if cluster.logs);
    let site = resolve_site::site(file, response_head).map(|site| {
        Arc::new(Site {
            serves_logs,
            ..site
        })
    });
    let admin = admin(&file.section("admin"), folder);
    let identity = if file.has("identity") {
        resolve_identity::identity(&file.section("identity"), folder)
    } else {
        None
    };
    let (session, keys) = resolve_session::session(&file.section("session"), folder);
    let log = log(&file.section("log"));
    let apps = resolve_apps::apps(file, folder, response_head);
    if let Some(site) = &site {
        resolve_hosts::check_apps(file, site, &apps);
    }
    let arvados = resolve_arvados::arvados(file, site.as_deref(), folder);
    if let Some(listeners) = &listeners {
        check_listeners(
            file,
            listeners,
            site.as_deref(),
            admin.as_ref().map(|admin| admin.address),
        );
    }
    let warnings = warnings(site.as_deref(), listeners.as_ref(), &session);
    let listeners = listeners?;
    Some(Settings {
        peers: peer::PeerSettings {
            trusted: listeners.first.trusted_proxies.clone(),
        },
        listen: listeners.first,
        more_listeners: listeners.others,
        admin: admin?,
        site: site?,
        identity,
        session,
        keys: Arc::new(keys?),
        forward: limits.forward,
        stop_grace: limits.stop_grace,
        sign_ins: limits.sign_ins,
        log,
        apps,
        arvados: arvados?,
        kubernetes: kubernetes?,
        warnings,
    })
}

/// Checks the listeners against the other sections.
fn check_listeners(
    file: &ConfigFile<'_>,
    listeners: &Listeners,
    site: Option<&Site>,
    admin: Option<SocketAddr>,
) {
    let taken = listeners
        .all()
        .any(|listen| Some(listen.address) == admin && listen.address.port() != 0);
    if taken {
        file.section("admin").wrong(
            "address",
            "is that of [listen]; operators need one of their own",
            None,
        );
    }
    if listeners.all().any(|listen| listen.redirects)
        && site.is_some_and(|site| !site.origin.secure)
    {
        file.section("site")
            .wrong("url", "is not https, and a listener redirects to it", None);
    }
}

fn warnings(
    site: Option<&Site>,
    listeners: Option<&Listeners>,
    session: &SessionSettings,
) -> Vec<String> {
    let mut warnings = site.map(resolve_hosts::warnings).unwrap_or_default();
    warnings.extend(site.and_then(resolve_arvados::warning));
    let listeners = listeners.into_iter().flat_map(Listeners::all);
    warnings.extend(listeners.filter_map(resolve_listen::warning));
    warnings.extend(resolve_session::warning(session));
    warnings
}

pub(super) fn admin(
    section: &ConfigSection<'_>,
    folder: &Path,
) -> Option<ops::admin::AdminSettings> {
    let address = address(section, "127.0.0.1:9090");
    let token = secret_file(section, "token_file", folder);
    Some(ops::admin::AdminSettings {
        address: address?,
        token,
    })
}

pub(super) fn log(section: &ConfigSection<'_>) -> logging::LogSettings {
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
