//! Objects for tests.

use ludgate_cluster::{
    crd::{
        definition::{ApplicationDefinition, ApplicationVersion},
        installation::ApplicationInstallation,
    },
    merge_patch,
};
use serde_json::{Map, Value, json};

use crate::release::{Release, ReleaseStatus};

/// The definition `example` with the version 1.0.0, changed by a merge patch.
pub(crate) fn definition(patch: Value) -> ApplicationDefinition {
    object(
        json!({
            "apiVersion": "apps.kubermatic.k8c.io/v1", "kind": "ApplicationDefinition",
            "metadata": { "name": "example" },
            "spec": {
                "description": "An example", "method": "helm",
                "versions": [version("1.0.0")],
            },
        }),
        &patch,
    )
}

/// The installation `app-1` in the namespace `apps`, changed by a merge patch.
pub(crate) fn installation(patch: Value) -> ApplicationInstallation {
    object(
        json!({
            "apiVersion": "apps.kubermatic.k8c.io/v1", "kind": "ApplicationInstallation",
            "metadata": { "name": "app-1", "namespace": "apps", "uid": "1", "generation": 1 },
            "spec": {
                "namespace": { "name": "target", "create": true },
                "applicationRef": { "name": "example", "version": "1.0.0" },
            },
        }),
        &patch,
    )
}

fn object<T: serde::de::DeserializeOwned>(mut object: Value, patch: &Value) -> T {
    merge_patch::apply(&mut object, patch);
    serde_json::from_value(object).expect("an object")
}

/// A version with a source that is valid.
pub(crate) fn version(version: &str) -> ApplicationVersion {
    let helm = json!({
        "url": "https://charts.example", "chartName": "example", "chartVersion": version,
    });
    let version = json!({ "version": version, "template": { "source": { "helm": helm } } });
    serde_json::from_value(version).expect("a version")
}

/// A revision of the release of [`installation`].
pub(crate) fn release(revision: i64, status: ReleaseStatus) -> Release {
    Release {
        name: "apps-app-1".into(),
        namespace: "target".into(),
        revision,
        status,
        owner: Some("1".into()),
        ..Release::default()
    }
}

/// An object without keys.
pub(crate) fn no_values() -> Map<String, Value> {
    Map::new()
}
