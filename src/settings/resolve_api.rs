//! `[api]`: the settings of `ludgate api`.

use std::{net::SocketAddr, path::Path, sync::Arc};

use super::{
    file::ConfigFile, resolve_controller, resolve_datasets, resolve_groups, resolve_identity,
    resolve_installations, resolve_kubernetes, resolve_listen, resolve_process, resolve_session,
    resolve_site, section::ConfigSection, values::API_ADDRESS,
};
use crate::{
    api::{
        installations::{
            cluster_user::{ClusterNames, RESERVED},
            service::InstallationsSettings,
        },
        platform::PlatformSettings,
        template_import::ImportSettings,
    },
    cluster::ClusterSettings,
    forward::ForwardSettings,
    identity::oidc::OidcSettings,
    model::{access::UsernameClaim, site::Site},
    ops::{admin::AdminSettings, logging::LogSettings},
    session::keys::KeyRing,
};

/// The API itself, in a process of its own or in a gateway's.
#[derive(Debug)]
pub struct ApiService {
    /// The address of its listener.
    pub address: SocketAddr,
    /// What operations depend on.
    pub platform: PlatformSettings,
    /// How administrators import templates; `None`: they cannot.
    pub import: Option<ImportSettings>,
    /// Whether people may get API tokens by device codes.
    pub device_sign_in: bool,
    /// The REST API of applications; `None`: it is off.
    pub installations: Option<InstallationsSettings>,
}

/// All settings of `ludgate api`.
#[derive(Debug)]
pub struct ApiSettings {
    /// The API itself.
    pub service: ApiService,
    /// The cluster and its namespaces.
    pub cluster: ClusterSettings,
    /// The identity provider.
    pub identity: OidcSettings,
    /// The public origin and its paths.
    pub site: Arc<Site>,
    /// Keys that seal the state of a person who gets an API token.
    pub keys: Arc<KeyRing>,
    /// The admin listener.
    pub admin: AdminSettings,
    /// The log level.
    pub log: LogSettings,
}

/// The API in the process of a gateway: where the file has it, and not elsewhere. `None` only
/// together with an error.
pub(super) fn in_gateway(file: &ConfigFile<'_>, site: Option<&Site>) -> Option<Option<ApiService>> {
    if !file.has("api") || file.section("site").has("api") {
        return Some(None);
    }
    for (table, key) in [("kubernetes", "namespace"), ("identity", "issuer")] {
        if !file.has(table) {
            file.section(table).missing(key);
        }
    }
    service(file, site).map(Some)
}

/// Resolves the tables of the process. `None` only together with an error.
pub(super) fn api(file: &ConfigFile<'_>, folder: &Path) -> Option<ApiSettings> {
    let kubernetes = resolve_kubernetes::kubernetes(file, folder);
    if matches!(kubernetes, Some(None)) {
        file.section("kubernetes").missing("namespace");
    }
    let identity = resolve_identity::identity(&file.section("identity"), folder);
    let site = resolve_site::site(file, ForwardSettings::default().response_head);
    // Only a gateway needs the sessions themselves, and their store.
    let keys = resolve_session::keys(&file.section("session"), folder);
    let service = service(file, site.as_ref());
    let admin = resolve_process::admin(&file.section("admin"), folder);
    let log = resolve_process::log(&file.section("log"));
    Some(ApiSettings {
        service: service?,
        cluster: kubernetes??.cluster,
        identity: identity?,
        site: Arc::new(site?),
        keys: Arc::new(keys?),
        admin: admin?,
        log,
    })
}

fn service(file: &ConfigFile<'_>, site: Option<&Site>) -> Option<ApiService> {
    let address = resolve_listen::address(&file.section("api"), API_ADDRESS);
    let groups = resolve_groups::groups(file);
    if !file.has("groups") {
        file.section("groups")
            .missing("a table of each group, such as [groups.phusers]");
    }
    let instance_types = resolve_groups::instance_types(file);
    let import = template_import(file);
    let device_sign_in = file.section("api").switch("device_sign_in");
    let datasets = resolve_datasets::for_all_apps(file);
    let installations = installations(file);
    let site = site?;
    Some(ApiService {
        address: address?,
        import: import?,
        device_sign_in: device_sign_in.unwrap_or(false),
        installations: installations?,
        platform: PlatformSettings {
            site_url: site.origin.to_string(),
            apps_prefix: site.apps_prefix.to_string(),
            groups: groups?,
            instance_types: instance_types?,
            datasets: datasets?,
        },
    })
}

/// `Some(None)`: it is off. `None` only together with an error.
fn template_import(file: &ConfigFile<'_>) -> Option<Option<ImportSettings>> {
    let is_on = file.section("api").switch("template_import");
    if !is_on.unwrap_or(false) {
        return Some(None);
    }
    let pods = resolve_controller::allowed_pod_rights(file)?;
    Some(Some(ImportSettings::new(pods)))
}

/// `Some(None)`: it is off. `None` only together with an error.
fn installations(file: &ConfigFile<'_>) -> Option<Option<InstallationsSettings>> {
    let api = &file.section("api");
    let is_on = api.switch("installations").unwrap_or(false);
    let claim = api.required_or("username_claim", UsernameClaim::default(), |name| {
        UsernameClaim::parse(name).ok_or_else(|| "must be preferred_username or sub".to_owned())
    });
    let settings = InstallationsSettings {
        names: ClusterNames {
            claim,
            username_prefix: prefix(api, "username_prefix")?,
            groups_prefix: prefix(api, "groups_prefix")?,
        },
        cluster_name: resolve_installations::cluster_name(file),
    };
    Some(is_on.then_some(settings))
}

/// A prefix of names. `None` only together with an error.
fn prefix(api: &ConfigSection<'_>, key: &'static str) -> Option<String> {
    let prefix = api.text(key).unwrap_or_default();
    if prefix.starts_with(RESERVED) {
        let what = format!("must not begin with {RESERVED}: those names are of Kubernetes itself");
        api.wrong(key, what, None);
        return None;
    }
    Some(prefix)
}
