//! The health of an app's workloads, which its chart only requests.

use k8s_openapi::api::apps::v1::Deployment;
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};

use crate::support::installs::{Installs, condition};

/// Writes the status that the controller of Deployments would write.
async fn set_status(installs: &Installs, status: Value) {
    let client = installs.namespace().client.clone();
    let api: Api<Deployment> = Api::namespaced(client, &installs.own("target"));
    let patch = Patch::Merge(json!({ "status": status }));
    let parameters = PatchParams::default();
    let patched = api.patch_status("web", &parameters, &patch).await;
    patched.expect("a status");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_app_is_healthy_while_its_workloads_are_available() {
    let installs = Installs::start().await;
    let version = installs.version("1.0.0", "workload", "0.1.0");
    installs.definition(json!({ "versions": [version] })).await;
    installs.installation("app-1", json!({})).await;
    // Helm does not wait, so the app is ready.
    installs.until_ready("app-1").await;
    let unavailable = ("False", "WorkloadsUnavailable");
    let status = installs
        .until_condition("app-1", "Healthy", unavailable)
        .await;
    let message = status["conditions"]["Healthy"]["message"].as_str();
    let message = message.expect("a message");
    assert!(message.starts_with("Deployment web: "), "{message}");

    set_status(
        &installs,
        json!({
            "observedGeneration": 1, "replicas": 1, "readyReplicas": 1, "availableReplicas": 1,
        }),
    )
    .await;
    let available = ("True", "WorkloadsAvailable");
    let status = installs
        .until_condition("app-1", "Healthy", available)
        .await;
    assert_eq!(condition(&status, "Ready").0, "True");
    assert_eq!(status["helmRelease"]["version"], 1, "nothing was applied");

    set_status(
        &installs,
        json!({ "availableReplicas": 0, "readyReplicas": 0 }),
    )
    .await;
    installs
        .until_condition("app-1", "Healthy", unavailable)
        .await;
    installs.delete("app-1").await;
    installs.until_gone("app-1").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_app_without_workloads_is_healthy() {
    let installs = Installs::start().await;
    installs.definition(json!({})).await;
    installs.installation("app-1", json!({})).await;
    let status = installs
        .until_condition("app-1", "Healthy", ("True", "WorkloadsAvailable"))
        .await;
    let message = &status["conditions"]["Healthy"]["message"];
    assert_eq!(message, "the release has no workloads");
}
