//! Objects of others that have the name of an app's own.

use std::time::{Duration, Instant};

use k8s_openapi::api::{apps::v1::Deployment, core::v1::Service};
use kube::{
    Api,
    api::{ApiResource, DynamicObject},
};
use serde_json::{Value, json};

use crate::support::controller::Controlled;

/// An app is tried again within this time after the cause of its error is gone.
const RECOVERY: Duration = Duration::from_secs(60);

impl Controlled {
    /// Deletes an object, and checks that `lab` recovers.
    async fn recovers_without(&self, object: &str) {
        self.namespace.kubectl(&["delete", object], "").await;
        let deleted = Instant::now();
        self.until("lab", |status| status["phase"] != "Error").await;
        assert!(deleted.elapsed() < RECOVERY, "{:?}", deleted.elapsed());
        self.until_phase("lab", "Ready").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_of_another_owner_is_left_alone() {
    let controlled = Controlled::start().await;
    let foreign = json!({
        "metadata": { "name": "app-lab" },
        "spec": { "ports": [{ "port": 80, "protocol": "TCP" }] },
    });
    controlled
        .namespace
        .apply(&ApiResource::erase::<Service>(&()), &foreign)
        .await;
    controlled.app("lab", json!({})).await;
    assert_eq!(
        controlled.until_phase("lab", "Error").await,
        "Service app-lab already exists and has another owner"
    );
    let services: Api<Service> = Api::namespaced(
        controlled.namespace.client.clone(),
        &controlled.namespace.name,
    );
    let service = services.get("app-lab").await.expect("there");
    assert_eq!(service.spec.and_then(|spec| spec.selector), None);
    controlled.recovers_without("service/app-lab").await;
}

/// The parts of an object that change only when a client writes them.
fn written_parts(object: &DynamicObject) -> Value {
    let metadata = &object.metadata;
    json!([
        metadata.uid,
        metadata.generation,
        metadata.labels,
        metadata.annotations,
        metadata.owner_references,
        object.data["spec"],
    ])
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deployment_of_another_owner_is_left_alone_and_comes_after_the_policies() {
    let controlled = Controlled::start().await;
    let labels = json!({ "app": "foreign" });
    let container = json!({ "name": "app", "image": "localhost/busybox:1" });
    let foreign = json!({
        "metadata": { "name": "app-lab" },
        "spec": {
            "replicas": 0,
            "selector": { "matchLabels": labels },
            "template": { "metadata": { "labels": labels }, "spec": { "containers": [container] } },
        },
    });
    controlled
        .namespace
        .apply(&ApiResource::erase::<Deployment>(&()), &foreign)
        .await;
    let before = controlled
        .until_object::<Deployment>("app-lab", |it| it.data["status"]["observedGeneration"] == 1)
        .await;
    controlled.app("lab", json!({})).await;
    assert_eq!(
        controlled.until_phase("lab", "Error").await,
        "Deployment app-lab already exists and has another owner"
    );
    // Made before the Deployment, so that no pod runs without them.
    let all = ["get", "networkpolicies,services", "-o", "name"];
    let names = controlled.namespace.kubectl(&all, "").await;
    assert_eq!(
        names.lines().collect::<Vec<_>>(),
        [
            "networkpolicy.networking.k8s.io/app-lab-group",
            "networkpolicy.networking.k8s.io/app-lab-proxy",
            "service/app-lab",
        ]
    );
    assert!(controlled.pods("lab").await.is_empty());
    let after = controlled
        .until_object::<Deployment>("app-lab", |_| true)
        .await;
    assert_eq!(written_parts(&after), written_parts(&before));
    controlled.recovers_without("deployment/app-lab").await;
}
