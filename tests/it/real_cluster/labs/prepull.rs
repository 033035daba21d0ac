//! Images are pulled beforehand: to real nodes from the registry, and to hollow ones.

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{Api, ResourceExt, api::ListParams};
use ludgate::{demo::provider::DemoProvider, model::clock::Clock};
use serde_json::Value;

use super::site::{LabChoices, LabSite};
use crate::support::{
    changes::{Changes, POD_PATIENCE},
    until::holds_within,
    world::client,
};

/// The nodes of tests/real/kube/cluster/suite.sh.
const NODES: [&str; 4] = ["hollow-1", "hollow-2", "node-1", "node-2"];

/// The texts of a list.
fn texts(list: &Value) -> Vec<&str> {
    let list = list.as_array().into_iter().flatten();
    list.filter_map(Value::as_str).collect()
}

impl LabSite {
    async fn answer(&self, path: &str) -> Value {
        let token = self.hub_token();
        let request = format!("GET {path}");
        let answer = self.labs.call(&request, &token, &Value::Null).await;
        answer.json()
    }
}

/// Whether a node says that it has an image.
fn has_image(node: &Node, digest: &str) -> bool {
    let status = node.status.as_ref();
    let images = status.and_then(|status| status.images.as_ref());
    let mut names = images.into_iter().flatten().flat_map(|it| &it.names);
    names.any(|names| names.iter().any(|name| name.ends_with(digest)))
}

#[tokio::test(flavor = "multi_thread")]
async fn all_nodes_get_the_images_of_the_menu_and_no_pod_is_left() {
    let provider = DemoProvider::start(client("127.0.0.1"), Clock::system()).await;
    let choices = LabChoices {
        pulls: true,
        ..LabChoices::plain("nublado")
    };
    let site = LabSite::start(provider.expect("started"), choices).await;
    let mut prepulls = Value::Null;
    let is_done = holds_within(POD_PATIENCE, async || {
        prepulls = site.answer("prepulls").await;
        let nothing = Value::Array(Vec::new());
        let images = &prepulls["images"];
        // Until the nodes are known, no image is missing on any.
        prepulls["nodes"] != nothing
            && images["pending"] == nothing
            && images["prepulled"] != nothing
    });
    assert!(is_done.await, "{prepulls:#}");
    let nodes = prepulls["nodes"].as_array().expect("nodes");
    let mut names: Vec<&str> = nodes.iter().filter_map(|it| it["name"].as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, NODES, "{prepulls:#}");
    assert!(nodes.iter().all(|node| node["eligible"] == true));
    let images = prepulls["images"]["prepulled"].as_array().expect("images");
    for image in images {
        let mut on = texts(&image["nodes"]);
        on.sort_unstable();
        assert_eq!(on, NODES, "{image:#}");
    }

    let menu = site.answer("images").await;
    assert_eq!(menu["recommended"]["prepulled"], true, "{menu:#}");
    let digest = menu["recommended"]["digest"].as_str().expect("a digest");
    for node in ["node-1", "node-2"] {
        let nodes: Api<Node> = Api::all(site.namespace.client.clone());
        let mut nodes = Changes::named(nodes, node);
        nodes.until(|node| has_image(node, digest)).await;
    }
    // What the nodes report does not make them lack anything again.
    let prepulls = site.answer("prepulls").await;
    assert_eq!(prepulls["images"]["pending"], Value::Array(Vec::new()));
    let pods: Api<Pod> = Api::namespaced(site.namespace.client.clone(), &site.namespace.name);
    let pulling = ListParams::default().labels("nublado.lsst.io/category=prepuller");
    let are_gone = holds_within(POD_PATIENCE, async || {
        pods.list(&pulling)
            .await
            .is_ok_and(|pods| pods.items.is_empty())
    });
    let left = async || {
        let pods = pods.list(&pulling).await.expect("pods").items;
        pods.iter().map(ResourceExt::name_any).collect::<Vec<_>>()
    };
    assert!(are_gone.await, "{:?} are left", left().await);
}
