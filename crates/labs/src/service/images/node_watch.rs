//! The nodes of the cluster, by a watch. Of each, only what images need is kept.

use kube::ResourceExt;
use ludgate_cluster::{
    Cluster,
    object::Object,
    watch::{ObjectEvent, WatchTarget},
};
use serde_json::{Value, json};

use super::image_state::{ImageState, SeenNode, SeenNodes};
use crate::images::ClusterNode;

/// Events that are applied together.
const BATCH: usize = 256;

/// Follows the nodes for as long as it is polled.
pub(super) async fn follow(cluster: &Cluster, state: &ImageState) {
    let mut events = cluster.watch(WatchTarget::Nodes, "");
    let mut batch = Vec::new();
    let mut list = SeenNodes::new();
    while events.recv_many(&mut batch, BATCH).await > 0 {
        state.change_nodes(|nodes| {
            let mut is_changed = false;
            for event in batch.drain(..) {
                is_changed |= apply(event, nodes, &mut list);
            }
            is_changed
        });
    }
}

/// Applies an event; whether the nodes changed. `list` is the unfinished list.
fn apply(event: ObjectEvent, nodes: &mut SeenNodes, list: &mut SeenNodes) -> bool {
    match event {
        ObjectEvent::Init => {
            list.clear();
            false
        }
        ObjectEvent::InitApply(object) => {
            insert(list, *object);
            false
        }
        ObjectEvent::InitDone => {
            let listed = std::mem::take(list);
            let is_changed = *nodes != listed;
            *nodes = listed;
            is_changed
        }
        ObjectEvent::Apply(object) => insert(nodes, *object),
        ObjectEvent::Delete(object) => nodes.remove(&object.name_any()).is_some(),
    }
}

fn insert(nodes: &mut SeenNodes, mut object: Object) -> bool {
    let name = object.name_any();
    let images = object.status.get_mut("images").map(Value::take);
    let node = ClusterNode::from_object(&json!({
        "metadata": { "name": name, "labels": object.labels() },
        "spec": object.spec,
        "status": { "images": images },
    }));
    let seen = SeenNode {
        uid: object.uid().unwrap_or_default(),
        node,
    };
    match nodes.get_mut(&name) {
        Some(known) if *known == seen => false,
        Some(known) => {
            *known = seen;
            true
        }
        None => {
            nodes.insert(name, seen);
            true
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(name: &str, more: Value) -> Box<Object> {
        let mut node = json!({
            "metadata": { "name": name, "uid": format!("uid-{name}"), "labels": { "a": "b" } },
            "spec": { "taints": [{ "key": "k", "effect": "NoSchedule" }] },
            "status": {
                "conditions": [{ "type": "Ready" }],
                "images": [{ "names": ["r.test/a@sha256:12", "r.test/a:b"], "sizeBytes": 7 }],
            },
        });
        if let (Some(node), Value::Object(more)) = (node.as_object_mut(), more) {
            node.extend(more);
        }
        Box::new(serde_json::from_value(node).expect("an object"))
    }

    fn names(nodes: &SeenNodes) -> Vec<&str> {
        nodes.keys().map(String::as_str).collect()
    }

    #[test]
    fn a_list_replaces_the_nodes_once_it_is_complete() {
        let (mut nodes, mut list) = (SeenNodes::new(), SeenNodes::new());
        let mut apply = |event| apply(event, &mut nodes, &mut list);
        assert!(apply(ObjectEvent::Apply(object("gone", json!({})))));
        assert!(!apply(ObjectEvent::Init));
        assert!(!apply(ObjectEvent::InitApply(object("lost", json!({})))));
        assert!(!apply(ObjectEvent::Init));
        assert!(!apply(ObjectEvent::InitApply(object("node1", json!({})))));
        assert!(!apply(ObjectEvent::InitApply(object("node2", json!({})))));
        assert!(apply(ObjectEvent::InitDone));
        assert!(apply(ObjectEvent::Delete(object("node2", json!({})))));
        assert!(!apply(ObjectEvent::Delete(object("node2", json!({})))));
        assert_eq!(names(&nodes), ["node1"]);
        assert!(list.is_empty());
    }

    #[test]
    fn only_what_images_need_counts_as_a_change() {
        let mut nodes = SeenNodes::new();
        assert!(insert(&mut nodes, *object("node1", json!({}))));
        let seen = nodes["node1"].clone();
        assert_eq!(seen.uid, "uid-node1");
        assert_eq!(seen.node.images[0].digest().as_deref(), Some("sha256:12"));
        assert_eq!(
            (seen.node.images[0].size, seen.node.taints.len()),
            (Some(7), 1)
        );
        assert_eq!(seen.node.labels["a"], "b");
        let images = seen.node.images.clone();
        let heartbeat = json!({ "status": {
            "conditions": [{ "type": "Ready", "lastHeartbeatTime": "2077-10-23T00:00:00Z" }],
            "images": [{ "names": images[0].names, "sizeBytes": 7 }],
        } });
        assert!(!insert(&mut nodes, *object("node1", heartbeat)));
        assert!(insert(
            &mut nodes,
            *object("node1", json!({ "status": "odd" }))
        ));
        assert!(nodes["node1"].node.images.is_empty());
    }
}
