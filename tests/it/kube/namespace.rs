//! A namespace of the API server alone: tests write what controllers and nodes would write, and a
//! gateway reads it with the shipped rights.

use std::{net::SocketAddr, ops::Deref};

use kube::api::ApiResource;
use ludgate::cluster::endpoint_slices;
use serde_json::{Value, json};

use super::pods::Pods;
use crate::support::{backend::Backend, kube_namespace::KubeNamespace, world::World};

/// The app that is written last before a gateway starts.
const LAST: &str = "written-last";

pub struct Namespace {
    pub pods: Pods,
    slices: ApiResource,
    namespace: KubeNamespace,
}

impl Deref for Namespace {
    type Target = KubeNamespace;

    fn deref(&self) -> &KubeNamespace {
        &self.namespace
    }
}

impl Namespace {
    pub async fn new() -> Namespace {
        let namespace = KubeNamespace::new().await;
        let slices = endpoint_slices::served_version(&namespace.client)
            .await
            .expect("EndpointSlices");
        Namespace {
            pods: Pods::new(),
            slices,
            namespace,
        }
    }

    /// A gateway whose catalogue is this namespace, and that has listed it once.
    pub async fn world(&self) -> World {
        self.world_with("").await
    }

    /// With more keys of the table.
    pub async fn world_with(&self, more: &str) -> World {
        // The first list may be a moment old. Changes come in their order: who knows of these knows
        // of all before.
        self.app(LAST, "public", json!({})).await;
        self.endpoints(LAST, &[SocketAddr::new(self.pods.unused_address(), 1)])
            .await;
        let world = World::with(&format!("{}{more}\n", self.toml()), |_| {})
            .await
            .ready()
            .await;
        world.until_running(LAST).await;
        world
    }

    /// Says which pods of an app are ready, as the endpoint controller would.
    pub async fn endpoints(&self, app: &str, pods: &[SocketAddr]) {
        let port = pods.first().map_or(1, SocketAddr::port);
        let endpoints: Vec<Value> = pods
            .iter()
            .map(|pod| json!({ "addresses": [pod.ip().to_string()], "conditions": { "ready": true } }))
            .collect();
        let slice = json!({
            "metadata": { "name": format!("app-{app}-1"), "labels": { "kubernetes.io/service-name": format!("app-{app}") } },
            "addressType": "IPv4",
            "endpoints": endpoints,
            "ports": [{ "name": "http", "port": port, "protocol": "TCP" }],
        });
        self.apply(&self.slices, &slice).await;
    }

    /// A recording app in a pod of its own, which is ready.
    pub async fn running(&self, name: &'static str, pod: u8) -> Backend {
        let backend = Backend::on(name, self.pods.listen(pod, 0));
        self.endpoints(name, &[backend.address()]).await;
        backend
    }
}
