//! What a user's pod may ask for. Fields that reach the node, other people's data or the scheduler
//! need a right that the operator grants.

use std::collections::BTreeSet;

use serde_json::Value;

/// A right that a pod does not have by default.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PodRight {
    /// `hostNetwork`, `hostPID`, `hostIPC`, `hostPort`, and probes of other hosts.
    HostNamespaces,
    /// Volumes of the node's file system.
    HostPath,
    /// Privileged containers.
    Privileged,
    /// Capabilities besides the runtime's default ones.
    Capabilities,
    /// A service account other than the namespace's default one.
    ServiceAccount,
    /// Secrets of the namespace, as volumes or variables.
    Secrets,
    /// Volumes besides `emptyDir`, `configMap`, `downwardAPI` and `projected`: claims, and file
    /// systems of the network, which the node mounts with its own rights.
    Volumes,
    /// A node by its name, taints, a priority, another scheduler or runtime, devices. A selector of
    /// nodes and affinity need no right: apps get them from their template, as with PrimeHub.
    Scheduling,
    /// Other profiles of SELinux, seccomp or AppArmor, and sysctls.
    SecurityProfiles,
}

impl PodRight {
    /// All rights, with their names in the configuration.
    pub const ALL: [(&'static str, PodRight); 9] = [
        ("host_namespaces", PodRight::HostNamespaces),
        ("host_path", PodRight::HostPath),
        ("privileged", PodRight::Privileged),
        ("capabilities", PodRight::Capabilities),
        ("service_account", PodRight::ServiceAccount),
        ("secrets", PodRight::Secrets),
        ("volumes", PodRight::Volumes),
        ("scheduling", PodRight::Scheduling),
        ("security_profiles", PodRight::SecurityProfiles),
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
            volume_fields(volume, &mut found);
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

/// The scheduler that the API server fills in.
const DEFAULT_SCHEDULER: &str = "default-scheduler";

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
    for field in [
        "nodeName",
        "tolerations",
        "priorityClassName",
        "priority",
        "schedulerName",
        "runtimeClassName",
        "resourceClaims",
    ] {
        if is_set(&spec[field]) && spec[field] != DEFAULT_SCHEDULER {
            found.push((PodRight::Scheduling, field.to_owned()));
        }
    }
    security_fields(&spec["securityContext"], "", found);
    if is_set(&spec["securityContext"]["windowsOptions"]["hostProcess"]) {
        let field = "securityContext.windowsOptions.hostProcess";
        found.push((PodRight::Privileged, field.to_owned()));
    }
}

/// The types of volumes that hold nothing of others.
const OWN_VOLUMES: [&str; 4] = ["emptyDir", "configMap", "downwardAPI", "projected"];

fn volume_fields(volume: &Value, found: &mut Vec<(PodRight, String)>) {
    let fields = volume.as_object().into_iter().flatten();
    for (field, value) in fields.filter(|(field, value)| *field != "name" && !value.is_null()) {
        let right = match field.as_str() {
            "hostPath" => Some(PodRight::HostPath),
            "secret" => Some(PodRight::Secrets),
            "projected" if has_secret(value) => Some(PodRight::Secrets),
            field if OWN_VOLUMES.contains(&field) => None,
            _ => Some(PodRight::Volumes),
        };
        if let Some(right) = right {
            found.push((right, format!("volumes[{}].{field}", name(volume))));
        }
    }
}

fn has_secret(projected: &Value) -> bool {
    let mut sources = list(projected, "sources").iter();
    sources.any(|source| is_set(&source["secret"]) || is_set(&source["clusterTrustBundle"]))
}

/// Profiles of a pod's or a container's `securityContext`. `path` ends with a dot, or is empty.
fn security_fields(security: &Value, path: &str, found: &mut Vec<(PodRight, String)>) {
    for field in ["seLinuxOptions", "sysctls"] {
        if is_set(&security[field]) {
            let field = format!("{path}securityContext.{field}");
            found.push((PodRight::SecurityProfiles, field));
        }
    }
    for field in ["seccompProfile", "appArmorProfile"] {
        let profile = &security[field];
        if is_set(profile) && profile["type"] != "RuntimeDefault" {
            let field = format!("{path}securityContext.{field}");
            found.push((PodRight::SecurityProfiles, field));
        }
    }
}

fn container_fields(container: &Value, path: &str, found: &mut Vec<(PodRight, String)>) {
    let security = &container["securityContext"];
    security_fields(security, &format!("{path}."), found);
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
    let is_secret = |entry: &Value| is_set(&entry["valueFrom"]["secretKeyRef"]);
    if list(container, "env").iter().any(is_secret) {
        add(PodRight::Secrets, "env.valueFrom.secretKeyRef");
    }
    if list(container, "envFrom")
        .iter()
        .any(|source| is_set(&source["secretRef"]))
    {
        add(PodRight::Secrets, "envFrom.secretRef");
    }
    // kubelet sends these requests from the node, past all NetworkPolicies.
    let hooks = [
        &container["lifecycle"]["postStart"],
        &container["lifecycle"]["preStop"],
    ];
    let probes = ["livenessProbe", "readinessProbe", "startupProbe"].map(|probe| &container[probe]);
    let has_host = |action: &&Value| {
        is_set(&action["httpGet"]["host"]) || is_set(&action["tcpSocket"]["host"])
    };
    if hooks.iter().chain(&probes).any(has_host) {
        add(PodRight::HostNamespaces, "probe or hook: host");
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
            "nodeName": "control-plane",
            "tolerations": [{ "operator": "Exists" }],
            "securityContext": { "sysctls": [{ "name": "kernel.msgmax", "value": "1" }] },
            "volumes": [
                { "name": "node", "hostPath": { "path": "/" } },
                { "name": "key", "secret": { "secretName": "ludgate" } },
                { "name": "keys", "projected": { "sources": [{ "secret": { "name": "ludgate" } }] } },
                { "name": "home", "persistentVolumeClaim": { "claimName": "alice" } },
                { "name": "net", "nfs": { "server": "10.0.0.1", "path": "/" } },
                { "name": "own", "emptyDir": {} },
            ],
            "initContainers": [{ "name": "first", "securityContext": { "privileged": true } }],
            "containers": [{
                "name": "app",
                "ports": [{ "containerPort": 80, "hostPort": 80 }],
                "env": [{ "name": "KEY", "valueFrom": { "secretKeyRef": { "name": "ludgate", "key": "x" } } }],
                "envFrom": [{ "secretRef": { "name": "ludgate" } }],
                "livenessProbe": { "httpGet": { "host": "10.0.0.1", "port": 80 } },
                "securityContext": { "seccompProfile": { "type": "Unconfined" }, "capabilities": { "add": ["NET_ADMIN"], "drop": ["ALL"] }, "procMount": "Unmasked" },
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
                "nodeName",
                "tolerations",
                "securityContext.sysctls",
                "volumes[node].hostPath",
                "volumes[key].secret",
                "volumes[keys].projected",
                "volumes[home].persistentVolumeClaim",
                "volumes[net].nfs",
                "initContainers[first].securityContext.privileged",
                "containers[app].securityContext.seccompProfile",
                "containers[app].securityContext.procMount",
                "containers[app].securityContext.capabilities.add",
                "containers[app].env.valueFrom.secretKeyRef",
                "containers[app].envFrom.secretRef",
                "containers[app].probe or hook: host",
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
        assert!(!some.contains(&"volumes[node].hostPath".to_owned()) && some.len() == 18);
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
