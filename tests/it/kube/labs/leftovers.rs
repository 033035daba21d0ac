//! Namespaces that are there before the lab.

use ludgate_labs::state::LabStatus;
use serde_json::json;

use crate::support::labs::{Labs, USER};

#[tokio::test(flavor = "multi_thread")]
async fn what_is_left_of_an_earlier_lab_is_replaced() {
    let labs = Labs::start().await;
    let left = labs
        .leave_namespace(json!({
            "nublado.lsst.io/category": "lab",
            "nublado.lsst.io/user": USER,
        }))
        .await;
    labs.run_lab().await;
    let found = labs.namespaces().get(&labs.lab_namespace()).await;
    assert_ne!(found.expect("a namespace").metadata.uid, Some(left));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_of_somebody_else_is_refused_and_stays() {
    let labs = Labs::start().await;
    for labels in [
        json!({}),
        json!({ "nublado.lsst.io/category": "lab", "nublado.lsst.io/user": "other" }),
    ] {
        let found = labs.leave_namespace(labels).await;
        labs.create().await.expect("created");
        let messages = labs.messages().await;
        let name = labs.lab_namespace();
        let refused = format!(
            "Error creating namespace (Namespace {name}, status 409): it exists and does not \
             belong to the lab controller"
        );
        assert_eq!(messages[1..], [refused, "Lab spawn failed".to_owned()]);
        assert_eq!(labs.status(), Some(LabStatus::Failed));
        assert_eq!(labs.delete().await, Ok(()));
        let namespace = labs.namespaces().get(&name).await.expect("a namespace");
        assert_eq!(namespace.metadata.uid, Some(found));
        labs.remove_namespace().await;
    }
}
