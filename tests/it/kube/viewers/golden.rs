//! The fields that Kubeflow's controller writes, and a comparison of live objects with them.

use kube::{
    Api, ResourceExt,
    api::{ApiResource, DynamicObject, PostParams},
    core::GroupVersionKind,
};
use serde_json::{Value, json};

use crate::support::{
    kube_namespace::KubeNamespace,
    viewer::{child, claim_volume, labels, viewers},
};

/// A viewer whose objects are compared.
pub struct GoldenViewer {
    name: &'static str,
    owner: Value,
}

impl GoldenViewer {
    pub async fn new(namespace: &KubeNamespace, name: &'static str) -> GoldenViewer {
        let viewer = namespace.api(&viewers()).get(name).await;
        let owner = json!({
            "apiVersion": "kubeflow.org/v1alpha1",
            "kind": "PVCViewer",
            "name": name,
            "uid": viewer.expect("a viewer").uid(),
            "controller": true,
            "blockOwnerDeletion": true,
        });
        GoldenViewer { name, owner }
    }

    pub fn metadata(&self) -> Value {
        json!({
            "name": child(self.name),
            "labels": labels(self.name),
            "ownerReferences": [self.owner],
        })
    }

    pub fn deployment(&self, pod: Value) -> Value {
        json!({
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": self.metadata(),
            "spec": {
                "selector": { "matchLabels": labels(self.name) },
                "strategy": { "type": "Recreate" },
                "template": { "metadata": { "labels": labels(self.name) }, "spec": pod },
            },
        })
    }

    pub fn service(&self, target: impl Into<Value>) -> Value {
        let target: Value = target.into();
        json!({
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": self.metadata(),
            "spec": {
                "type": "ClusterIP",
                "selector": labels(self.name),
                "ports": [{ "name": "http", "port": 80, "targetPort": target }],
            },
        })
    }

    /// Only the gateway of the chart reaches the port; `None`: nothing reaches the pod.
    pub fn policy(&self, port: Option<u16>) -> Value {
        let gateway = json!({ "matchLabels": { "app.kubernetes.io/name": "ludgate" } });
        let rules = port.map(|port| {
            json!({
                "from": [{ "podSelector": gateway }],
                "ports": [{ "protocol": "TCP", "port": port }],
            })
        });
        json!({
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": self.metadata(),
            "spec": {
                "podSelector": { "matchLabels": labels(self.name) },
                "policyTypes": ["Ingress"],
                "ingress": rules.into_iter().collect::<Vec<Value>>(),
            },
        })
    }
}

/// Kubeflow's default pod, of this image.
pub fn default_pod(image: &str, base_url: &str, claim: &str) -> Value {
    json!({
        "containers": [{
            "name": "pvcviewer",
            "image": image,
            "ports": [{ "containerPort": 8080, "protocol": "TCP" }],
            "env": [
                { "name": "FB_ADDRESS", "value": "0.0.0.0" },
                { "name": "FB_PORT", "value": "8080" },
                { "name": "FB_DATABASE", "value": "/tmp/filebrowser.db" },
                { "name": "FB_NOAUTH", "value": "true" },
                { "name": "FB_BASEURL", "value": base_url },
            ],
            "workingDir": "/data",
            "volumeMounts": [{ "name": "viewer-volume", "mountPath": "/data" }],
        }],
        "volumes": [claim_volume("viewer-volume", claim)],
    })
}

/// Checks that a live object is what the server makes of these fields, and no more. The server
/// adds the same to both.
pub async fn assert_golden(namespace: &KubeNamespace, live: &DynamicObject, golden: Value) {
    let golden: DynamicObject = serde_json::from_value(golden).expect("an object");
    let types = golden.types.as_ref().expect("a kind");
    let kind = GroupVersionKind::try_from(types).expect("a kind");
    let kind = ApiResource::from_gvk(&kind);
    // Another namespace, since the live object has the name.
    let api: Api<DynamicObject> = Api::namespaced_with(namespace.client.clone(), "default", &kind);
    let dry_run = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let made = api.create(&dry_run, &golden).await.expect("accepted");
    assert_eq!(comparable(live), comparable(&made), "{}", live.name_any());
}

/// An object without what differs between any two objects, and without this program's annotations.
fn comparable(object: &DynamicObject) -> Value {
    let mut annotations = object.annotations().clone();
    annotations.retain(|key, _| !key.starts_with("ludgate/"));
    let mut data = object.data.clone();
    if let Value::Object(data) = &mut data {
        data.remove("status");
    }
    if let Some(Value::Object(spec)) = data.get_mut("spec") {
        spec.remove("clusterIP");
        spec.remove("clusterIPs");
    }
    json!({
        "name": object.name_any(),
        "labels": object.labels(),
        "annotations": annotations,
        "ownerReferences": object.owner_references(),
        "finalizers": object.finalizers(),
        "data": data,
    })
}
