//! An app of busybox: a Deployment with its Service, as a controller would make them.

use k8s_openapi::api::{apps::v1::Deployment, core::v1::Service};
use kube::api::ApiResource;
use serde_json::{Value, json};

use crate::support::kube_namespace::KubeNamespace;

/// A Deployment that serves one page on port 5000 and writes a line to its log when it starts.
pub struct Busybox<'n> {
    pub namespace: &'n KubeNamespace,
    pub name: &'static str,
    pub replicas: usize,
}

impl Busybox<'_> {
    /// Makes it, or changes its page, which replaces its pods.
    pub async fn apply(&self, page: &str) {
        let labels = json!({ "primehub.io/phapplication": format!("app-{}", self.name) });
        let name = format!("app-{}", self.name);
        let deployment = json!({
            "metadata": { "name": name },
            "spec": {
                "replicas": self.replicas,
                "selector": { "matchLabels": labels },
                "template": { "metadata": { "labels": labels }, "spec": pod(page) },
            },
        });
        let service = json!({
            "metadata": { "name": name },
            "spec": { "selector": labels, "ports": [{ "name": "http", "port": 5000, "protocol": "TCP" }] },
        });
        let namespace = self.namespace;
        namespace
            .apply(&ApiResource::erase::<Deployment>(&()), &deployment)
            .await;
        namespace
            .apply(&ApiResource::erase::<Service>(&()), &service)
            .await;
    }

    /// Waits until all pods have the current page and the old ones are gone.
    pub async fn rolled_out(&self) {
        let deployment = format!("deployment/app-{}", self.name);
        self.namespace
            .kubectl(&["rollout", "status", "--timeout=60s", &deployment], "")
            .await;
    }
}

fn pod(page: &str) -> Value {
    let serve = format!(
        "echo started with {page}; mkdir -p /tmp/www/apps/lab; echo {page} >/tmp/www/apps/lab/index.html; exec httpd -f -p 5000 -h /tmp/www"
    );
    let http = json!({ "httpGet": { "path": "/apps/lab/", "port": 5000 }, "periodSeconds": 1 });
    json!({
        "terminationGracePeriodSeconds": 5,
        "containers": [{
            "name": "app",
            "image": "localhost/busybox:1",
            "command": ["sh", "-c", serve],
            "ports": [{ "name": "http", "containerPort": 5000, "protocol": "TCP" }],
            "readinessProbe": http,
            // The gateway learns of a pod's end from the endpoints, a moment after it begins.
            "lifecycle": { "preStop": { "exec": { "command": ["sleep", "2"] } } },
        }],
    })
}
