//! Where the pod of a viewer runs, on two nodes: the machine, and a hollow one.

use k8s_openapi::api::core::v1::Pod;
use kube::{Api, api::ListParams};
use serde_json::{Value, json};

use super::{Viewers, default_pod, on_each_node};
use crate::support::{
    bound_volume::BoundVolume,
    changes::POD_PATIENCE,
    kube_namespace::{KubeNamespace, kind_of},
    until::holds_within,
    viewer::{claim_volume, required_nodes},
};

const HERE: &str = "node-1";
const HOLLOW: &str = "hollow-1";

/// A pod of this command that mounts the claim `data` on a node.
async fn pod(namespace: &KubeNamespace, name: &str, node: &str, command: &str) {
    let pod = json!({
        "metadata": { "name": name },
        "spec": {
            "nodeName": node,
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 0,
            "containers": [{
                "name": "notebook", "image": "localhost/busybox:1",
                "command": ["sh", "-c", command],
                "volumeMounts": [{ "name": "data", "mountPath": "/data" }],
            }],
            "volumes": [claim_volume("data", "data")],
        },
    });
    namespace.apply(&kind_of::<Pod>(), &pod).await;
}

/// Waits until a pod has this phase.
async fn until_phase(namespace: &KubeNamespace, pod: &str, phase: &str) {
    let pods = namespace.api(&kind_of::<Pod>());
    let has_phase = holds_within(POD_PATIENCE, async || {
        let found = pods.get(pod).await;
        found.is_ok_and(|pod| pod.data["status"]["phase"] == phase)
    });
    assert!(has_phase.await, "{pod} is not {phase}");
}

/// Waits until the viewer's only pod runs on a node.
async fn until_on(namespace: &KubeNamespace, node: &str) {
    let pods: Api<Pod> = Api::namespaced(namespace.client.clone(), &namespace.name);
    let of_viewer = ListParams::default().labels("app.kubernetes.io/part-of=pvc-viewer");
    let is_there = holds_within(POD_PATIENCE, async || {
        let found = pods.list(&of_viewer).await.expect("pods").items;
        let nodes: Vec<_> = found.iter().filter_map(|pod| pod.spec.as_ref()).collect();
        nodes.len() == 1 && nodes[0].node_name.as_deref() == Some(node)
    });
    assert!(is_there.await, "the viewer is not on {node}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_viewer_runs_where_the_pods_of_its_claim_run() {
    let pod_of_viewers = default_pod(on_each_node());
    let started = Viewers::with_pod("group:phusers", "", &pod_of_viewers).await;
    let namespace = started.namespace();
    let volume = BoundVolume::bind(namespace, "data", "ReadWriteOnce").await;

    // One pod, on the hollow node: the scheduler would have chosen the other one.
    pod(namespace, "nb-0", HOLLOW, "sleep 1000").await;
    until_phase(namespace, "nb-0", "Running").await;
    let spec = json!({ "pvc": "data", "rwoScheduling": true });
    started.controlled.start_viewer("v", spec).await;
    let bound = started.controlled.until_deployment("v", |deployment| {
        required_nodes(deployment) == json!([HOLLOW])
    });
    bound.await;
    until_on(namespace, HOLLOW).await;

    // A second pod, on the other node.
    pod(namespace, "nb-1", HERE, "sleep 1000").await;
    let message = started.controlled.until_stopped("v", "VolumeInUse").await;
    assert_eq!(
        message,
        "the claim is in use by nb-0 on hollow-1, nb-1 on node-1"
    );
    let stopped = started
        .controlled
        .until_deployment("v", |deployment| deployment.data["spec"]["replicas"] == 0);
    stopped.await;

    // The pod has moved.
    namespace.remove_pod("nb-0").await;
    until_phase(namespace, "nb-1", "Running").await;
    until_on(namespace, HERE).await;

    // A pod that has ended holds no volume.
    namespace.remove_pod("nb-1").await;
    pod(namespace, "job", HOLLOW, "true").await;
    let ended = json!({ "phase": "Succeeded" });
    namespace.set_status::<Pod>("job", ended).await;
    let is_free = |deployment: &kube::api::DynamicObject| {
        required_nodes(deployment) == Value::Null && deployment.data["spec"]["replicas"] == 1
    };
    started.controlled.until_deployment("v", is_free).await;
    volume.delete().await;
}
