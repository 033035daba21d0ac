//! Viewers whose objects Kubeflow's controller has made: they are taken over as they are.

use std::collections::BTreeSet;

use k8s_openapi::api::{apps::v1::Deployment, core::v1::Service, networking::v1::NetworkPolicy};
use kube::{
    ResourceExt,
    api::{DynamicObject, PostParams},
};
use serde_json::{Value, json};

use super::golden::{GoldenViewer, default_pod};
use crate::support::{
    controller::{Controlled, ControllerKind, Prepared},
    kube_namespace::kind_of,
    viewer::{child, is_started, viewers},
};

/// The image of Kubeflow's default pod.
const IMAGE: &str = "filebrowser/filebrowser:latest";

/// The spec with the pod, which Kubeflow's webhook writes into the object.
fn spec(namespace: &str, image: &str, networking: Value) -> Value {
    let base = format!("/base/{namespace}/v/");
    let pod = default_pod(image, &base, "data");
    json!({ "pvc": "data", "podSpec": pod, "networking": networking })
}

fn networking() -> Value {
    json!({ "targetPort": 8080, "basePrefix": "/base" })
}

/// Makes the viewer `v` and its objects as Kubeflow's controller does, with a running pod, and
/// starts the controller when the viewer has lost its networking, or has it still.
async fn taken_over(networking_now: Value) -> (Controlled, DynamicObject, DynamicObject) {
    let prepared = Prepared::for_controller(ControllerKind::Viewers, "").await;
    let namespace = &prepared.namespace;
    namespace.claim("data", "ReadWriteOnce").await;
    namespace
        .viewer("v", spec(&namespace.name, IMAGE, networking_now))
        .await;
    let golden = GoldenViewer::new(namespace, "v").await;
    let pod = default_pod(IMAGE, &format!("/base/{}/v/", namespace.name), "data");
    let mut made = Vec::new();
    for (kind, object) in [
        (kind_of::<Deployment>(), golden.deployment(pod)),
        (kind_of::<Service>(), golden.service(8080)),
    ] {
        let object = serde_json::from_value(object).expect("an object");
        let as_kubeflow = PostParams {
            field_manager: Some("manager".to_owned()),
            ..PostParams::default()
        };
        let created = namespace.api(&kind).create(&as_kubeflow, &object).await;
        made.push(created.expect("created"));
    }
    let ready = json!({ "replicas": 1, "readyReplicas": 1 });
    namespace
        .set_status::<Deployment>(&child("v"), ready.clone())
        .await;
    // Kubeflow's controller appends the Deployment's first condition whenever it has changed.
    let moment = "2024-05-01T12:00:00Z";
    let condition = |kind: &str, status: &str| {
        json!({
            "type": kind, "status": status, "reason": "Kubeflow", "message": kind,
            "lastTransitionTime": moment, "lastUpdateTime": moment,
        })
    };
    let conditions = json!([
        condition("Available", "False"),
        condition("Progressing", "True"),
        condition("Available", "True"),
        condition("Available", "False"),
        condition("Available", "True"),
        condition("Progressing", "True"),
    ]);
    let status = json!({ "conditions": conditions, "ready": true, "url": "/base/" });
    namespace
        .set_status::<ludgate::cluster::crd::viewer::PVCViewer>("v", status)
        .await;
    let controlled = prepared.start().await;
    controlled.until_viewer("v", is_started).await;
    let service = made.pop().expect("a Service");
    let deployment = made.pop().expect("a Deployment");
    (controlled, deployment, service)
}

/// Checks that only server-side apply of this controller owns fields of a spec.
fn assert_owned(object: &DynamicObject) {
    let of_spec = object.managed_fields().iter().filter(|entry| {
        let fields = entry.fields_v1.as_ref();
        fields.is_some_and(|fields| !fields.0["f:spec"].is_null())
    });
    let of_spec: Vec<_> = of_spec
        .map(|entry| (entry.manager.as_deref(), entry.operation.as_deref()))
        .collect();
    let wanted = [(Some("ludgate"), Some("Apply"))];
    assert_eq!(of_spec, wanted, "{}", object.name_any());
}

fn template(deployment: &DynamicObject) -> &Value {
    &deployment.data["spec"]["template"]
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_of_kubeflows_controller_are_taken_over_and_the_pod_runs_on() {
    let (controlled, before, service) = taken_over(networking()).await;
    let namespace = controlled.namespace.name.clone();
    let deployment = controlled.child::<Deployment>("v").await;
    let deployment = deployment.expect("a Deployment");
    assert_eq!(deployment.uid(), before.uid());
    assert_eq!(template(&deployment), template(&before), "no restart");
    assert_eq!(deployment.data["spec"]["replicas"], 1);
    let taken = controlled.child::<Service>("v").await.expect("a Service");
    assert_eq!(taken.data["spec"], service.data["spec"]);
    for object in [&deployment, &taken] {
        assert_owned(object);
    }
    assert!(controlled.child::<NetworkPolicy>("v").await.is_some());

    let viewer = controlled.namespace.api(&viewers()).get("v").await;
    let status = viewer.expect("a viewer").data["status"].clone();
    assert_eq!(status["ready"], true);
    assert_eq!(status["url"], format!("/base/{namespace}/v/"));
    let conditions = status["conditions"].as_array().expect("conditions");
    let kinds: BTreeSet<&str> = conditions
        .iter()
        .filter_map(|condition| condition["type"].as_str())
        .collect();
    assert_eq!(kinds.len(), conditions.len(), "{conditions:?}");
    assert!(kinds.contains("Ready") && !kinds.contains("Progressing"));

    let changed = spec(&namespace, "filebrowser/filebrowser:v2.32.0", networking());
    controlled.start_viewer("v", changed).await;
    let after = controlled.until_deployment("v", |_| true).await;
    let mut wanted = template(&before).clone();
    wanted["spec"]["containers"][0]["image"] = "filebrowser/filebrowser:v2.32.0".into();
    assert_eq!(template(&after), &wanted);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_that_kubeflows_controller_has_left_is_deleted() {
    let (controlled, before, _) = taken_over(json!({})).await;
    controlled
        .namespace
        .until_gone(&kind_of::<Service>(), &child("v"))
        .await;
    let deployment = controlled.until_deployment("v", |_| true).await;
    assert_eq!(template(&deployment), template(&before), "no restart");
}
