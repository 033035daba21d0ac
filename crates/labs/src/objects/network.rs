//! Who may connect to a lab, and where a lab may connect to.

use serde_json::{Value, json};

use super::parts::LabParts;
use crate::{config::EgressLimits, dialect::Dialect, names::LAB_PORT};

/// Labels of the pods of a hub and of its proxy.
fn hub_pods() -> Value {
    json!({
        "namespaceSelector": {},
        "podSelector": { "matchLabels": { "app": "jupyterhub" } },
    })
}

pub(super) fn policy(parts: &LabParts<'_>) -> Value {
    let labels = json!({ "matchLabels": parts.metadata.selector() });
    // In Nublado's dialect the pods of a person may connect to each other.
    let own =
        (parts.context.dialect == Dialect::Nublado).then(|| json!({ "namespaceSelector": labels }));
    let peers: Vec<Value> = own
        .into_iter()
        .chain([hub_pods()])
        .chain(parts.context.peers.iter().cloned())
        .collect();
    let mut spec = json!({
        "podSelector": labels,
        "policyTypes": ["Ingress"],
        "ingress": [{ "from": peers, "ports": [{ "port": LAB_PORT }] }],
    });
    if parts.context.dialect == Dialect::Sqr066 {
        spec["policyTypes"] = json!(["Ingress", "Egress"]);
        spec["egress"] = egress(&parts.config().egress);
    }
    json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": parts.metadata(&parts.names.lab),
        "spec": spec,
    })
}

/// To hub and proxy, to name servers, to all addresses outside the cluster, and to those inside
/// that the configuration lists.
fn egress(limits: &EgressLimits) -> Value {
    let block = |all: &str, is_part: fn(&str) -> bool| {
        let networks = limits.cluster_networks.iter();
        let except: Vec<&String> = networks.filter(|network| is_part(network)).collect();
        match except.is_empty() {
            true => json!({ "ipBlock": { "cidr": all } }),
            false => json!({ "ipBlock": { "cidr": all, "except": except } }),
        }
    };
    let mut outside = vec![
        block("0.0.0.0/0", |network| !network.contains(':')),
        block("::/0", |network| network.contains(':')),
    ];
    let allowed = limits.allowed_networks.iter();
    outside.extend(allowed.map(|network| json!({ "ipBlock": { "cidr": network } })));
    json!([
        { "to": [hub_pods()] },
        {
            "to": [{
                "namespaceSelector": {
                    "matchLabels": { "kubernetes.io/metadata.name": "kube-system" },
                },
            }],
            "ports": [
                { "port": 53, "protocol": "UDP" },
                { "port": 53, "protocol": "TCP" },
            ],
        },
        { "to": outside },
    ])
}

pub(super) fn service(parts: &LabParts<'_>) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": parts.metadata(&parts.names.service),
        "spec": {
            "ports": [{ "port": LAB_PORT, "targetPort": LAB_PORT }],
            "selector": parts.metadata.selector(),
        },
    })
}
