//! Viewers of which nothing can be made: their status says why, and nothing runs.

use k8s_openapi::api::{apps::v1::Deployment, core::v1::Service, networking::v1::NetworkPolicy};
use kube::{Resource, ResourceExt, api::DynamicObject};
use serde_json::{Value, json};

use crate::support::{
    controller::Controlled,
    kube_namespace::kind_of,
    viewer::{child, claim_volume, condition, is_started, labels, viewer_controller, viewers},
};

/// A viewer of the claim `data` with a pod of its own.
fn own_pod(container: Value, volume: Value) -> Value {
    json!({
        "pvc": "data",
        "podSpec": { "containers": [container], "volumes": [volume] },
        "networking": { "targetPort": 80 },
    })
}

fn harmless() -> Value {
    let container = json!({ "name": "main", "image": "busybox" });
    own_pod(container, claim_volume("pvc", "data"))
}

fn privileged() -> Value {
    let rights = json!({ "privileged": true });
    let container = json!({ "name": "main", "image": "busybox", "securityContext": rights });
    own_pod(container, claim_volume("pvc", "data"))
}

fn without_its_claim() -> Value {
    let container = json!({ "name": "main", "image": "busybox" });
    own_pod(container, claim_volume("pvc", "other"))
}

/// What is wrong with a spec: its condition, and the message.
fn refused() -> [(Value, &'static str, &'static str); 4] {
    let container = json!({ "name": "main", "image": "busybox" });
    let host = json!({ "name": "host", "hostPath": { "path": "/" } });
    let mut with_host = own_pod(container, claim_volume("pvc", "data"));
    with_host["podSpec"]["volumes"] = json!([claim_volume("pvc", "data"), host]);
    [
        (
            json!({ "pvc": "data", "networking": { "basePrefix": "base" } }),
            "Invalid",
            "spec.networking.basePrefix: a path such as /pvcviewers, without a slash at the end",
        ),
        (
            without_its_claim(),
            "Invalid",
            "PVC data must be used in the podSpec",
        ),
        (
            privileged(),
            "PodSpecRejected",
            "podSpec: not allowed: containers[main].securityContext.privileged",
        ),
        (
            with_host,
            "PodSpecRejected",
            "podSpec: not allowed: volumes[host].hostPath",
        ),
    ]
}

