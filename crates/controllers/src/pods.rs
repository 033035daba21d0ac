//! What the controllers of pods share: whether a pod counts, and changes of a pod's spec as JSON.

use k8s_openapi::api::core::v1::Pod;
use serde_json::{Map, Value};

/// Whether a pod runs or starts. Pods that have failed or succeeded use nothing.
pub fn is_active(pod: &Pod) -> bool {
    let phase = pod
        .status
        .as_ref()
        .and_then(|status| status.phase.as_deref());
    !matches!(phase, Some("Failed" | "Succeeded"))
}

/// Maximum number of entries of a list in an author's pod. Some checks compare each entry with all
/// others.
const MAX_ENTRIES: usize = 1000;

/// The path of a list with too many entries, such as `.containers[0].env`.
pub fn too_long_list(value: &Value) -> Option<String> {
    match value {
        Value::Array(list) if list.len() > MAX_ENTRIES => Some(String::new()),
        Value::Array(list) => list.iter().enumerate().find_map(|(at, value)| {
            let path = too_long_list(value)?;
            Some(format!("[{at}]{path}"))
        }),
        Value::Object(fields) => fields.iter().find_map(|(field, value)| {
            let path = too_long_list(value)?;
            Some(format!(".{field}{path}"))
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}

/// What is wrong with such a list.
pub fn too_long(path: &str) -> String {
    format!("{path} has more than {MAX_ENTRIES} entries")
}

/// Appends to a list that may be absent.
pub fn append(object: &mut Map<String, Value>, field: &str, more: Vec<Value>) {
    if more.is_empty() {
        return;
    }
    match object.get_mut(field) {
        Some(Value::Array(list)) => list.extend(more),
        _ => {
            object.insert(field.to_owned(), more.into());
        }
    }
}

/// Server-side apply needs the protocol, which is part of a port's key, and refuses two ports of
/// one key.
pub fn unify_ports(ports: &mut Vec<Value>) {
    let mut seen = Vec::new();
    ports.retain_mut(|port| {
        if let Value::Object(port) = port {
            port.entry("protocol").or_insert_with(|| "TCP".into());
        }
        let key = (port["containerPort"].clone(), port["protocol"].clone());
        let is_new = !seen.contains(&key);
        if is_new {
            seen.push(key);
        }
        is_new
    });
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn pods_that_have_ended_are_not_active() {
        for (phase, wanted) in [
            (json!("Pending"), true),
            (json!("Running"), true),
            (json!("Unknown"), true),
            (json!("Succeeded"), false),
            (json!("Failed"), false),
            (json!(null), true),
        ] {
            let pod = serde_json::from_value(json!({ "status": { "phase": phase } }));
            assert_eq!(is_active(&pod.expect("a pod")), wanted, "{phase}");
        }
    }

    #[test]
    fn a_list_that_is_too_long_is_found_at_any_depth() {
        let env =
            |count| json!({ "containers": [{ "name": "a" }, { "env": vec![json!({}); count] }] });
        assert_eq!(too_long_list(&env(MAX_ENTRIES)), None);
        let found = too_long_list(&env(MAX_ENTRIES + 1));
        assert_eq!(found.as_deref(), Some(".containers[1].env"));
    }

    #[test]
    fn ports_have_a_protocol_and_are_listed_once() {
        let mut ports = vec![
            json!({ "containerPort": 80 }),
            json!({ "containerPort": 80, "protocol": "TCP" }),
            json!({ "containerPort": 80, "protocol": "UDP" }),
        ];
        unify_ports(&mut ports);
        let wanted = [
            json!({ "containerPort": 80, "protocol": "TCP" }),
            json!({ "containerPort": 80, "protocol": "UDP" }),
        ];
        assert_eq!(ports, wanted);
    }
}
