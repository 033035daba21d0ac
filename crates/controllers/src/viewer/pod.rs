//! The pod of a viewer: the author's own, if the policy allows it, or the default one.
//!
//! Invariants: a pod of the author's has no right that the settings do not give. The controller
//! alone sets the affinity, as Kubeflow's does. Other fields stay as they were written.

use serde_json::{Map, Value, json};

use super::{
    default_pod,
    parsed::Viewer,
    placement::Placement,
    settings::{AffinityMode, ViewerSettings},
    stop_reason::StopReason,
};
use crate::pods::unify_ports;

/// The label of a node with its name.
const HOSTNAME_LABEL: &str = "kubernetes.io/hostname";

/// The spec of the pod.
///
/// # Errors
/// The viewer brings a pod that is not allowed, or there is no default one.
pub fn spec(
    viewer: &Viewer,
    settings: &ViewerSettings,
    placement: &Placement,
) -> Result<Value, StopReason> {
    let mut spec = match &viewer.pod_spec {
        Some(own) => {
            let violations = violations(viewer, settings, own);
            if !violations.is_empty() {
                return Err(StopReason::PodSpecRejected(violations));
            }
            own.clone()
        }
        None => default_pod::spec(viewer, &settings.default_pod).map_err(StopReason::Invalid)?,
    };
    for kind in ["initContainers", "containers"] {
        let containers = spec.get_mut(kind).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            if let Some(Value::Array(ports)) = container.get_mut("ports") {
                unify_ports(ports);
            }
        }
    }
    match placement {
        Placement::Node(node) => {
            spec.insert("affinity".into(), affinity(node, settings.affinity));
        }
        Placement::Anywhere | Placement::InUse(_) | Placement::Yield(_) => {
            spec.remove("affinity");
        }
    }
    Ok(spec.into())
}

/// The fields of a pod that are not allowed. Its claim needs no right: the author's pod is there to
/// mount it.
fn violations(viewer: &Viewer, settings: &ViewerSettings, own: &Map<String, Value>) -> Vec<String> {
    if settings.trusted_namespaces.contains(&viewer.namespace) {
        return Vec::new();
    }
    let mut rest = own.clone();
    let volumes = rest.get_mut("volumes").and_then(Value::as_array_mut);
    for volume in volumes.into_iter().flatten() {
        let is_claim = volume["persistentVolumeClaim"]["claimName"] == viewer.claim;
        // Only this source: a volume with a second one is checked for that.
        if let Value::Object(volume) = volume
            && is_claim
        {
            volume.remove("persistentVolumeClaim");
        }
    }
    rest.retain(|field, value| {
        let is_account = field == "serviceAccountName" || field == "serviceAccount";
        let is_allowed = |name: &str| settings.service_accounts.contains(name);
        !(is_account && value.as_str().is_some_and(is_allowed))
    });
    settings.pods.violations(&rest.into())
}

fn affinity(node: &str, mode: AffinityMode) -> Value {
    let expression = json!({ "key": HOSTNAME_LABEL, "operator": "In", "values": [node] });
    let term = json!({ "matchExpressions": [expression] });
    let affinity = match mode {
        AffinityMode::Required => json!({
            "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": [term] },
        }),
        AffinityMode::Preferred => {
            let preference = json!({ "weight": 100, "preference": term });
            json!({ "preferredDuringSchedulingIgnoredDuringExecution": [preference] })
        }
    };
    json!({ "nodeAffinity": affinity })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::viewer::samples;

    fn own_pod(more: Value) -> Viewer {
        let claim = json!({ "name": "pvc", "persistentVolumeClaim": { "claimName": "data" } });
        let mut pod = json!({ "containers": [{ "name": "main" }], "volumes": [claim] });
        if let (Value::Object(pod), Value::Object(more)) = (&mut pod, more) {
            pod.extend(more);
        }
        samples::viewer(json!({ "pvc": "data", "podSpec": pod }))
    }

    #[test]
    fn a_pod_that_reaches_beyond_its_claim_is_rejected_except_in_a_trusted_namespace() {
        let claim = |name: &str| json!({ "claimName": name });
        let two_sources = json!([
            { "name": "x", "persistentVolumeClaim": claim("data"), "hostPath": { "path": "/" } },
        ]);
        let two_claims = json!([
            { "name": "x", "persistentVolumeClaim": claim("data") },
            { "name": "y", "persistentVolumeClaim": claim("other") },
        ]);
        let privileged = json!({ "name": "a", "securityContext": { "privileged": true } });
        let mut settings = samples::settings();
        settings.service_accounts.insert("default-editor".into());
        for (more, wanted) in [
            (json!({}), vec![]),
            (json!({ "serviceAccountName": "default-editor" }), vec![]),
            (
                json!({ "serviceAccountName": "admin" }),
                vec!["serviceAccountName"],
            ),
            (json!({ "hostNetwork": true }), vec!["hostNetwork"]),
            (
                json!({ "volumes": two_sources }),
                vec!["volumes[x].hostPath"],
            ),
            (
                json!({ "volumes": two_claims }),
                vec!["volumes[y].persistentVolumeClaim"],
            ),
            (
                json!({ "containers": [privileged] }),
                vec!["containers[a].securityContext.privileged"],
            ),
        ] {
            let viewer = own_pod(more);
            let made = |settings: &ViewerSettings| spec(&viewer, settings, &Placement::Anywhere);
            let fields: Vec<String> = wanted.into_iter().map(str::to_owned).collect();
            match made(&settings) {
                Ok(pod) => {
                    assert!(fields.is_empty(), "{fields:?}");
                    assert_eq!(Some(pod), viewer.pod_spec.clone().map(Value::Object));
                }
                Err(reason) => assert_eq!(reason, StopReason::PodSpecRejected(fields)),
            }
            let mut trusting = settings.clone();
            trusting.trusted_namespaces.insert("team".into());
            assert!(made(&trusting).is_ok());
        }
    }

    #[test]
    fn the_affinity_is_the_controllers() {
        let viewer = own_pod(json!({ "affinity": { "podAffinity": {} } }));
        let mut settings = samples::settings();
        let placed = |settings: &ViewerSettings, placement: &Placement| {
            let pod = spec(&viewer, settings, placement).expect("allowed");
            pod.get("affinity").cloned()
        };
        assert_eq!(placed(&settings, &Placement::Anywhere), None);
        assert_eq!(placed(&settings, &Placement::InUse(Vec::new())), None);
        let node = Placement::Node("n3".into());
        let n3 = json!({ "key": "kubernetes.io/hostname", "operator": "In", "values": ["n3"] });
        let term = json!({ "matchExpressions": [n3] });
        let required = json!({ "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": [term] },
        } });
        assert_eq!(placed(&settings, &node), Some(required));
        settings.affinity = AffinityMode::Preferred;
        let preference = json!({ "weight": 100, "preference": term });
        let preferred = json!({ "nodeAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [preference],
        } });
        assert_eq!(placed(&settings, &node), Some(preferred));
    }
}