/// The number of replicas of a viewer's Deployment.
fn replicas(deployment: &DynamicObject) -> Option<u64> {
    deployment.data["spec"]["replicas"].as_u64()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_spec_that_is_refused_makes_nothing_and_its_status_says_why() {
    // This server evaluates no CEL, so it stores all of these.
    let controlled = viewer_controller("").await;
    for (number, (spec, kind, message)) in refused().into_iter().enumerate() {
        let name = format!("v{number}");
        let has_path = kind == "PodSpecRejected" && !spec["networking"].is_null();
        controlled.namespace.viewer(&name, spec).await;
        assert_eq!(controlled.until_stopped(&name, kind).await, message);
        let viewer = controlled.namespace.api(&viewers()).get(&name).await;
        let status = viewer.expect("a viewer").data["status"].clone();
        assert_eq!(status["ready"], false);
        // The gateway says why there, if the path is known.
        let path = format!("/{}/{name}/", controlled.namespace.name);
        assert_eq!(status["url"].as_str(), has_path.then_some(path.as_str()));
        let ready = condition(&status, "Ready").expect("a condition");
        assert_eq!(ready["status"], "False");
        assert!(controlled.child::<Deployment>(&name).await.is_none());
        assert!(controlled.child::<Service>(&name).await.is_none());
        assert!(controlled.child::<NetworkPolicy>(&name).await.is_none());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_viewer_whose_spec_becomes_refused_is_scaled_to_zero() {
    let controlled = viewer_controller("").await;
    for (number, spec) in [privileged(), without_its_claim()].into_iter().enumerate() {
        let name = format!("v{number}");
        controlled.start_viewer(&name, harmless()).await;
        let running = |deployment: &DynamicObject| replicas(deployment) == Some(1);
        let before = controlled.until_deployment(&name, running).await;
        controlled.namespace.viewer(&name, spec).await;
        let stopped = |deployment: &DynamicObject| replicas(deployment) == Some(0);
        let after = controlled.until_deployment(&name, stopped).await;
        let template = |object: &DynamicObject| object.data["spec"]["template"].clone();
        assert_eq!(template(&after), template(&before));

        controlled.start_viewer(&name, harmless()).await;
        controlled.until_deployment(&name, running).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trusted_namespace_may_have_any_pod() {
    let controlled = viewer_controller("trusted_namespaces = [\"NAMESPACE\"]\n").await;
    controlled.start_viewer("v", privileged()).await;
    let deployment = controlled.child::<Deployment>("v").await;
    let pod = deployment.expect("a Deployment").data["spec"]["template"]["spec"].clone();
    let container = &pod["containers"][0];
    assert_eq!(container["securityContext"]["privileged"], true);
}

/// Makes an object with the name of a viewer's, which another program owns.
async fn make_foreign<K: Resource<DynamicType = ()>>(
    controlled: &Controlled,
    viewer: &str,
    spec: Value,
) -> DynamicObject {
    let namespace = &controlled.namespace;
    let metadata = json!({ "name": child(viewer), "labels": labels(viewer) });
    let object = json!({ "metadata": metadata, "spec": spec });
    namespace.apply(&kind_of::<K>(), &object).await;
    let made = controlled.child::<K>(viewer).await;
    made.expect("an object")
}

/// Checks that an object of another owner stays as it is, while its viewer is made, changed and
/// loses its networking.
async fn check_foreign<K: Resource<DynamicType = ()>>(spec: Value) {
    let controlled = viewer_controller("").await;
    let before = make_foreign::<K>(&controlled, "v", spec).await;
    let wanted = format!(
        "{} pvcviewer-v already exists and has another owner",
        kind_of::<K>().kind
    );
    for port in [80, 81] {
        let spec = json!({ "pvc": "data", "networking": { "targetPort": port } });
        controlled.namespace.viewer("v", spec).await;
        assert_eq!(controlled.until_stopped("v", "Invalid").await, wanted);
    }
    let without = json!({ "pvc": "data" });
    controlled.namespace.viewer("v", without).await;
    let is_seen = |viewer: &DynamicObject| {
        viewer.data["status"]["observedGeneration"].as_i64() == viewer.metadata.generation
    };
    controlled.until_viewer("v", is_seen).await;
    controlled.touch("v", "again").await;
    let after = controlled.child::<K>("v").await.expect("it stays");
    assert_eq!(after.uid(), before.uid());
    assert_eq!(after.resource_version(), before.resource_version());

    // It gets out of the way.
    let api = controlled.namespace.api(&kind_of::<K>());
    let deleted = api.delete(&child("v"), &Default::default()).await;
    deleted.expect("deleted");
    controlled.until_viewer("v", is_started).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_of_another_owner_is_never_touched() {
    let port = json!({ "name": "http", "port": 80, "protocol": "TCP" });
    check_foreign::<Service>(json!({ "ports": [port] })).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deployment_of_another_owner_is_never_touched() {
    let container = json!({ "name": "other", "image": "other:1" });
    let template =
        json!({ "metadata": { "labels": labels("v") }, "spec": { "containers": [container] } });
    let spec = json!({ "selector": { "matchLabels": labels("v") }, "template": template });
    check_foreign::<Deployment>(spec).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_of_another_owner_is_never_touched() {
    let selector = json!({ "matchLabels": labels("v") });
    let spec = json!({ "podSelector": selector, "policyTypes": ["Ingress"] });
    check_foreign::<NetworkPolicy>(spec).await;
}
