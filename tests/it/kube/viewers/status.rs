//! The status of viewers: it says what their pods say, and is not written when nothing changes.

use k8s_openapi::api::{apps::v1::Deployment, core::v1::Pod};
use kube::{ResourceExt, api::DynamicObject};
use serde_json::{Value, json};

use crate::support::viewer::{child, condition, is_started, viewer_controller, viewers};

/// The status of a Deployment whose pod is ready.
fn ready_deployment() -> Value {
    json!({ "replicas": 1, "updatedReplicas": 1, "readyReplicas": 1, "availableReplicas": 1 })
}

/// The status of a pod with these conditions, each with its status and a message.
fn pod_status(conditions: &[(&str, &str)]) -> Value {
    let conditions: Vec<Value> = conditions
        .iter()
        .map(|(kind, status)| json!({ "type": kind, "status": status, "message": kind }))
        .collect();
    json!({ "phase": "Running", "conditions": conditions })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_viewer_is_ready_as_soon_as_its_deployment_is() {
    let controlled = viewer_controller("").await;
    let spec = json!({ "pvc": "data", "networking": { "basePrefix": "/base" } });
    controlled.start_viewer("v", spec).await;
    let status = controlled.until_viewer("v", is_started).await;
    assert_eq!(status["ready"], false);
    let ready = condition(&status, "Ready").expect("a condition");
    assert_eq!(ready["status"], "False");

    let namespace = &controlled.namespace;
    namespace
        .set_status::<Deployment>(&child("v"), ready_deployment())
        .await;
    let is_ready =
        |ready: bool| move |viewer: &DynamicObject| viewer.data["status"]["ready"] == ready;
    let status = controlled.until_viewer("v", is_ready(true)).await;
    assert_eq!(status["url"], format!("/base/{}/v/", namespace.name));
    let none = json!({ "readyReplicas": null, "availableReplicas": null });
    namespace.set_status::<Deployment>(&child("v"), none).await;
    controlled.until_viewer("v", is_ready(false)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_viewer_has_the_conditions_of_its_pod_and_is_ready_only_with_both_of_them() {
    let controlled = viewer_controller("").await;
    let namespace = &controlled.namespace;
    controlled.start_viewer("v", json!({ "pvc": "data" })).await;
    namespace.viewer_pod("v", "v-1", "n1").await;
    let deployment = ready_deployment();
    namespace
        .set_status::<Deployment>(&child("v"), deployment)
        .await;
    for (containers, pod, wanted) in [
        ("True", "False", false),
        ("True", "True", true),
        ("False", "False", false),
    ] {
        let conditions = [
            ("Initialized", "True"),
            ("ContainersReady", containers),
            ("Ready", pod),
            ("PodScheduled", "True"),
            ("example.com/gate", "True"),
        ];
        namespace
            .set_status::<Pod>("v-1", pod_status(&conditions))
            .await;
        let is_mirrored = |viewer: &DynamicObject| {
            let status = &viewer.data["status"];
            let is = |kind: &str, wanted: &str| {
                condition(status, kind).is_some_and(|it| it["status"] == wanted)
            };
            is("ContainersReady", containers) && is("Ready", pod)
        };
        let status = controlled.until_viewer("v", is_mirrored).await;
        assert_eq!(status["ready"], wanted, "{status}");
        let kinds = status["conditions"].as_array().expect("conditions").iter();
        let kinds: Vec<&str> = kinds.filter_map(|it| it["type"].as_str()).collect();
        assert_eq!(
            kinds,
            ["Ready", "ContainersReady", "PodScheduled", "Initialized"]
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_reconciles_write_nothing() {
    let controlled = viewer_controller("").await;
    let namespace = &controlled.namespace;
    namespace.claim("data", "ReadWriteOnce").await;
    let networking = json!({ "targetPort": 8080, "basePrefix": "/base", "timeout": "30s" });
    let spec = json!({ "pvc": "data", "rwoScheduling": true, "networking": networking });
    controlled.start_viewer("v", spec).await;
    namespace.viewer_pod("v", "v-1", "n1").await;
    let conditions = [
        ("Initialized", "True"),
        ("ContainersReady", "True"),
        ("Ready", "True"),
        ("PodScheduled", "True"),
    ];
    namespace
        .set_status::<Pod>("v-1", pod_status(&conditions))
        .await;
    namespace
        .set_status::<Deployment>(&child("v"), ready_deployment())
        .await;
    let is_ready = |viewer: &DynamicObject| viewer.data["status"]["ready"] == true;
    controlled.until_viewer("v", is_ready).await;
    // The reconcile of the first one knows the status as it is, and it has ended after the second.
    for value in ["first", "second"] {
        controlled.touch("v", value).await;
    }
    let before = namespace.api(&viewers()).get("v").await.expect("a viewer");
    let (writes, reconciles) = (controlled.count("writes", ""), controlled.reconciles());
    for number in 0..100 {
        controlled.touch("v", &number.to_string()).await;
    }
    assert!(controlled.reconciles() >= reconciles + 100.0);
    assert_eq!(controlled.count("writes", ""), writes);
    let after = namespace.api(&viewers()).get("v").await.expect("a viewer");
    assert_eq!(after.data["status"], before.data["status"]);
    assert_eq!(after.uid(), before.uid());
    let conditions = after.data["status"]["conditions"].as_array();
    assert!(conditions.expect("conditions").len() <= 5);
}
