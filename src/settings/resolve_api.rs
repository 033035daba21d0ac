//! `[api]`: the settings of `ludgate api`.

use std::{net::SocketAddr, path::Path, sync::Arc};

use super::{
    file::ConfigFile, resolve, resolve_groups, resolve_identity, resolve_kubernetes,
    resolve_listen, resolve_session, resolve_site,
};
use crate::{
    api::platform::PlatformSettings,
    cluster::ClusterSettings,
    forward::ForwardSettings,
    identity::oidc::OidcSettings,
    model::site::Site,
    ops::{admin::AdminSettings, logging::LogSettings},
    session::keys::KeyRing,
};

/// All settings of `ludgate api`.
#[derive(Debug)]
pub struct ApiSettings {
    /// The address of its listener.
    pub address: SocketAddr,
    /// The cluster and its namespaces.
    pub cluster: ClusterSettings,
    /// The identity provider.
    pub identity: OidcSettings,
    /// The public origin and its paths.
    pub site: Arc<Site>,
    /// Keys that seal the state of a person who gets an API token.
    pub keys: Arc<KeyRing>,
    /// What operations depend on.
    pub platform: PlatformSettings,
    /// The admin listener.
    pub admin: AdminSettings,
    /// The log level.
    pub log: LogSettings,
}

/// The address of the listener. `None` only together with an error.
pub(super) fn address(file: &ConfigFile<'_>) -> Option<SocketAddr> {
    resolve_listen::address(&file.section("api"), "127.0.0.1:8082")
}

/// Resolves the tables of the process. `None` only together with an error.
pub(super) fn api(file: &ConfigFile<'_>, folder: &Path) -> Option<ApiSettings> {
    let address = address(file);
    let kubernetes = resolve_kubernetes::kubernetes(file, folder);
    if matches!(kubernetes, Some(None)) {
        file.section("kubernetes").missing("namespace");
    }
    let identity = resolve_identity::identity(&file.section("identity"), folder);
    let site = resolve_site::site(file, ForwardSettings::default().response_head);
    let (_, keys) = resolve_session::session(&file.section("session"), folder);
    let groups = resolve_groups::groups(file);
    if !file.has("groups") {
        file.section("groups")
            .missing("a table of each group, such as [groups.phusers]");
    }
    let instance_types = resolve_groups::instance_types(file);
    let admin = resolve::admin(&file.section("admin"), folder);
    let log = resolve::log(&file.section("log"));
    let site = site?;
    Some(ApiSettings {
        address: address?,
        cluster: kubernetes??.cluster,
        identity: identity?,
        platform: PlatformSettings {
            site_url: site.origin.to_string(),
            apps_prefix: site.apps_prefix.to_string(),
            groups: groups?,
            instance_types: instance_types?,
        },
        site: Arc::new(site),
        keys: Arc::new(keys?),
        admin: admin?,
        log,
    })
}
