//! `[kubernetes]`: the namespaces whose apps are published, and the API of their cluster.

use std::{collections::BTreeSet, fs, path::Path, time::Duration};

use super::{
    file::ConfigFile,
    resolve_served_installs::{self, ServedInstallations},
    resolve_served_labs::{ServedLabs, served_labs},
    resolve_site::{apps_prefix, check_overlap, own_paths, path},
    section::ConfigSection,
    values::isolation,
};
use crate::{
    catalog::from_kubernetes::{
        InstallationScope, ServedKinds, access_template::AccessTemplate, labs::LabSource,
    },
    cluster,
    model::{app::Isolation, vhost::HostLabel},
};

/// Default base path of viewers, as Kubeflow's web app writes it.
const VIEWERS: &str = "/pvcviewers";
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
    /// Which viewers are served; `None`: none.
    pub viewers: Option<ServedViewers>,
    /// Which installed apps are served; `None`: none.
    pub installations: Option<ServedInstallations>,
    /// Which labs are served; `None`: none.
    pub labs: Option<ServedLabs>,
}

impl KubernetesSettings {
    /// The kinds of apps that are served besides PhApplications.
    pub fn served_kinds(&self) -> ServedKinds {
        let scope = |served: &ServedInstallations| match served.all_namespaces {
            true => InstallationScope::All,
            false => InstallationScope::Namespaces,
        };
        ServedKinds {
            viewers: self.viewer_access(),
            installations: self.installations.as_ref().map(scope),
            labs: self.lab_source(),
        }
    }

    /// How labs are found; `None`: they are not served.
    pub fn lab_source(&self) -> Option<LabSource> {
        self.labs.as_ref().map(|labs| labs.source.clone())
    }

    /// The access rule of viewers; `None`: they are not served.
    fn viewer_access(&self) -> Option<AccessTemplate> {
        let viewers = self.viewers.as_ref()?;
        let access = viewers.access.clone();
        Some(access.unwrap_or_else(AccessTemplate::absent))
    }
}

/// The viewers that are served, and their access rule.
#[derive(Clone, Debug)]
pub struct ServedViewers {
    /// Their base path, without a slash at the end.
    pub prefix: String,
    /// Their access rule; `None`: everybody is denied.
    pub access: Option<AccessTemplate>,
}

/// Reads the section. `None` only together with an error.
pub fn kubernetes(file: &ConfigFile<'_>, folder: &Path) -> Option<Option<KubernetesSettings>> {
    let labs = served_labs(file);
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
    let viewers = section.inner("viewers", "kubernetes.viewers", |viewers| {
        served_viewers(file, &viewers)
    });
    if section.has("viewers") && isolation == Isolation::Host {
        let what = "cannot be combined with isolation = \"host\": they are on paths of the site";
        section.wrong("viewers", what, None);
    }
    let viewers = viewers.flatten();
    let labs = labs?;
    let others = resolve_served_installs::OtherPrefixes {
        viewers: viewers.as_ref().map(|viewers| viewers.prefix.as_str()),
        labs: labs.as_ref().map(|labs| labs.prefix.as_str()),
    };
    let installations = resolve_served_installs::installations(file, &section, others, isolation);
    let cluster = cluster::ClusterSettings {
        namespaces,
        kubeconfig,
        watch,
    };
    Some(Some(KubernetesSettings {
        cluster,
        isolation,
        logs,
        viewers,
        installations: installations?,
        labs,
    }))
}

/// `None` only together with an error.
fn served_viewers(file: &ConfigFile<'_>, viewers: &ConfigSection<'_>) -> Option<ServedViewers> {
    let prefix = path(viewers, "prefix", VIEWERS);
    if let Some(prefix) = &prefix {
        let apps = ("site.apps_prefix", apps_prefix(file));
        check_overlap(viewers, prefix, own_paths(file).into_iter().chain([apps]));
    }
    let access = viewers.text("access").map(|written| {
        let example = "for example access = \"group:ns-{namespace}\"";
        AccessTemplate::parse(&written)
            .map_err(|what| viewers.wrong("access", what, Some(example.to_owned())))
    });
    Some(ServedViewers {
        prefix: prefix?,
        access: access.transpose().ok()?,
    })
}

/// The warning about viewers that have no access rule.
pub fn warning(kubernetes: Option<&KubernetesSettings>) -> Option<String> {
    let viewers = kubernetes?.viewers.as_ref()?;
    let what = "kubernetes.viewers.access is not set: nobody may open a viewer";
    viewers.access.is_none().then(|| what.to_owned())
}
