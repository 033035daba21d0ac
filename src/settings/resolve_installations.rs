//! `[controller.installations]`: what the controller of installations knows besides objects.

use std::{fs, path::Path};

use super::{file::ConfigFile, resolve_listen::networks, section::ConfigSection, values::ca_file};
use crate::installs::{
    controller::settings::{HOME_TARGET, InstallationSettings},
    helm::command::ServerSideApply,
    placement::NamespacePattern,
    source::{GitSettings, HostPattern, HostRules, SourceLimits, SourceSettings},
    validation::source::SourceRules,
};

/// Namespaces of Kubernetes itself.
const PROTECTED: [&str; 3] = ["kube-system", "kube-public", "kube-node-lease"];
/// Where the image has Helm.
const HELM: &str = "/usr/local/bin/helm";
/// Where the image has git, ssh and prlimit.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";
/// A ClusterRole of every cluster, for the owners of namespaces.
const CLUSTER_ROLE: &str = "admin";

/// The controller of installations in these namespaces, if they are known. The first one has its
/// Secrets. `Some(None)`: it is off. `None` only together with an error.
pub(super) fn installations(
    file: &ConfigFile<'_>,
    folder: &Path,
    namespaces: Option<&[String]>,
) -> Option<Option<InstallationSettings>> {
    let controller = file.section("controller");
    if controller.is_table("installations") {
        let read = |section: ConfigSection<'_>| table(&section, folder, namespaces);
        return controller
            .inner("installations", "controller.installations", read)?
            .map(Some);
    }
    let is_on = controller.switch("installations").unwrap_or(false);
    Some(is_on.then(|| defaults(namespaces)))
}

/// The name of this cluster in the selectors of definitions, for a process beside the controller.
pub(super) fn cluster_name(file: &ConfigFile<'_>) -> String {
    let controller = file.section("controller");
    let written = match controller.is_table("installations") {
        true => controller.inner(
            "installations",
            "controller.installations",
            |section: ConfigSection<'_>| section.text("cluster_name"),
        ),
        false => None,
    };
    written.flatten().unwrap_or_else(|| HOME_TARGET.to_owned())
}

fn defaults(namespaces: Option<&[String]>) -> InstallationSettings {
    let first = namespaces.and_then(<[String]>::first);
    let git = GitSettings {
        path: PATH.to_owned(),
        ..GitSettings::default()
    };
    InstallationSettings {
        helm: HELM.into(),
        path: PATH.to_owned(),
        folder: None,
        all_namespaces: false,
        home_namespace: first.cloned().unwrap_or_default(),
        cluster_name: HOME_TARGET.to_owned(),
        default_namespace: None,
        cluster_role: CLUSTER_ROLE.to_owned(),
        protected_namespaces: PROTECTED.map(str::to_owned).into(),
        new_namespaces: vec![NamespacePattern::own_prefix()],
        needs_nodes: false,
        server_side: ServerSideApply::Auto,
        source: SourceSettings {
            git,
            ..SourceSettings::default()
        },
        source_rules: SourceRules::default(),
    }
}

fn table(
    section: &ConfigSection<'_>,
    folder: &Path,
    namespaces: Option<&[String]>,
) -> Option<InstallationSettings> {
    let default = defaults(namespaces);
    let text = |name, default: String| section.text(name).unwrap_or(default);
    let helm = text("helm", HELM.to_owned());
    let is_absolute = Path::new(&helm).is_absolute();
    if !is_absolute {
        section.wrong("helm", format!("{helm:?} is no absolute path"), None);
    }
    let path = text("path", default.path);
    let server_side = server_side(section);
    let source = source(section, folder, &path);
    let all_namespaces = section.switch("all_namespaces").unwrap_or(false);
    let default_namespace = section.text("default_namespace");
    if let Some(name) = &default_namespace
        && !all_namespaces
        && namespaces.is_some_and(|namespaces| !namespaces.contains(name))
    {
        let what = format!("{name:?} is not watched: it is none of the namespaces of [kubernetes]");
        section.wrong("default_namespace", what, None);
    }
    let protected = section.texts("protected_namespaces");
    let protected = protected.map(|names| names.into_iter().collect());
    let new_namespaces = new_namespaces(section, default.new_namespaces);
    Some(InstallationSettings {
        helm: is_absolute.then(|| helm.into())?,
        path,
        folder: section.text("folder").map(|name| folder.join(name)),
        all_namespaces,
        home_namespace: default.home_namespace,
        cluster_name: text("cluster_name", default.cluster_name),
        default_namespace,
        cluster_role: text("cluster_role", default.cluster_role),
        protected_namespaces: protected.unwrap_or(default.protected_namespaces),
        new_namespaces: new_namespaces?,
        needs_nodes: section.switch("wait_for_nodes").unwrap_or(false),
        server_side: server_side?,
        source: source?,
        source_rules: default.source_rules,
    })
}

