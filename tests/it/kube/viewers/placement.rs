//! Where the pods of viewers may run: on the node of the other pods of a ReadWriteOnce claim, also
//! after these have moved.

use k8s_openapi::api::core::v1::Pod;
use kube::api::DynamicObject;
use serde_json::{Value, json};

use crate::support::{
    until::until_async,
    viewer::{condition, is_started, required_nodes, viewer_controller},
};

fn spec(claim: &str, follows: bool) -> Value {
    let networking = json!({ "targetPort": 8080, "basePrefix": "/base" });
    json!({ "pvc": claim, "rwoScheduling": follows, "networking": networking })
}

fn is_on(node: &'static str) -> impl Fn(&DynamicObject) -> bool {
    move |deployment| required_nodes(deployment) == json!([node])
}

/// This server's apply removes the terms, and leaves an empty affinity.
fn is_free(deployment: &DynamicObject) -> bool {
    let affinity = &deployment.data["spec"]["template"]["spec"]["affinity"];
    affinity.is_null() || *affinity == json!({ "nodeAffinity": {} })
}

fn has_replicas(count: u64) -> impl Fn(&DynamicObject) -> bool {
    move |deployment| deployment.data["spec"]["replicas"] == count
}

#[tokio::test(flavor = "multi_thread")]
async fn a_viewer_of_a_read_write_once_claim_runs_beside_its_pod_and_others_run_anywhere() {
    let controlled = viewer_controller("").await;
    let namespace = &controlled.namespace;
    namespace.claim("once", "ReadWriteOnce").await;
    namespace.claim("many", "ReadWriteMany").await;
    for (viewer, claim, follows) in [
        ("follows", "once", true),
        ("stays", "once", false),
        ("shared", "many", true),
    ] {
        controlled.start_viewer(viewer, spec(claim, follows)).await;
        controlled.until_deployment(viewer, is_free).await;
    }
    namespace.notebook("nb-0", "n3", &["once", "many"]).await;
    // The controller knows the pod then.
    controlled.until_deployment("follows", is_on("n3")).await;
    for viewer in ["stays", "shared"] {
        controlled.touch(viewer, "with the pod").await;
        let deployment = controlled.until_deployment(viewer, |_| true).await;
        assert!(is_free(&deployment), "{viewer}");
    }
    let ended = json!({ "phase": "Succeeded" });
    namespace.set_status::<Pod>("nb-0", ended).await;
    controlled.until_deployment("follows", is_free).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_affinity_is_a_preference_where_it_is_set_so() {
    let controlled = viewer_controller("affinity = \"preferred\"\n").await;
    let namespace = &controlled.namespace;
    namespace.claim("data", "ReadWriteOnce").await;
    namespace.notebook("nb-0", "n3", &["data"]).await;
    // A viewer that may start elsewhere does not start before a pod that waits for the volume.
    let running = json!({ "phase": "Running" });
    namespace.set_status::<Pod>("nb-0", running).await;
    controlled.start_viewer("v", spec("data", true)).await;
    let node = json!({ "key": "kubernetes.io/hostname", "operator": "In", "values": ["n3"] });
    let preference = json!({ "weight": 100, "preference": { "matchExpressions": [node] } });
    let wanted = json!({ "nodeAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [preference],
    } });
    let is_preferred = |deployment: &DynamicObject| {
        deployment.data["spec"]["template"]["spec"]["affinity"] == wanted
    };
    controlled.until_deployment("v", is_preferred).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_viewer_follows_the_pod_of_its_claim_to_another_node() {
    let controlled = viewer_controller("").await;
    let namespace = &controlled.namespace;
    namespace.claim("data", "ReadWriteOnce").await;
    namespace.notebook("nb-0", "n3", &["data"]).await;
    controlled.start_viewer("v", spec("data", true)).await;
    controlled.until_deployment("v", is_on("n3")).await;
    // A second pod on this node changes nothing.
    namespace.notebook("nb-1", "n3", &["data"]).await;
    controlled.touch("v", "two pods").await;
    controlled.until_deployment("v", is_on("n3")).await;
    for pod in ["nb-0", "nb-1"] {
        namespace.remove_pod(pod).await;
    }
    controlled.until_deployment("v", is_free).await;
    namespace.notebook("nb-0", "n5", &["data"]).await;
    let moved = controlled.until_deployment("v", is_on("n5")).await;
    assert_eq!(
        moved.data["spec"]["strategy"],
        json!({ "type": "Recreate" })
    );
    assert!(has_replicas(1)(&moved));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_in_use_on_two_nodes_stops_the_viewer_until_one_of_them_is_left() {
    let controlled = viewer_controller("").await;
    let namespace = &controlled.namespace;
    namespace.claim("data", "ReadWriteOnce").await;
    controlled.start_viewer("v", spec("data", true)).await;
    namespace.notebook("nb-0", "n3", &["data"]).await;
    namespace.notebook("nb-1", "n4", &["data"]).await;
    let message = controlled.until_stopped("v", "VolumeInUse").await;
    assert_eq!(message, "the claim is in use by nb-0 on n3, nb-1 on n4");
    controlled.until_deployment("v", has_replicas(0)).await;

    namespace.remove_pod("nb-0").await;
    let status = controlled.until_viewer("v", is_started).await;
    assert!(condition(&status, "VolumeInUse").is_none());
    let back = controlled.until_deployment("v", has_replicas(1)).await;
    assert!(is_on("n4")(&back));
    namespace.remove_pod("nb-1").await;
    controlled.until_deployment("v", is_free).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_viewer_yields_to_a_pod_that_waits_for_its_volume_and_comes_back_beside_it() {
    let controlled = viewer_controller("").await;
    let namespace = &controlled.namespace;
    namespace.claim("data", "ReadWriteOnce").await;
    controlled.start_viewer("v", spec("data", true)).await;
    namespace.viewer_pod("v", "v-1", "n1").await;
    namespace.notebook("nb-0", "n2", &["data"]).await;
    let container = json!({
        "name": "notebook", "image": "notebook:1", "imageID": "", "ready": false,
        "restartCount": 0, "state": { "waiting": { "reason": "ContainerCreating" } },
    });
    let waiting = json!({ "phase": "Pending", "containerStatuses": [container] });
    namespace.set_status::<Pod>("nb-0", waiting).await;
    let message = controlled.until_stopped("v", "VolumeInUse").await;
    assert_eq!(
        message,
        "stopped for pods that wait for the volume: nb-0 on n2"
    );
    controlled.until_deployment("v", has_replicas(0)).await;
    until_async("an Event says why", async || {
        let arguments = ["get", "events", "-o", "jsonpath={.items[*].reason}"];
        let reasons = namespace.kubectl(&arguments, "").await;
        reasons.contains("Yielded")
    })
    .await;

    namespace.remove_pod("v-1").await;
    let back = controlled.until_deployment("v", has_replicas(1)).await;
    assert!(is_on("n2")(&back));
}
