//! Another process goes on with the labs of the first one.

use ludgate_labs::state::LabStatus;
use serde_json::json;

use crate::support::{
    api_faults::Fault,
    changes::{Changes, POD_PATIENCE},
    labs::{Labs, USER, pod_name},
    until::{holds_within, in_time},
};

#[tokio::test(flavor = "multi_thread")]
async fn a_lab_that_starts_goes_on_in_the_next_process() {
    let labs = Labs::start().await;
    labs.create().await.expect("created");
    labs.until_pod().await;
    let labs = labs.restart().await;
    assert_eq!(labs.status(), Some(LabStatus::Pending));
    labs.pod_event("rachel-nb-1", "Pulling the image").await;
    labs.set_phase("Running").await;
    let messages = labs.messages().await;
    assert_eq!(
        messages.first().map(String::as_str),
        Some("Starting lab creation for rachel")
    );
    let last = messages.last().map(String::as_str);
    assert_eq!(last, Some("Lab Kubernetes pod started for rachel"));
    assert_eq!(labs.status(), Some(LabStatus::Running));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_is_killed_while_a_pod_starts_is_followed_by_another() {
    let labs = Labs::start().await;
    labs.create().await.expect("created");
    labs.until_pod().await;
    let labs = labs.kill().await;
    labs.set_phase("Running").await;
    let last = labs.messages().await.pop().unwrap_or_default();
    assert_eq!(last, "Lab Kubernetes pod started for rachel");
    assert_eq!(labs.status(), Some(LabStatus::Running));
    assert_eq!(labs.faults.writes("pods/rachel-nb"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_is_killed_before_the_pod_is_there_leaves_nothing() {
    let labs = Labs::start().await;
    let hangs = |object: &str, _| (object == "pods/rachel-nb").then_some(Fault::HangBefore);
    labs.faults.plan(hangs);
    let mut hanging = labs.faults.hanging();
    labs.create().await.expect("created");
    let hung = in_time("a write", hanging.wait_for(|count| *count > 0)).await;
    hung.expect("a write");
    let labs = labs.kill().await;
    let is_gone = holds_within(POD_PATIENCE, async || {
        let found = labs.namespaces().get_opt(&labs.lab_namespace()).await;
        found.is_ok_and(|namespace| namespace.is_none())
    });
    assert!(is_gone.await, "it is still there");
    labs.until_status(None).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lab_that_runs_is_known_to_the_next_process() {
    let labs = Labs::start().await;
    labs.run_lab().await;
    let before = labs.service.get(USER).expect("a lab");
    let labs = labs.restart().await;
    let after = labs.service.get(USER).expect("a lab");
    assert_eq!(after.status, LabStatus::Running);
    assert_eq!(after.image, before.image);
    assert_eq!(after.user, before.user);
    assert_eq!(after.resources, before.resources);
    assert_eq!(after.internal_url, before.internal_url);
    assert_eq!(
        labs.messages().await,
        ["Lab Kubernetes pod started for rachel"]
    );
    assert_eq!(labs.delete().await, Ok(()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_goes_on_in_the_next_process_while_the_pod_ends() {
    let labs = Labs::start().await;
    labs.run_lab().await;
    labs.hold_pod(true).await;
    drop(labs.service.delete(USER).await.expect("started"));
    let mut pods = Changes::named(labs.pods(), &pod_name());
    pods.until(|pod| pod.metadata.deletion_timestamp.is_some())
        .await;
    let labs = labs.restart().await;
    let is_deleted = labs.is_namespace_deleted().await;
    labs.hold_pod(false).await;
    assert!(is_deleted, "the namespace is not deleted");
    labs.until_status(None).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_become_a_lab_is_deleted_by_the_next_process() {
    let labs = Labs::start().await;
    labs.leave_namespace(json!({
        "nublado.lsst.io/category": "lab",
        "nublado.lsst.io/user": USER,
    }))
    .await;
    let labs = labs.restart().await;
    let is_gone = holds_within(POD_PATIENCE, async || {
        let found = labs.namespaces().get_opt(&labs.lab_namespace()).await;
        found.is_ok_and(|namespace| namespace.is_none())
    });
    assert!(is_gone.await, "it is still there");
    assert_eq!(labs.status(), None);
}
