//! The pod of a lab.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{containers, parts::LabParts, volumes};
use crate::{
    dialect::Dialect,
    images::Toleration,
    metadata::{GROUPS_ANNOTATION, NAME_ANNOTATION, annotate},
    python_json,
    user::LabUser,
};

pub(super) fn pod(parts: &LabParts<'_>) -> Value {
    let config = parts.config();
    let user = parts.request.user;
    let own = volumes::own(parts);
    let mounts = volumes::mounts(parts, &own);
    let mut metadata = parts.metadata(&parts.names.lab);
    annotate(&mut metadata, &annotations(user));
    annotate(&mut metadata, &config.extra_annotations);
    let tolerations: Vec<Value> = config
        .tolerations
        .iter()
        .map(Toleration::to_object)
        .collect();
    let mut spec = json!({
        "automountServiceAccountToken": false,
        "containers": [containers::lab(parts, &mounts)],
        "restartPolicy": "OnFailure",
        "securityContext": { "supplementalGroups": supplemental_groups(parts) },
        "tolerations": tolerations,
        "volumes": volumes::of_pod(parts, &own),
    });
    let before = containers::before_lab(parts, &mounts);
    if !before.is_empty() {
        spec["initContainers"] = before.into();
    }
    if let Some(affinity) = &config.affinity {
        spec["affinity"] = affinity.clone();
    }
    if !config.node_selector.is_empty() {
        spec["nodeSelector"] = json!(config.node_selector);
    }
    if config.pull_secret.is_some() {
        spec["imagePullSecrets"] = json!([{ "name": parts.names.pull_secret }]);
    }
    json!({ "apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec })
}

/// The document leaves out the primary group.
fn supplemental_groups(parts: &LabParts<'_>) -> Vec<u32> {
    let user = parts.request.user;
    let is_wanted = |id: &u32| parts.context.dialect == Dialect::Nublado || *id != user.gid;
    user.groups
        .iter()
        .map(|group| group.id)
        .filter(is_wanted)
        .collect()
}

/// Whose lab it is, for a controller that finds the pod after a restart.
fn annotations(user: &LabUser) -> BTreeMap<String, String> {
    let groups: Vec<String> = user
        .groups
        .iter()
        .map(|group| {
            let name = python_json::pair("name", &json!(group.name));
            let id = python_json::pair("id", &json!(group.id));
            format!("{{{name}, {id}}}")
        })
        .collect();
    let groups = format!("[{}]", groups.join(", "));
    let mut annotations = BTreeMap::from([(GROUPS_ANNOTATION.to_owned(), groups)]);
    if let Some(name) = &user.name {
        annotations.insert(NAME_ANNOTATION.to_owned(), name.clone());
    }
    annotations
}
