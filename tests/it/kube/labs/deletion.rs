//! A lab is deleted: while it runs, while it starts, and by several at once.

use futures_util::{StreamExt, future::join_all};
use ludgate_labs::{error::LabError, state::LabStatus};

use crate::support::{
    labs::{Labs, USER},
    until::in_time,
};

async fn assert_gone(labs: &Labs) {
    assert_eq!(
        labs.service.get(USER).err(),
        Some(LabError::unknown_user(USER))
    );
    let found = labs.namespaces().get_opt(&labs.lab_namespace()).await;
    assert!(found.expect("an answer").is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn deletions_at_the_same_time_end_together_and_the_next_finds_nothing() {
    let labs = Labs::start().await;
    labs.run_lab().await;
    let all = join_all((0..5).map(|_| labs.delete())).await;
    assert_eq!(all, vec![Ok(()); 5]);
    assert_gone(&labs).await;
    assert_eq!(labs.delete().await, Err(LabError::unknown_user(USER)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_tells_its_steps() {
    let labs = Labs::start().await;
    labs.run_lab().await;
    let deletion = labs.service.delete(USER).await.expect("started");
    assert_eq!(labs.status(), Some(LabStatus::Terminating));
    // It needs no request that waits.
    drop(deletion);
    assert_eq!(
        labs.messages().await,
        [
            "Deleting lab for rachel",
            "Shutting down Kubernetes pod",
            "Deleting user namespace",
            "Lab for rachel deleted",
        ]
    );
    labs.until_status(None).await;
    assert_gone(&labs).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_ends_a_spawn_and_leaves_nothing() {
    let labs = Labs::start().await;
    labs.create().await.expect("created");
    let events = labs.service.events(USER, None).expect("events");
    labs.until_pod().await;
    assert_eq!(labs.delete().await, Ok(()));
    let messages: Vec<String> = events.map(|(_, event)| event.message).collect().await;
    let last = messages.last().map(String::as_str);
    assert_eq!(last, Some("Operation cancelled"));
    assert_gone(&labs).await;
    labs.run_lab().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_at_any_time_of_a_spawn_leaves_nothing() {
    let labs = Labs::start().await;
    for write in [
        "namespaces",
        "configmaps/rachel-nb-env",
        "secrets/rachel-nb",
        "services/lab",
        "pods/rachel-nb",
    ] {
        let (seen, mut is_seen) = tokio::sync::watch::channel(false);
        labs.faults.plan(move |object, _| {
            if object == write {
                seen.send_replace(true);
            }
            None
        });
        labs.create().await.expect("created");
        let seen = in_time("a write", is_seen.wait_for(|seen| *seen)).await;
        seen.expect("a write");
        assert_eq!(labs.delete().await, Ok(()), "{write}");
        assert_gone(&labs).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_namespace_is_deleted_although_the_pod_does_not_end() {
    let labs = Labs::start().await;
    labs.run_lab().await;
    labs.hold_pod(true).await;
    let deletion = labs.service.delete(USER).await.expect("started");
    let is_deleted = labs.is_namespace_deleted().await;
    labs.hold_pod(false).await;
    assert!(is_deleted, "the namespace is not deleted");
    assert_eq!(deletion.await, Ok(()));
    assert_gone(&labs).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_that_somebody_else_deletes_ends_the_lab() {
    let labs = Labs::start().await;
    labs.run_lab().await;
    let namespaces = labs.namespaces();
    let deleted = namespaces
        .delete(&labs.lab_namespace(), &Default::default())
        .await;
    deleted.expect("deleted");
    labs.until_status(None).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lab_that_is_dead_for_a_while_is_deleted() {
    let labs = Labs::deleting_dead(1).await;
    labs.run_lab().await;
    labs.set_phase("Succeeded").await;
    labs.until_status(None).await;
    labs.run_lab().await;
}
