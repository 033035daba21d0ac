//! Ingress rules of NetworkPolicies, as JSON.
//!
//! Invariant: a list without peers lets no request in. In Kubernetes a rule with an empty `from`
//! lets in every pod.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// Pods of the policy's own namespace, by labels.
pub fn peer(labels: &Value) -> Value {
    json!({ "podSelector": { "matchLabels": labels } })
}

/// Pods with one of these sets of labels, in the policy's own namespace and in namespaces with one
/// of these sets of labels.
pub fn proxy_peers(
    proxies: &[BTreeMap<String, String>],
    namespaces: &[BTreeMap<String, String>],
) -> Vec<Value> {
    let mut peers = Vec::new();
    for labels in proxies {
        peers.push(peer(&json!(labels)));
        for namespace in namespaces {
            let mut peer = peer(&json!(labels));
            peer["namespaceSelector"] = json!({ "matchLabels": namespace });
            peers.push(peer);
        }
    }
    peers
}

/// The value of `ingress`: these peers may reach these ports.
pub fn ingress(from: &[Value], ports: &[Value]) -> Value {
    match from.is_empty() {
        true => json!([]),
        false => json!([{ "from": from, "ports": ports }]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proxies_are_let_in_by_both_labels_and_nothing_else_is() {
        let proxy = BTreeMap::from([("app".to_owned(), "ludgate".to_owned())]);
        let namespace = BTreeMap::from([("name".to_owned(), "edge".to_owned())]);
        let pods = json!({ "matchLabels": { "app": "ludgate" } });
        let namespaces = json!({ "matchLabels": { "name": "edge" } });
        assert_eq!(
            proxy_peers(&[proxy], &[namespace]),
            [
                json!({ "podSelector": pods }),
                json!({ "podSelector": pods, "namespaceSelector": namespaces }),
            ]
        );
        let port = [json!({ "protocol": "TCP", "port": 80 })];
        assert_eq!(
            ingress(&[], &port),
            json!([]),
            "an empty `from` lets all in"
        );
        let from = [peer(&json!({ "app": "ludgate" }))];
        assert_eq!(
            ingress(&from, &port),
            json!([{ "from": from, "ports": port }])
        );
    }
}
