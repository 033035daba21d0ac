//! The patch that gives an object of another controller its desired spec.
//!
//! Server-side apply alone cannot. It keeps the fields of other managers. Where they move to the
//! applying manager first, Kubernetes before 1.21 leaves empty structures behind, such as
//! `lifecycle.postStart` without a handler, and refuses the object for them. And many versions
//! refuse an object with two variables of one name, which updates may write.

use ludgate_cluster::merge_patch;
use serde_json::{Value, json};

/// A JSON merge patch (RFC 7396). The pod template gets the desired fields and no others. Other
/// parts of the spec keep what the API server has added, such as the address of a Service.
pub fn patch(live: &Value, desired: &Value) -> Value {
    let mut spec = desired["spec"].clone();
    if let Some(template) = spec.get_mut("template") {
        *template = merge_patch::between(&live["spec"]["template"], template);
    }
    json!({ "spec": spec })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the API server does with a patch.
    fn merged(mut object: Value, patch: &Value) -> Value {
        json_patch::merge(&mut object, patch);
        object
    }

    #[test]
    fn a_pod_template_becomes_the_desired_one() {
        let live = json!({ "spec": {
            "replicas": 0,
            "progressDeadlineSeconds": 600,
            "strategy": { "type": "RollingUpdate", "rollingUpdate": { "maxSurge": "25%" } },
            "template": {
                "metadata": { "labels": { "app": "x" }, "annotations": { "usage": "{}", "restartedAt": "now" } },
                "spec": {
                    "affinity": {},
                    "nodeSelector": { "disk": "ssd", "zone": "a" },
                    "initContainers": [{ "name": "init-lab" }],
                    "containers": [{ "name": "app", "lifecycle": { "postStart": {} }, "env": [{ "name": "A" }, { "name": "A" }] }],
                    "volumes": [{ "name": "datasets" }],
                },
            },
        } });
        let template = json!({
            "metadata": { "labels": { "app": "x" }, "annotations": { "usage": "{}" } },
            "spec": {
                "nodeSelector": { "disk": "ssd" },
                "containers": [{ "name": "app", "env": [{ "name": "A" }] }],
                "volumes": [{ "name": "primehub-app-root" }],
            },
        });
        let desired = json!({ "spec": {
            "replicas": 1,
            "strategy": { "type": "Recreate", "rollingUpdate": null },
            "template": template,
        } });
        let wanted = json!({ "spec": {
            "replicas": 1,
            "progressDeadlineSeconds": 600,
            "strategy": { "type": "Recreate" },
            "template": template,
        } });
        assert_eq!(merged(live.clone(), &patch(&live, &desired)), wanted);
        let again = patch(&wanted, &desired);
        assert_eq!(
            merged(wanted.clone(), &again),
            wanted,
            "nothing is left to do"
        );
    }

    #[test]
    fn a_service_keeps_its_address() {
        let live = json!({ "spec": {
            "clusterIP": "10.0.0.1", "type": "ClusterIP", "sessionAffinity": "None",
            "ports": [{ "port": 80 }, { "port": 81 }],
        } });
        let desired = json!({ "spec": { "type": "ClusterIP", "ports": [{ "port": 80 }] } });
        let wanted = json!({ "spec": {
            "clusterIP": "10.0.0.1", "type": "ClusterIP", "sessionAffinity": "None",
            "ports": [{ "port": 80 }],
        } });
        assert_eq!(merged(live.clone(), &patch(&live, &desired)), wanted);
    }
}
