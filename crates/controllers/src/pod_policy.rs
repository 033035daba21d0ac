//! What a pod of a user may not ask for: whatever reaches beyond its own namespaces.

use std::collections::BTreeSet;

use serde_json::Value;

/// A right beyond a pod's own namespaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PodRight {
    /// `hostNetwork`, `hostPID`, `hostIPC` and `hostPort`.
    HostNamespaces,
    /// Volumes of the node's file system.
    HostPath,
    /// Privileged containers.
    Privileged,
    /// Capabilities besides the runtime's default ones.
    Capabilities,
    /// A service account other than the namespace's default one.
    ServiceAccount,
}

impl PodRight {
    /// All rights, with their names in the configuration.
    pub const ALL: [(&'static str, PodRight); 5] = [
        ("host_namespaces", PodRight::HostNamespaces),
        ("host_path", PodRight::HostPath),
        ("privileged", PodRight::Privileged),
        ("capabilities", PodRight::Capabilities),
        ("service_account", PodRight::ServiceAccount),
    ];
}

/// The rights that pods may ask for; none by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodPolicy {
    /// The allowed rights.
    pub allowed: BTreeSet<PodRight>,
}

impl PodPolicy {
    /// The fields of a pod's spec that ask for a right that is not allowed, such as
    /// `volumes[data].hostPath`.
    pub fn violations(&self, spec: &Value) -> Vec<String> {
        let mut found = Vec::new();
        pod_fields(spec, &mut found);
        for volume in list(spec, "volumes") {
            if !volume["hostPath"].is_null() {
                let field = format!("volumes[{}].hostPath", name(volume));
                found.push((PodRight::HostPath, field));
            }
        }
        for kind in ["initContainers", "containers"] {
            for container in list(spec, kind) {
                let path = format!("{kind}[{}]", name(container));
                container_fields(container, &path, &mut found);
            }
        }
        let refused = found
            .into_iter()
            .filter(|(right, _)| !self.allowed.contains(right));
        refused.map(|(_, field)| field).collect()
    }
}

fn pod_fields(spec: &Value, found: &mut Vec<(PodRight, String)>) {
    for field in ["hostNetwork", "hostPID", "hostIPC"] {
        if is_set(&spec[field]) {
            found.push((PodRight::HostNamespaces, field.to_owned()));
        }
    }
    // `serviceAccount` is the older name of the same field.
    for field in ["serviceAccountName", "serviceAccount"] {
        let account = spec[field].as_str().unwrap_or("default");
        if !account.is_empty() && account != "default" {
            found.push((PodRight::ServiceAccount, field.to_owned()));
        }
    }
    if is_set(&spec["securityContext"]["windowsOptions"]["hostProcess"]) {
        let field = "securityContext.windowsOptions.hostProcess";
        found.push((PodRight::Privileged, field.to_owned()));
    }
}

fn container_fields(container: &Value, path: &str, found: &mut Vec<(PodRight, String)>) {
    let security = &container["securityContext"];
    let mut add = |right, field: &str| found.push((right, format!("{path}.{field}")));
    if is_set(&security["privileged"]) {
        add(PodRight::Privileged, "securityContext.privileged");
    }
    if is_set(&security["windowsOptions"]["hostProcess"]) {
        add(
            PodRight::Privileged,
            "securityContext.windowsOptions.hostProcess",
        );
    }
    if security["procMount"]
        .as_str()
        .is_some_and(|mount| mount != "Default")
    {
        add(PodRight::Privileged, "securityContext.procMount");
    }
    if !list(&security["capabilities"], "add").is_empty() {
        add(PodRight::Capabilities, "securityContext.capabilities.add");
    }
    let has_host_port = |port: &Value| port["hostPort"].as_u64().is_some_and(|port| port != 0);
    if list(container, "ports").iter().any(has_host_port) {
        add(PodRight::HostNamespaces, "ports.hostPort");
    }
}

/// Anything but an absent or false value asks for the right: a mistyped one must not pass.
fn is_set(value: &Value) -> bool {
    !matches!(value, Value::Null | Value::Bool(false))
}

fn list<'v>(value: &'v Value, field: &str) -> &'v [Value] {
    value[field]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default()
}

fn name(value: &Value) -> &str {
    value["name"].as_str().unwrap_or("?")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn demanding() -> Value {
        json!({
            "hostNetwork": true,
            "hostPID": "yes",
            "hostIPC": false,
            "serviceAccountName": "admin",
            "volumes": [{ "name": "node", "hostPath": { "path": "/" } }, { "name": "own", "emptyDir": {} }],
            "initContainers": [{ "name": "first", "securityContext": { "privileged": true } }],
            "containers": [{
                "name": "app",
                "ports": [{ "containerPort": 80, "hostPort": 80 }],
                "securityContext": { "capabilities": { "add": ["NET_ADMIN"], "drop": ["ALL"] }, "procMount": "Unmasked" },
            }],
        })
    }

    #[test]
    fn every_field_that_reaches_beyond_the_pod_is_named() {
        assert_eq!(
            PodPolicy::default().violations(&demanding()),
            [
                "hostNetwork",
                "hostPID",
                "serviceAccountName",
                "volumes[node].hostPath",
                "initContainers[first].securityContext.privileged",
                "containers[app].securityContext.procMount",
                "containers[app].securityContext.capabilities.add",
                "containers[app].ports.hostPort",
            ]
        );
    }

    #[test]
    fn an_allowed_right_is_no_violation() {
        let allowed = PodRight::ALL.into_iter().map(|(_, right)| right).collect();
        assert_eq!(PodPolicy { allowed }.violations(&demanding()), [""; 0]);
        let allowed = [PodRight::HostPath].into();
        let some = PodPolicy { allowed }.violations(&demanding());
        assert!(!some.contains(&"volumes[node].hostPath".to_owned()) && some.len() == 7);
    }

    #[test]
    fn an_ordinary_pod_passes() {
        let spec = json!({
            "serviceAccountName": "default",
            "containers": [{
                "name": "app",
                "securityContext": { "privileged": false, "runAsUser": 1000, "capabilities": { "drop": ["ALL"] } },
                "ports": [{ "containerPort": 80 }],
            }],
        });
        assert_eq!(PodPolicy::default().violations(&spec), [""; 0]);
    }
}
