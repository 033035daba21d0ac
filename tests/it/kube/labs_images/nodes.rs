//! The catalogue follows the nodes.

use ludgate::labs::{
    images::{ImageCatalog, NodeAnswer},
    options::ImageChoice,
};
use serde_json::json;

use super::{registry::TagRegistry, rig::ImageRig};

/// The node of this name, as the API shows it.
fn node(catalog: &ImageCatalog, name: &str) -> Option<NodeAnswer> {
    let mut nodes = catalog.prepull_answer().nodes.into_iter();
    nodes.find(|node| node.name == name)
}

#[tokio::test(flavor = "multi_thread")]
async fn images_taints_and_the_end_of_a_node_are_seen() {
    let rig = ImageRig::start(&["w_2077_43"], "").await;
    let name = rig.node("a", json!([])).await;
    let digest = TagRegistry::digest("w_2077_43");
    assert!(!rig.images.catalog().spawner_images().all[0].prepulled);
    rig.report(&name, std::slice::from_ref(&digest)).await;
    rig.until(|catalog| catalog.spawner_images().all[0].prepulled)
        .await;
    let catalog = rig.images.catalog();
    let reference = format!("{}/library/lab:w_2077_43", rig.registry.address);
    let cached = node(&catalog, &name).expect("the node").cached;
    assert_eq!(cached, [reference]);
    assert_eq!(
        catalog.prepull_answer().images.prepulled[0].size,
        Some(1234)
    );

    rig.patch_node(&name, json!({ "spec": { "unschedulable": true } }))
        .await;
    rig.until(|catalog| node(catalog, &name).is_some_and(|node| !node.eligible))
        .await;
    rig.patch_node(&name, json!({ "spec": { "unschedulable": null } }))
        .await;
    rig.until(|catalog| node(catalog, &name).is_some_and(|node| node.eligible))
        .await;

    let deleted = rig.nodes();
    deleted
        .delete(&name, &Default::default())
        .await
        .expect("deleted");
    rig.until(|catalog| node(catalog, &name).is_none()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chosen_tag_is_looked_up_only_if_it_is_not_known() {
    let tags = &["w_2077_43", "w_2077_42", "w_2077_41"];
    let rig = ImageRig::start(tags, "  numWeeklies: 1").await;
    for tag in tags {
        let choice = ImageChoice::Tag((*tag).to_owned());
        let image = rig.images.resolve(&choice).await.expect("an image");
        assert_eq!(
            (image.tag.tag.as_str(), image.digest),
            (*tag, TagRegistry::digest(tag))
        );
    }
    let unknown = ImageChoice::Tag("w_2077_40".to_owned());
    let error = rig.images.resolve(&unknown).await.unwrap_err();
    assert_eq!((error.status(), error.kind()), (400, "unknown_image"));
}