/// `None` only together with an error.
fn new_namespaces(
    section: &ConfigSection<'_>,
    default: Vec<NamespacePattern>,
) -> Option<Vec<NamespacePattern>> {
    let Some(written) = section.texts("new_namespaces") else {
        return Some(default);
    };
    let read = |text: String| {
        let pattern = text.parse::<NamespacePattern>();
        pattern
            .map_err(|error| section.wrong("new_namespaces", error.to_string(), None))
            .ok()
    };
    written.into_iter().map(read).collect()
}

fn server_side(section: &ConfigSection<'_>) -> Option<ServerSideApply> {
    match section.text("server_side_apply").as_deref() {
        None | Some("auto") => Some(ServerSideApply::Auto),
        Some("server") => Some(ServerSideApply::Server),
        Some("client") => Some(ServerSideApply::Client),
        Some(other) => {
            let example = Some("\"auto\", \"server\" or \"client\"".to_owned());
            section.wrong(
                "server_side_apply",
                format!("{other:?} is not understood"),
                example,
            );
            None
        }
    }
}

/// How charts are downloaded. `None` only together with an error.
fn source(section: &ConfigSection<'_>, folder: &Path, path: &str) -> Option<SourceSettings> {
    let default = SourceLimits::default();
    let bytes = |name: &'static str, default: usize| {
        let written = section.size(name);
        written.map_or(default, |size| usize::try_from(size).unwrap_or(usize::MAX))
    };
    let limits = SourceLimits {
        deadline: section.positive("download_timeout", default.deadline),
        packed_bytes: bytes("max_chart", default.packed_bytes),
        index_bytes: bytes("max_index", default.index_bytes),
        unpacked_bytes: section
            .size("max_chart_content")
            .unwrap_or(default.unpacked_bytes),
        repository_bytes: section
            .size("max_repository")
            .unwrap_or(default.repository_bytes),
        ..default
    };
    let allowed_hosts = hosts(section, "allowed_hosts");
    let denied_hosts = hosts(section, "denied_hosts");
    let ca = ca_file(section, "ca", folder);
    if section.has("ca") && ca.is_none() {
        return None;
    }
    let known_hosts = match section.text("known_hosts_file") {
        None => None,
        Some(name) => match fs::read_to_string(folder.join(&name)) {
            Ok(text) => Some(text),
            Err(error) => {
                let what = format!("{name} cannot be read: {error}");
                section.wrong("known_hosts_file", what, None);
                return None;
            }
        },
    };
    Some(SourceSettings {
        limits,
        hosts: HostRules {
            allowed_hosts: allowed_hosts?,
            denied_hosts: denied_hosts?,
            allowed_networks: networks(section, "allowed_networks"),
            denied_networks: networks(section, "denied_networks"),
            plain_http: section.switch("plain_http").unwrap_or(false),
            ..HostRules::default()
        },
        ca: ca.map(|pem| String::from_utf8_lossy(&pem).into_owned()),
        known_hosts,
        git: GitSettings {
            path: path.to_owned(),
            ..GitSettings::default()
        },
    })
}

fn hosts(section: &ConfigSection<'_>, name: &'static str) -> Option<Vec<HostPattern>> {
    let read = |text: String| {
        let pattern = text.parse::<HostPattern>();
        pattern
            .map_err(|error| section.wrong(name, error.to_string(), None))
            .ok()
    };
    let written = section.texts(name).unwrap_or_default();
    written.into_iter().map(read).collect()
}
