//! Pods pull images to nodes. The test is their kubelet.

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use ludgate::labs::images::prepull_pod_name;
use serde_json::json;

use super::{
    registry::TagRegistry,
    rig::{ImageRig, make, pod},
};

const TAGS: &[&str] = &["w_2077_43", "w_2077_42"];

fn is_named(name: &str) -> impl Fn(&Pod) -> bool {
    move |pod| pod.name_any() == name
}

#[tokio::test(flavor = "multi_thread")]
async fn images_are_pulled_one_by_one_to_the_nodes_that_may_have_them() {
    let rig = ImageRig::start(TAGS, "").await;
    let node = rig.node("a", json!([])).await;
    rig.node("b", json!([{ "key": "k", "effect": "NoSchedule" }]))
        .await;
    assert!(rig.pull_names().await.is_empty(), "it does not lead");
    rig.lead(true);
    let mut pulls = rig.pulls();
    for tag in TAGS {
        let name = prepull_pod_name(tag, &node);
        let pull = pulls.until(is_named(&name)).await;
        assert_eq!(rig.pull_names().await, [name.as_str()]);
        let spec = pull.spec.as_ref().expect("a spec");
        assert_eq!(spec.node_name.as_ref(), Some(&node));
        let (host, digest) = (rig.registry.address, TagRegistry::digest(tag));
        let image = format!("{host}/library/lab:{tag}@{digest}");
        assert_eq!(spec.containers[0].image, Some(image));
        assert_eq!(pull.owner_references()[0].uid, rig.owner_uid);
        rig.set_status(&name, json!({ "phase": "Succeeded" })).await;
        rig.until_gone(&pull).await;
    }
    rig.until(|catalog| catalog.prepull_plan().is_empty()).await;
    assert!(rig.pull_names().await.is_empty());
    let all = rig.images.catalog().spawner_images().all;
    assert!(all.iter().all(|image| image.prepulled));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_that_cannot_be_pulled_lets_the_next_one_go_first() {
    let rig = ImageRig::start(TAGS, "").await;
    let node = rig.node("a", json!([])).await;
    rig.lead(true);
    let mut pulls = rig.pulls();
    let first = prepull_pod_name(TAGS[0], &node);
    let pull = pulls.until(is_named(&first)).await;
    rig.set_status(&first, json!({ "phase": "Failed", "reason": "Evicted" }))
        .await;
    rig.until_gone(&pull).await;
    let second = prepull_pod_name(TAGS[1], &node);
    let pull = pulls.until(is_named(&second)).await;
    assert_eq!(rig.pull_names().await, [second.as_str()]);
    rig.set_status(&second, json!({ "phase": "Succeeded" }))
        .await;
    rig.until_gone(&pull).await;
    rig.until(|catalog| catalog.prepull_plan().len() == 1).await;
    assert!(rig.pull_names().await.is_empty(), "the first one waits");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_old_pod_of_the_same_name_is_replaced() {
    let rig = ImageRig::start(TAGS, "").await;
    let node = rig.node("a", json!([])).await;
    rig.lead(true);
    let mut pulls = rig.pulls();
    let first = prepull_pod_name(TAGS[0], &node);
    let pull = pulls.until(is_named(&first)).await;
    let second = prepull_pod_name(TAGS[1], &node);
    let labels = json!({ "labels": { "nublado.lsst.io/category": "prepuller" } });
    let old = make(&rig.pods, pod(&second, labels)).await;
    rig.set_status(&first, json!({ "phase": "Succeeded" }))
        .await;
    rig.until_gone(&pull).await;
    let replacement = pulls
        .until(|pod| pod.name_any() == second && pod.uid() != old.uid())
        .await;
    assert_eq!(replacement.spec.expect("a spec").node_name, Some(node));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_of_others_keeps_its_name_and_the_next_image_is_pulled() {
    let rig = ImageRig::start(TAGS, "").await;
    let node = rig.node("a", json!([])).await;
    let first = prepull_pod_name(TAGS[0], &node);
    let foreign = make(&rig.pods, pod(&first, json!({}))).await;
    rig.lead(true);
    let second = prepull_pod_name(TAGS[1], &node);
    rig.pulls().until(is_named(&second)).await;
    let found = rig.pods.get(&first).await.expect("the pod of others");
    assert_eq!(found.uid(), foreign.uid());
    assert!(found.metadata.deletion_timestamp.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_takes_too_long_is_deleted() {
    let rig = ImageRig::start(TAGS, "  prepullTimeout: 2").await;
    let node = rig.node("a", json!([])).await;
    rig.lead(true);
    let mut pulls = rig.pulls();
    let first = prepull_pod_name(TAGS[0], &node);
    // Without a kubelet, a pod that did not end stays until its grace period is confirmed.
    pulls
        .until(|pod| pod.name_any() == first && pod.metadata.deletion_timestamp.is_some())
        .await;
    let second = prepull_pod_name(TAGS[1], &node);
    pulls.until(is_named(&second)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_leader_begins_by_removing_what_the_last_one_left() {
    let rig = ImageRig::start(TAGS, "").await;
    let node = rig.node("a", json!([])).await;
    rig.lead(true);
    let first = prepull_pod_name(TAGS[0], &node);
    let pull = rig.pulls().until(is_named(&first)).await;
    rig.lead(false);
    // Then the node has everything, so that nothing is left to do but to remove the pod.
    let digests: Vec<String> = TAGS.iter().map(|tag| TagRegistry::digest(tag)).collect();
    rig.report(&node, &digests).await;
    rig.until(|catalog| catalog.prepull_plan().is_empty()).await;
    rig.set_status(&first, json!({ "phase": "Succeeded" }))
        .await;
    rig.lead(true);
    rig.until_gone(&pull).await;
    assert!(rig.pull_names().await.is_empty());
}
