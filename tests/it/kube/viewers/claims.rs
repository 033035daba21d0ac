//! A viewer goes with its claim. kube-controller-manager keeps a claim while pods use it, and
//! deletes objects after those that they own.

use std::time::{Duration, Instant};

use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{PersistentVolumeClaim, Pod, Service},
    networking::v1::NetworkPolicy,
};
use kube::{ResourceExt, api::DynamicObject};
use serde_json::{Value, json};

use crate::support::{
    changes::Changes,
    kube_namespace::{KubeNamespace, kind_of},
    until::assert_soon,
    viewer::{child, viewer_controller, viewers},
};

/// How long a claim may stay after the last pod that uses it.
const CLAIM_LIMIT: Duration = Duration::from_secs(2);

fn spec(claim: &str) -> Value {
    json!({ "pvc": claim, "networking": { "targetPort": 8080, "basePrefix": "/base" } })
}

fn is_being_deleted(object: &DynamicObject) -> bool {
    object.metadata.deletion_timestamp.is_some()
}

/// Whether the Deployment has the uid of the claim.
fn knows_claim(deployment: &DynamicObject) -> bool {
    deployment.annotations().contains_key("ludgate/claim-uid")
}

/// Waits until nothing of a viewer is left.
async fn until_viewer_gone(namespace: &KubeNamespace, viewer: &str) {
    namespace.until_gone(&viewers(), viewer).await;
    for kind in [
        kind_of::<Deployment>(),
        kind_of::<Service>(),
        kind_of::<NetworkPolicy>(),
    ] {
        namespace.until_gone(&kind, &child(viewer)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_claim_goes_as_soon_as_the_pod_of_its_viewer_has_ended() {
    let controlled = viewer_controller("").await;
    let namespace = &controlled.namespace;
    namespace.claim("data", "ReadWriteOnce").await;
    controlled.start_viewer("v", spec("data")).await;
    namespace.viewer_pod("v", "v-1", "n1").await;
    let mut pod = Changes::named(namespace.api(&kind_of::<Pod>()), "v-1");
    pod.until(|_| true).await;
    let mut viewer = Changes::named(namespace.api(&viewers()), "v");
    viewer.until(|_| true).await;
    namespace.delete_claim("data").await;
    // The pod of a viewer that is deleted in the background would outlast it.
    let deleted = viewer.until(is_being_deleted).await;
    assert_eq!(deleted.finalizers(), ["foregroundDeletion"]);
    pod.until(is_being_deleted).await;
    let claim = namespace.claims().get("data").await.expect("a claim");
    assert!(claim.metadata.deletion_timestamp.is_some());

    let ended = Instant::now();
    namespace.remove_pod("v-1").await;
    namespace
        .until_gone(&kind_of::<PersistentVolumeClaim>(), "data")
        .await;
    assert_soon(CLAIM_LIMIT, ended.elapsed());
    until_viewer_gone(namespace, "v").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_no_pod_uses_takes_all_its_viewers_with_it() {
    let controlled = viewer_controller("").await;
    let namespace = &controlled.namespace;
    for claim in ["data", "other"] {
        namespace.claim(claim, "ReadWriteMany").await;
    }
    for (viewer, claim) in [("one", "data"), ("two", "data"), ("three", "other")] {
        controlled.start_viewer(viewer, spec(claim)).await;
        controlled.until_deployment(viewer, knows_claim).await;
    }
    namespace.delete_claim("data").await;
    for viewer in ["one", "two"] {
        until_viewer_gone(namespace, viewer).await;
    }
    controlled.touch("three", "stays").await;
    let three = namespace.api(&viewers()).get("three").await;
    assert!(!is_being_deleted(&three.expect("a viewer")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_viewer_waits_for_a_claim_that_never_existed() {
    let controlled = viewer_controller("").await;
    let namespace = &controlled.namespace;
    controlled.start_viewer("early", spec("data")).await;
    controlled.touch("early", "still there").await;
    let early = namespace.api(&viewers()).get("early").await;
    assert!(!is_being_deleted(&early.expect("a viewer")));
    let deployment = controlled.until_deployment("early", |_| true).await;
    assert!(!knows_claim(&deployment));

    namespace.claim("data", "ReadWriteMany").await;
    let claim = namespace.claims().get("data").await.expect("a claim");
    let uid = claim.uid().expect("a uid");
    let is_known = |deployment: &DynamicObject| {
        deployment.annotations().get("ludgate/claim-uid") == Some(&uid)
    };
    controlled.until_deployment("early", is_known).await;
    namespace.delete_claim("data").await;
    until_viewer_gone(namespace, "early").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_was_deleted_while_no_controller_ran_takes_its_viewer_with_it() {
    let controlled = viewer_controller("").await;
    for (viewer, claim) in [("v", "data"), ("early", "never")] {
        if claim == "data" {
            controlled.namespace.claim(claim, "ReadWriteOnce").await;
        }
        controlled.start_viewer(viewer, spec(claim)).await;
    }
    controlled.until_deployment("v", knows_claim).await;
    let stopped = controlled.stop().await;
    stopped.namespace.delete_claim("data").await;
    stopped
        .namespace
        .until_gone(&kind_of::<PersistentVolumeClaim>(), "data")
        .await;
    let api = stopped.namespace.api(&viewers());
    assert!(!is_being_deleted(&api.get("v").await.expect("it stays")));

    let controlled = stopped.start().await;
    until_viewer_gone(&controlled.namespace, "v").await;
    controlled.touch("early", "stays").await;
    let early = api.get("early").await.expect("it waits for its claim");
    assert!(!is_being_deleted(&early));
}
