//! A viewer, settings and pods for unit tests.

#![allow(clippy::expect_used, reason = "a test's helper fails the test")]

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use super::{
    parsed::{InvalidViewer, Viewer},
    settings::{AffinityMode, DefaultPod, Publication, ViewerSettings},
};
use crate::pod_policy::PodPolicy;

/// The viewer `team/v`.
pub fn parse(spec: Value, annotations: Value) -> Result<Viewer, InvalidViewer> {
    let metadata = json!({
        "name": "v", "namespace": "team", "generation": 3, "annotations": annotations,
    });
    let object = json!({ "metadata": metadata, "spec": spec });
    Viewer::parse(&serde_json::from_value(object).expect("an object"))
}

/// The viewer `team/v`, without annotations.
pub fn viewer(spec: Value) -> Viewer {
    parse(spec, json!({})).expect("a viewer")
}

/// Settings of an installation that changes no default.
pub fn settings() -> ViewerSettings {
    let proxy = [("app.kubernetes.io/name".to_owned(), "ludgate".to_owned())];
    let image = "filebrowser/filebrowser:v2.32.0".to_owned();
    ViewerSettings {
        base_prefix: None,
        default_pod: DefaultPod::BuiltIn { image },
        idle_after: None,
        affinity: AffinityMode::Required,
        yields: true,
        proxies: vec![BTreeMap::from(proxy)],
        app_proxies: Vec::new(),
        proxy_namespaces: Vec::new(),
        pods: PodPolicy::default(),
        service_accounts: BTreeSet::new(),
        trusted_namespaces: BTreeSet::new(),
        publication: Publication::Ludgate,
    }
}

/// Whose pod it is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PodOf {
    /// The viewer `v`.
    Viewer,
    /// Another viewer.
    OtherViewer,
    /// A notebook.
    Notebook,
}

/// A pod that mounts the claim `data`.
pub fn pod(name: &str, of: PodOf, node: Option<&str>, status: Value) -> Pod {
    let viewer = |name: &str| {
        json!({
            "app.kubernetes.io/name": name,
            "app.kubernetes.io/instance": format!("pvcviewer-{name}"),
            "app.kubernetes.io/part-of": "pvc-viewer",
        })
    };
    let labels = match of {
        PodOf::Viewer => viewer("v"),
        PodOf::OtherViewer => viewer("w"),
        // Many charts set this label too.
        PodOf::Notebook => json!({ "app.kubernetes.io/name": name }),
    };
    let volume = json!({ "name": "x", "persistentVolumeClaim": { "claimName": "data" } });
    let pod = json!({
        "metadata": { "name": name, "labels": labels },
        "spec": { "containers": [], "nodeName": node, "volumes": [volume] },
        "status": status,
    });
    serde_json::from_value(pod).expect("a pod")
}

/// The status of a pod whose containers run.
pub fn running() -> Value {
    json!({ "phase": "Running" })
}

/// The status of a pod whose volumes are not mounted yet.
pub fn creating() -> Value {
    let container = json!({
        "name": "main", "image": "", "imageID": "", "ready": false, "restartCount": 0,
        "state": { "waiting": { "reason": "ContainerCreating" } },
    });
    json!({ "phase": "Pending", "containerStatuses": [container] })
}
