//! Where the pod of a viewer runs, on two nodes. Both are this machine, so each has the folder of
//! a volume. Such a volume is never attached: a pod waits for another volume instead.

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::{
    Api,
    api::{DynamicObject, ListParams},
};
use serde_json::{Value, json};

use super::Viewers;
use crate::support::{
    bound_volume::BoundVolume,
    changes::POD_PATIENCE,
    kube_namespace::{KubeNamespace, kind_of},
    until::holds_within,
    viewer::{claim_volume, required_nodes},
};

const FIRST: &str = "node-1";
const SECOND: &str = "node-2";

/// A pod of this command that mounts the claim `data` on a node.
fn pod(name: &str, node: &str, command: &str) -> Value {
    json!({
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
    })
}

async fn apply(namespace: &KubeNamespace, pod: Value) {
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

/// The nodes of the viewer's pods.
async fn nodes_of_viewer(namespace: &KubeNamespace) -> Vec<String> {
    let pods: Api<Pod> = Api::namespaced(namespace.client.clone(), &namespace.name);
    let of_viewer = ListParams::default().labels("app.kubernetes.io/part-of=pvc-viewer");
    let found = pods.list(&of_viewer).await.expect("pods").items;
    let nodes = found.into_iter().filter_map(|pod| pod.spec?.node_name);
    nodes.collect()
}

/// Waits until the viewer's only pod is on a node.
async fn until_on(namespace: &KubeNamespace, node: &str) {
    let is_there = holds_within(POD_PATIENCE, async || {
        nodes_of_viewer(namespace).await == [node]
    });
    assert!(is_there.await, "the viewer is not on {node}");
}

fn is_ready(viewer: &DynamicObject) -> bool {
    viewer.data["status"]["ready"] == true
}

#[tokio::test(flavor = "multi_thread")]
async fn a_viewer_runs_where_the_pods_of_its_claim_run() {
    let started = Viewers::start("group:phusers", "").await;
    let (controlled, namespace) = (&started.controlled, started.namespace());
    let volume = BoundVolume::bind(namespace, "data", "ReadWriteOnce").await;

    // One pod.
    apply(namespace, pod("nb-0", SECOND, "sleep 1000")).await;
    until_phase(namespace, "nb-0", "Running").await;
    let spec = json!({ "pvc": "data", "rwoScheduling": true });
    controlled.start_viewer("v", spec).await;
    let bound = controlled.until_deployment("v", |deployment| {
        required_nodes(deployment) == json!([SECOND])
    });
    bound.await;
    until_on(namespace, SECOND).await;
    controlled.until_viewer("v", is_ready).await;

    // A second pod, on the other node.
    apply(namespace, pod("nb-1", FIRST, "sleep 1000")).await;
    let message = controlled.until_stopped("v", "VolumeInUse").await;
    assert_eq!(
        message,
        "the claim is in use by nb-0 on node-2, nb-1 on node-1"
    );
    let stopped =
        controlled.until_deployment("v", |deployment| deployment.data["spec"]["replicas"] == 0);
    stopped.await;

    // The pod has moved.
    namespace.remove_pod("nb-0").await;
    until_phase(namespace, "nb-1", "Running").await;
    until_on(namespace, FIRST).await;
    controlled.until_viewer("v", is_ready).await;

    // A pod that has ended holds no volume.
    namespace.remove_pod("nb-1").await;
    apply(namespace, pod("job", SECOND, "true")).await;
    until_phase(namespace, "job", "Succeeded").await;
    let is_free = |deployment: &DynamicObject| {
        required_nodes(deployment) == Value::Null && deployment.data["spec"]["replicas"] == 1
    };
    controlled.until_deployment("v", is_free).await;
    volume.delete().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_viewer_yields_to_a_pod_that_waits_for_its_volumes_and_then_runs_beside_it() {
    let started = Viewers::start("group:phusers", "").await;
    let (controlled, namespace) = (&started.controlled, started.namespace());
    let volume = BoundVolume::bind(namespace, "data", "ReadWriteOnce").await;
    let spec = json!({ "pvc": "data", "rwoScheduling": true });
    controlled.start_viewer("v", spec).await;
    controlled.until_viewer("v", is_ready).await;
    let nodes = nodes_of_viewer(namespace).await;
    let other = if nodes == [FIRST] { SECOND } else { FIRST };

    // kubelet reports this state also of a pod whose volume is attached to another node.
    let mut waiting = pod("nb-0", other, "sleep 1000");
    let mount = json!({ "name": "late", "mountPath": "/late" });
    let late = json!({ "name": "late", "configMap": { "name": "late" } });
    push(&mut waiting["spec"]["containers"][0]["volumeMounts"], mount);
    push(&mut waiting["spec"]["volumes"], late);
    apply(namespace, waiting).await;
    let message = controlled.until_stopped("v", "VolumeInUse").await;
    let wanted = format!("stopped for pods that wait for the volume: nb-0 on {other}");
    assert_eq!(message, wanted);

    let late = json!({ "metadata": { "name": "late" } });
    namespace.apply(&kind_of::<ConfigMap>(), &late).await;
    until_phase(namespace, "nb-0", "Running").await;
    until_on(namespace, other).await;
    controlled.until_viewer("v", is_ready).await;
    volume.delete().await;
}

fn push(list: &mut Value, item: Value) {
    list.as_array_mut().expect("a list").push(item);
}
