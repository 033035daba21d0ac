//! Changes of an app that runs: until the new pod is ready, the earlier one serves.

use k8s_openapi::api::apps::v1::Deployment;
use kube::{ResourceExt, api::DynamicObject};
use serde_json::{Value, json};

use crate::support::controller::{Controlled, is_current, page, pod, serving};

/// A quota with room for one small app.
const ONE_APP: &str = "[groups.phusers]\nquota = { cpu = 0.1 }\n[instance_types.cpu-1]\ncpu = 0.1\nmemory = \"32MiB\"\n\
     [instance_types.cpu-2]\ncpu = 0.2\nmemory = \"32MiB\"\n";

impl Controlled {
    async fn pod_names(&self, app: &str) -> Vec<String> {
        let pods = self.pods(app).await;
        pods.iter().map(|pod| pod.name_any()).collect()
    }

    /// Sets the annotation of `lab` with the strategy, and waits until its Deployment has it.
    pub async fn choose_strategy(&self, strategy: &str, rolling_update: &Value) {
        let annotation = format!("phapplication.primehub.io/strategy={strategy}");
        let annotate = ["annotate", "--overwrite", "phapplication/lab", &annotation];
        self.namespace.kubectl(&annotate, "").await;
        self.until_object::<Deployment>("app-lab", |it| {
            let found = &it.data["spec"]["strategy"];
            found["type"] == strategy && found["rollingUpdate"] == *rolling_update
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn during_a_broken_update_the_earlier_pod_serves_and_the_phase_says_why() {
    let controlled = Controlled::start().await;
    controlled.app("lab", json!({})).await;
    controlled.until_phase("lab", "Ready").await;
    let world = controlled.gateway("lab").await;
    let mut changes = controlled.changes("lab");
    changes.until(|app| is_current(app, "Ready")).await;
    let mut missing = serving("env");
    missing["image"] = "localhost/missing:1".into();
    controlled.app("lab", pod(json!([missing]))).await;
    let broken = controlled.generation("lab").await;
    // All changes since the first Ready are seen.
    let check = |app: &DynamicObject| {
        let status = &app.data["status"];
        let is_wrong = status["phase"] == "Ready" && status["observedGeneration"] == broken;
        assert!(!is_wrong, "{status}");
    };
    changes
        .until(|app| {
            check(app);
            let message = app.data["status"]["message"].as_str();
            let is_named = message.is_some_and(|it| it.contains("localhost/missing:1"));
            is_current(app, "Error") && is_named
        })
        .await;
    assert_eq!(page(&world, "lab").await.0, 200);
    controlled.app("lab", json!({})).await;
    let mended = changes
        .until(|app| {
            check(app);
            is_current(app, "Ready")
        })
        .await;
    assert!(mended.metadata.generation > Some(broken));
    assert_eq!(page(&world, "lab").await.0, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_update_beyond_the_quota_is_refused_and_the_earlier_pod_serves() {
    let controlled = Controlled::with(ONE_APP).await;
    controlled.app("lab", json!({})).await;
    controlled.until_phase("lab", "Ready").await;
    let world = controlled.gateway("lab").await;
    let pods = controlled.pod_names("lab").await;
    controlled
        .app("lab", json!({ "instanceType": "cpu-2" }))
        .await;
    assert_eq!(
        controlled.until_phase("lab", "Error").await,
        "Group phusers exceeded cpu quota: 0.1, requesting 0.2"
    );
    assert_eq!(page(&world, "lab").await.0, 200);
    controlled.app("lab", json!({})).await;
    controlled.until_current("lab", "Ready").await;
    assert_eq!(page(&world, "lab").await.0, 200);
    assert_eq!(controlled.pod_names("lab").await, pods, "nothing restarted");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_app_changes_how_its_pods_are_replaced_and_keeps_its_pod() {
    let controlled = Controlled::start().await;
    controlled.app("lab", json!({})).await;
    controlled.until_phase("lab", "Ready").await;
    let pods = controlled.pod_names("lab").await;
    let rolling = json!({ "maxSurge": 1, "maxUnavailable": 0 });
    controlled.choose_strategy("Recreate", &json!(null)).await;
    controlled.choose_strategy("RollingUpdate", &rolling).await;
    controlled.choose_strategy("Recreate", &json!(null)).await;
    let typo = "phapplication.primehub.io/strategy=recreate";
    let annotate = ["annotate", "--overwrite", "phapplication/lab", typo];
    controlled.namespace.kubectl(&annotate, "").await;
    assert_eq!(
        controlled.until_phase("lab", "Error").await,
        "phapplication.primehub.io/strategy: Recreate or RollingUpdate"
    );
    let remove = [
        "annotate",
        "phapplication/lab",
        "phapplication.primehub.io/strategy-",
    ];
    controlled.namespace.kubectl(&remove, "").await;
    controlled.until_phase("lab", "Ready").await;
    let deployment = controlled
        .until_object::<Deployment>("app-lab", |_| true)
        .await;
    assert_eq!(deployment.data["spec"]["strategy"]["type"], "RollingUpdate");
    assert_eq!(controlled.pod_names("lab").await, pods);
}
