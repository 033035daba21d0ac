//! Two replicas share operations in a Redis: each one answers, one runs an operation, and the other
//! goes on with it when the first one is killed (docs/labs.md).

use std::time::Instant;

use ludgate_labs::{error::LabError, state::LabStatus};

use crate::support::{
    api_faults::Fault,
    lab_replicas::{LabReplicas, Listener, TAKEN_OVER},
    labs::{HUB_TOKEN, USER, caller, specification},
    until::{assert_soon, in_time},
};

const OBJECTS_MADE: &str = "Created Kubernetes objects";

#[tokio::test(flavor = "multi_thread")]
async fn the_owner_is_killed_while_the_pod_starts_and_the_other_replica_goes_on() {
    let mut pair = LabReplicas::start().await;
    assert_eq!(pair.doomed.create(None).await, Ok(()));
    let mut listener = Listener::start(&pair.labs.service).await;
    let before = listener.messages_until(Some(OBJECTS_MADE)).await;
    assert_eq!(pair.statuses().await, [Some(LabStatus::Pending); 2]);
    pair.doomed.kill();
    let killed = Instant::now();
    pair.labs.set_phase("Running").await;
    let after = listener.messages_until(None).await;
    assert_soon(TAKEN_OVER, killed.elapsed());
    let messages = [before, after].concat();
    assert_eq!(
        messages,
        [
            "Starting lab creation for rachel",
            "Created Kubernetes objects for user lab",
            "Lab Kubernetes pod started for rachel",
        ]
    );
    assert_eq!(pair.labs.status(), Some(LabStatus::Running));
    assert_eq!(pair.labs.faults.writes("pods/rachel-nb"), 1);
    assert_eq!(pair.labs.delete().await, Ok(()));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_owner_is_killed_before_the_pod_is_there_and_the_start_begins_again() {
    let mut pair = LabReplicas::start().await;
    let hangs = |object: &str, count| {
        let is_first = object == "pods/rachel-nb" && count == 0;
        is_first.then_some(Fault::HangBefore)
    };
    pair.labs.faults.plan(hangs);
    let mut hanging = pair.labs.faults.hanging();
    assert_eq!(pair.doomed.create(None).await, Ok(()));
    let mut listener = Listener::start(&pair.labs.service).await;
    let hung = in_time("a write", hanging.wait_for(|count| *count > 0)).await;
    hung.expect("a write");
    pair.doomed.kill();
    let before = listener.messages_until(Some(OBJECTS_MADE)).await;
    assert_eq!(before.len(), 2, "{before:?}");
    pair.labs.until_pod().await;
    pair.labs.set_phase("Running").await;
    let after = listener.messages_until(None).await;
    assert_eq!(after, ["Lab Kubernetes pod started for rachel"]);
    assert_eq!(pair.labs.status(), Some(LabStatus::Running));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_waits_for_the_lock_of_an_owner_that_was_killed() {
    let mut pair = LabReplicas::start().await;
    assert_eq!(pair.doomed.create(None).await, Ok(()));
    Listener::start(&pair.labs.service)
        .await
        .messages_until(Some(OBJECTS_MADE))
        .await;
    pair.doomed.kill();
    let asked = Instant::now();
    assert_eq!(pair.labs.delete().await, Ok(()));
    assert_soon(2 * TAKEN_OVER, asked.elapsed());
    assert_eq!(pair.labs.status(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_comes_again_to_the_other_replica_starts_no_second_lab() {
    let pair = LabReplicas::start().await;
    assert_eq!(pair.doomed.create(Some("first")).await, Ok(()));
    let again = async |key: Option<&'static str>| {
        let caller = caller(None);
        let service = &pair.labs.service;
        service.create(&caller, specification(), key).await
    };
    assert_eq!(again(Some("first")).await, Ok(()));
    let busy = LabError::OperationInProgress(USER.to_owned());
    assert_eq!(again(Some("second")).await, Err(busy.clone()));
    assert_eq!(again(None).await, Err(busy));
    pair.labs.until_pod().await;
    pair.labs.set_phase("Running").await;
    pair.until_statuses(Some(LabStatus::Running)).await;
    assert_eq!(again(Some("first")).await, Ok(()));
    let exists = LabError::LabExists(USER.to_owned());
    assert_eq!(again(Some("second")).await, Err(exists));
    assert_eq!(pair.labs.faults.writes("pods/rachel-nb"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn both_are_asked_at_once_and_one_lab_starts() {
    let pair = LabReplicas::start().await;
    let (one, other) = tokio::join!(pair.labs.create(), pair.doomed.create(None));
    assert!(one.is_ok() != other.is_ok(), "{one:?} {other:?}");
    let refused = one.err().or(other.err()).expect("one is refused");
    assert_eq!(refused.status(), 409);
    pair.labs.until_pod().await;
    pair.labs.set_phase("Running").await;
    pair.until_statuses(Some(LabStatus::Running)).await;
    assert_eq!(pair.labs.faults.writes("pods/rachel-nb"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_at_one_replica_ends_the_spawn_of_the_other() {
    let pair = LabReplicas::start().await;
    assert_eq!(pair.doomed.create(None).await, Ok(()));
    let mut spawn = Listener::start(&pair.labs.service).await;
    spawn.messages_until(Some(OBJECTS_MADE)).await;
    assert_eq!(pair.labs.delete().await, Ok(()));
    let last = spawn.messages_until(None).await.pop();
    assert_eq!(last.as_deref(), Some("Operation cancelled"));
    for service in [&pair.labs.service, &pair.doomed.service] {
        let mut deletion = Listener::start(service).await;
        let messages = deletion.messages_until(None).await;
        assert_eq!(
            messages,
            [
                "Deleting lab for rachel",
                "Shutting down Kubernetes pod",
                "Deleting user namespace",
                "Lab for rachel deleted",
            ]
        );
    }
    pair.until_statuses(None).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_store_holds_of_a_start_is_sealed_and_forgotten() {
    let pair = LabReplicas::start().await;
    assert_eq!(pair.doomed.create(Some("a secret key")).await, Ok(()));
    pair.labs.until_pod().await;
    let stored = async || {
        let mut text = String::new();
        for key in pair.redis.keys("ludgate:labs:").await {
            let kind: String = pair.redis.run(redis::cmd("TYPE").arg(&key)).await;
            let mut read = match kind.as_str() {
                "hash" => redis::cmd("HGETALL"),
                "list" => redis::cmd("LRANGE"),
                _ => continue,
            };
            read.arg(&key);
            if kind == "list" {
                read.arg(0).arg(-1);
            }
            let value: redis::Value = pair.redis.run(&read).await;
            text += &format!("{key} {value:?}\n");
        }
        text
    };
    let text = stored().await;
    assert!(text.contains("plan"), "{text}");
    for secret in [HUB_TOKEN, "token-of-rachel", "a secret key", "Starting"] {
        assert!(!text.contains(secret), "{secret} in {text}");
    }
    pair.labs.set_phase("Running").await;
    pair.until_statuses(Some(LabStatus::Running)).await;
    let keys = pair.redis.keys("ludgate:labs:").await;
    let operation = keys.iter().find(|key| key.ends_with(":operation"));
    let operation = operation.expect("an operation");
    let mut plan = redis::cmd("HGET");
    plan.arg(operation).arg("plan");
    assert_eq!(pair.redis.run::<String>(&plan).await, "");
}
