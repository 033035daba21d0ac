//! `[controller.viewers]`: what the controller of volume viewers knows besides objects.

use std::{collections::BTreeSet, fs, path::Path};

use serde_json::Value;

use super::{
    file::ConfigFile,
    resolve_idle,
    resolve_pods::{pod_policy, proxy_labels},
    section::ConfigSection,
};
use crate::controllers::{
    pod_policy::PodPolicy,
    viewer::{
        parsed::is_base_prefix,
        settings::{AffinityMode, DefaultPod, Publication, ViewerSettings},
    },
};

/// File Browser.
const IMAGE: &str = "filebrowser/filebrowser:v2.32.0";
/// The gateway of the chart.
const PROXY: &str = "app.kubernetes.io/name=ludgate";
/// Kubeflow's Istio Gateway.
const GATEWAY: &str = "kubeflow/kubeflow-gateway";

/// The controller of viewers. `Some(None)`: it is off. `None` only together with an error.
pub(super) fn viewers(file: &ConfigFile<'_>, folder: &Path) -> Option<Option<ViewerSettings>> {
    let controller = file.section("controller");
    if controller.is_table("viewers") {
        let read = |section: ConfigSection<'_>| table(&section, &controller, folder);
        return controller
            .inner("viewers", "controller.viewers", read)?
            .map(Some);
    }
    let is_on = controller.switch("viewers").unwrap_or(false);
    Some(is_on.then(defaults))
}

fn defaults() -> ViewerSettings {
    ViewerSettings {
        base_prefix: None,
        default_pod: DefaultPod::BuiltIn {
            image: IMAGE.to_owned(),
        },
        idle_after: None,
        affinity: AffinityMode::Required,
        yields: true,
        proxies: super::values::labels(PROXY).into_iter().collect(),
        app_proxies: Vec::new(),
        proxy_namespaces: Vec::new(),
        pods: PodPolicy::default(),
        service_accounts: BTreeSet::new(),
        trusted_namespaces: BTreeSet::new(),
        publication: Publication::Ludgate,
    }
}

fn table(
    section: &ConfigSection<'_>,
    controller: &ConfigSection<'_>,
    folder: &Path,
) -> Option<ViewerSettings> {
    let defaults = defaults();
    let idle_after = section.duration("idle_after");
    resolve_idle::check_idle_after(section, idle_after, controller);
    let base_prefix = match section.has("base_prefix") {
        true => section.required("base_prefix", base_prefix).map(Some),
        false => Some(None),
    };
    let names = |key| section.texts(key).unwrap_or_default().into_iter().collect();
    let proxies = proxy_labels(section, defaults.proxies);
    let default_pod = default_pod(section, folder);
    let affinity = affinity(section);
    let publication = publication(section);
    if idle_after.is_some() && !matches!(publication, None | Some(Publication::Ludgate)) {
        let what = "needs publish = \"ludgate\": only its gateway reports uses";
        section.wrong("idle_after", what, None);
    }
    let pods = pod_policy(section);
    let (proxies, proxy_namespaces) = proxies?;
    Some(ViewerSettings {
        base_prefix: base_prefix?,
        default_pod: default_pod?,
        idle_after,
        affinity: affinity?,
        yields: section.switch("yields").unwrap_or(defaults.yields),
        proxies,
        app_proxies: defaults.app_proxies,
        proxy_namespaces,
        pods: pods?,
        service_accounts: names("service_accounts"),
        trusted_namespaces: names("trusted_namespaces"),
        publication: publication?,
    })
}

fn base_prefix(text: &str) -> Result<String, String> {
    match is_base_prefix(text) {
        true => Ok(text.to_owned()),
        false => Err("must be a path such as /pvcviewers, without a slash at the end".to_owned()),
    }
}

/// The pod of viewers that bring none.
fn default_pod(section: &ConfigSection<'_>, folder: &Path) -> Option<DefaultPod> {
    let image = section.text("image");
    let Some(name) = section.text("default_pod_file") else {
        let image = image.unwrap_or_else(|| IMAGE.to_owned());
        return Some(DefaultPod::BuiltIn { image });
    };
    let wrong = |what: String| section.wrong("default_pod_file", what, None);
    if image.is_some() {
        section.wrong("image", "and default_pod_file are both given", None);
        return None;
    }
    let read = fs::read_to_string(folder.join(&name))
        .map_err(|error| wrong(format!("{name} cannot be read: {error}")));
    let parsed: Value = serde_saphyr::from_str(&read.ok()?)
        .map_err(|error| wrong(format!("{name} is neither YAML nor JSON: {error}")))
        .ok()?;
    let has_container = parsed["containers"]
        .as_array()
        .is_some_and(|all| !all.is_empty());
    if !has_container {
        wrong(format!("{name} is no podSpec: it has no containers"));
        return None;
    }
    Some(DefaultPod::File(parsed))
}

fn affinity(section: &ConfigSection<'_>) -> Option<AffinityMode> {
    match section.text("affinity").as_deref() {
        None | Some("required") => Some(AffinityMode::Required),
        Some("preferred") => Some(AffinityMode::Preferred),
        Some(other) => {
            let example = Some("\"required\" or \"preferred\"".to_owned());
            section.wrong("affinity", format!("{other:?} is no affinity"), example);
            None
        }
    }
}

fn publication(section: &ConfigSection<'_>) -> Option<Publication> {
    let written = section.text("publish_gateway");
    let gateway = written.as_deref().unwrap_or(GATEWAY);
    let Some((namespace, name)) = gateway.split_once('/') else {
        let example = Some(format!("for example {GATEWAY:?}"));
        section.wrong("publish_gateway", "is no namespace and name", example);
        return None;
    };
    match section.text("publish").as_deref() {
        None | Some("ludgate") => Some(Publication::Ludgate),
        Some("virtual_service") => Some(Publication::VirtualService {
            gateway: gateway.to_owned(),
        }),
        Some("http_route") => Some(Publication::HttpRoute {
            gateway: name.to_owned(),
            namespace: namespace.to_owned(),
        }),
        Some(other) => {
            let example = Some("\"ludgate\", \"virtual_service\" or \"http_route\"".to_owned());
            section.wrong("publish", format!("{other:?} is not understood"), example);
            None
        }
    }
}
