//! What the cluster refuses is the message of the app.

use k8s_openapi::api::core::v1::ResourceQuota;
use serde_json::{Value, json};

use crate::support::controller::Controlled;

/// An instance type that fits on the node, and one that does not.
const PLATFORM: &str = "[groups.phusers]\n[instance_types.cpu-1]\ncpu = 0.1\nmemory = \"32MiB\"\n\
     [instance_types.huge]\ncpu = 1000\nmemory = \"32MiB\"\n";

impl Controlled {
    /// Lets the namespace have so many pods.
    async fn limit_pods(&self, count: &str) {
        let quota = json!({
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": { "name": "few-pods" },
            "spec": { "hard": { "pods": count } },
        });
        let apply = ["apply", "-f", "-"];
        self.namespace.kubectl(&apply, &quota.to_string()).await;
    }

    /// Waits for an error whose message begins so, and has this part.
    async fn until_error(&self, app: &str, start: &str, part: &str) {
        let is_wanted = |status: &Value| {
            let message = status["message"].as_str().unwrap_or_default();
            status["phase"] == "Error" && message.starts_with(start) && message.contains(part)
        };
        self.until(app, is_wanted).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_scheduler_and_a_quota_of_the_namespace_refuse_is_said() {
    let controlled = Controlled::with(PLATFORM).await;
    controlled
        .app("huge", json!({ "instanceType": "huge" }))
        .await;
    controlled
        .until_error("huge", "Unschedulable: ", "Insufficient cpu")
        .await;
    // The pod that waits for a node is the only one.
    controlled.limit_pods("1").await;
    controlled
        .until_object::<ResourceQuota>("few-pods", |it| it.data["status"]["used"]["pods"] == "1")
        .await;
    controlled.app("lab", json!({})).await;
    controlled
        .until_error("lab", "FailedCreate: pods \"app-lab-", "exceeded quota")
        .await;
    assert!(controlled.pods("lab").await.is_empty());
    controlled.limit_pods("2").await;
    controlled.until_phase("lab", "Ready").await;
}
