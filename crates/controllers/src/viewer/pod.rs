//! The pod of a viewer: the author's own, if the policy allows it, or the default one.
//!
//! Invariants: a pod of the author's has no right that the settings do not give. The controller
//! alone sets the affinity, as Kubeflow's does. Other fields stay as they were written.

use serde_json::{Map, Value, json};

use super::{
    default_pod,
    parsed::{InvalidViewer, Viewer},
    placement::Placement,
    settings::{AffinityMode, ViewerSettings},
    stop_reason::StopReason,
};
use crate::{
    pod_policy::PodRight,
    pods::{too_long, too_long_list, unify_ports},
};

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
            // Some checks compare each entry with all others.
            if let Some(path) = own.iter().find_map(|(field, value)| {
                too_long_list(value).map(|path| format!("podSpec.{field}{path}"))
            }) {
                let problem = too_long(&path);
                let field = "spec";
                return Err(StopReason::Invalid(InvalidViewer::Field { field, problem }));
            }
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
    let mut found = settings.pods.violations(&rest.into());
    if !settings.pods.allowed.contains(&PodRight::Scheduling) {
        found.extend(scheduling_fields(own));
    }
    found
}

/// Resources that an author's pod may name: others are devices.
const RESOURCES: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];
/// Longest time in seconds that a pod of an author's may take to end, as it holds the volume.
const MAX_GRACE: u64 = 60;

/// Fields that an app gets from its instance type, and a viewer from its author.
fn scheduling_fields(own: &Map<String, Value>) -> Vec<String> {
    let mut found = Vec::new();
    if own.get("nodeSelector").is_some_and(|it| !it.is_null()) {
        found.push("nodeSelector".to_owned());
    }
    let grace = own.get("terminationGracePeriodSeconds");
    let is_short =
        |grace: &Value| grace.is_null() || grace.as_u64().is_some_and(|it| it <= MAX_GRACE);
    if !grace.is_none_or(is_short) {
        found.push(format!("terminationGracePeriodSeconds above {MAX_GRACE}"));
    }
    for kind in ["initContainers", "containers"] {
        let containers = own.get(kind).and_then(Value::as_array);
        for container in containers.into_iter().flatten() {
            let name = container["name"].as_str().unwrap_or("?");
            for part in ["limits", "requests"] {
                let resources = container["resources"][part].as_object();
                let devices = resources.into_iter().flatten();
                let devices = devices.filter(|(name, _)| !RESOURCES.contains(&name.as_str()));
                found.extend(
                    devices.map(|(device, _)| format!("{kind}[{name}].resources.{part}[{device}]")),
                );
            }
        }
    }
    found
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
        let limits = json!({ "limits": { "cpu": "1", "nvidia.com/gpu": 8 } });
        let demanding = json!({ "name": "a", "resources": limits });
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
            (json!({ "terminationGracePeriodSeconds": 60 }), vec![]),
            (
                json!({ "nodeSelector": { "disk": "ssd" }, "terminationGracePeriodSeconds": 61 }),
                vec!["nodeSelector", "terminationGracePeriodSeconds above 60"],
            ),
            (
                json!({ "containers": [demanding] }),
                vec!["containers[a].resources.limits[nvidia.com/gpu]"],
            ),
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
    fn a_list_that_is_too_long_is_refused_before_anything_is_compared() {
        let ports: Vec<Value> = (0..1001)
            .map(|port| json!({ "containerPort": port }))
            .collect();
        let viewer = own_pod(json!({ "containers": [{ "name": "a", "ports": ports }] }));
        let refused = spec(&viewer, &samples::settings(), &Placement::Anywhere);
        let reason = refused.expect_err("too long").message();
        assert_eq!(
            reason,
            "spec: podSpec.containers[0].ports has more than 1000 entries"
        );
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
