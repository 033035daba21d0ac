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
