//! Resolution: the configuration file becomes each room's own settings. Invalid values are reported
//! as errors, all together.

use std::{net::SocketAddr, path::Path, sync::Arc};

use super::{
    file::ConfigFile,
    resolve_access, resolve_api, resolve_apps, resolve_arvados, resolve_assertion_keys,
    resolve_hosts, resolve_hub_proxy, resolve_identity, resolve_kubernetes,
    resolve_listen::{self, Limits, Listeners},
    resolve_process, resolve_service_tokens, resolve_session, resolve_site,
    resolved::Settings,
};
use crate::{model::site::Site, peer, session::SessionSettings};

/// Resolves the whole file. `None` only together with at least one error.
pub fn resolve(file: &ConfigFile<'_>, folder: &Path) -> Option<Settings> {
    let limits = Limits::from_section(&file.section("limits"));
    let response_head = limits.forward.response_head;
    let listeners = resolve_listen::listen(file, &limits, folder);
    let kubernetes = resolve_kubernetes::kubernetes(file, folder);
    let cluster = kubernetes.as_ref().and_then(Option::as_ref);
    let viewers = cluster.and_then(|cluster| cluster.viewers.as_ref());
    let labs = cluster.and_then(|cluster| cluster.labs.as_ref());
    let installations = cluster.and_then(|cluster| cluster.installations.as_ref());
    let site = resolve_site::site(file, response_head).map(|site| {
        Arc::new(Site {
            serves_logs: cluster.is_some_and(|cluster| cluster.logs),
            viewers_prefix: viewers.map(|viewers| viewers.prefix.as_str().into()),
            installs_prefix: installations.map(|served| served.prefix.as_str().into()),
            labs_prefix: labs.map(|labs| labs.prefix.as_str().into()),
            ..site
        })
    });
    let api = resolve_api::in_gateway(file, site.as_deref());
    let admin = resolve_process::admin(&file.section("admin"), folder);
    let identity = if file.has("identity") {
        resolve_identity::identity(&file.section("identity"), folder)
    } else {
        None
    };
    let assertion_keys = resolve_assertion_keys::assertion_keys(&file.section("identity"), folder);
    let (session, keys) = resolve_session::session(&file.section("session"), folder);
    let service_tokens = resolve_service_tokens::service_tokens(file, &session, folder);
    let log = resolve_process::log(&file.section("log"));
    let apps = resolve_apps::apps(file, folder, response_head, session.idle);
    if let Some(site) = &site {
        resolve_hosts::check_apps(file, site, &apps);
    }
    if let Some(identity) = &identity {
        resolve_access::check_claims(file, identity, &apps);
    }
    let admin_address = admin.as_ref().map(|admin| admin.address);
    let others = resolve_hub_proxy::OtherTables {
        site: site.as_deref(),
        admin: admin_address,
        listeners: listeners.as_ref(),
        identity: identity.as_ref(),
        response_head,
    };
    let hub_proxy = resolve_hub_proxy::hub_proxy(file, folder, others);
    let arvados = resolve_arvados::arvados(file, site.as_deref(), folder);
    if let Some(listeners) = &listeners {
        check_listeners(file, listeners, site.as_deref(), admin_address);
    }
    let mut warnings = warnings(site.as_deref(), listeners.as_ref(), &session);
    warnings.extend(resolve_kubernetes::warning(cluster));
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
        service_tokens: service_tokens?,
        keys: Arc::new(keys?),
        assertion_keys: assertion_keys?,
        forward: limits.forward,
        stop_grace: limits.stop_grace,
        sign_ins: limits.sign_ins,
        anonymous_use_interval: limits.anonymous_use_interval,
        log,
        app_labels: resolve_process::app_labels(&file.section("metrics")),
        apps,
        arvados: arvados?,
        kubernetes: kubernetes?,
        api: api?,
        hub_proxy: hub_proxy?,
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
