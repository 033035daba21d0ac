//! `[kubernetes]`: the namespaces whose apps are published, and the API of their cluster.

use std::{collections::BTreeSet, fs, path::Path, time::Duration};

use super::{file::ConfigFile, values::isolation};
use crate::{
    cluster,
    model::{app::Isolation, vhost::HostLabel},
};

/// Default time after which a watch is reopened, so that a dead connection is noticed.
const WATCH: Duration = Duration::from_secs(55);

/// The settings of the Kubernetes catalogue.
#[derive(Clone, Debug)]
pub struct KubernetesSettings {
    /// The API server and the namespaces.
    pub cluster: cluster::ClusterSettings,
    /// Whether apps are served on their paths, or on hosts of their own only.
    pub isolation: Isolation,
    /// Whether logs of apps' pods are served.
    pub logs: bool,
}

/// Reads the section. `None` only together with an error.
pub fn kubernetes(file: &ConfigFile<'_>, folder: &Path) -> Option<Option<KubernetesSettings>> {
    if !file.has("kubernetes") {
        return Some(None);
    }
    let section = file.section("kubernetes");
    let example = || Some("for example namespace = \"hub\"".to_owned());
    let one = section.text("namespace");
    let several = section.texts("namespaces");
    if one.is_some() && several.is_some() {
        section.wrong("namespaces", "and namespace are both given", None);
    }
    let namespaces: Vec<String> = one.into_iter().chain(several.unwrap_or_default()).collect();
    if namespaces.is_empty() {
        section.wrong("namespace", "is needed, or namespaces", example());
    }
    let mut known = BTreeSet::new();
    for name in &namespaces {
        let label = HostLabel::new(name.as_bytes()).is_some_and(|label| label.as_str() == name);
        if !label {
            section.wrong("namespace", format!("{name:?} is no namespace"), example());
        }
        if !known.insert(name) {
            section.wrong("namespaces", format!("{name} is given twice"), None);
        }
    }
    let kubeconfig = section.text("kubeconfig").map(|name| folder.join(name));
    if let Some(file) = &kubeconfig
        && let Err(error) = fs::read(file)
    {
        section.wrong("kubeconfig", format!("cannot be read: {error}"), None);
    }
    let watch = section.positive("watch", WATCH);
    if watch < Duration::from_secs(1) {
        section.wrong("watch", "must be at least a second", None);
    }
    let isolation = isolation(&section);
    if isolation == Isolation::Host && file.section("site").text("apps_domain").is_none() {
        section.wrong("isolation", "needs site.apps_domain", None);
    }
    let logs = section.switch("logs").unwrap_or(false);
    if logs && !file.has("identity") {
        section.wrong(
            "logs",
            "needs [identity]: only signed-in members of a group may read logs",
            None,
        );
    }
    let cluster = cluster::ClusterSettings {
        namespaces,
        kubeconfig,
        watch,
    };
    Some(Some(KubernetesSettings {
        cluster,
        isolation,
        logs,
    }))
}
