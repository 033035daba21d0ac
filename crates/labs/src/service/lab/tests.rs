//! The life of a lab's record: requests, ends of operations, and what watches show.

use super::*;
use crate::{
    options::{ImageChoice, LabOptions},
    quantity::{CpuCores, LabAmounts, LabResources, MemoryBytes},
    service::operation_request::OperationRequest,
    size::LabSize,
    user::LabUser,
};

fn pending() -> LabState {
    let amounts = LabAmounts {
        cpu: CpuCores::new(1.0).unwrap(),
        memory: MemoryBytes(1 << 30),
    };
    LabState {
        user: LabUser {
            username: "rachel".to_owned(),
            name: None,
            uid: 1101,
            gid: 1101,
            groups: Vec::new(),
            quota: None,
        },
        options: LabOptions {
            image: ImageChoice::Tag("w_2077_43".to_owned()),
            size: LabSize::Small,
            enable_debug: false,
            reset_user_env: false,
        },
        image: "example.org/lab:w_2077_43@sha256:1234".to_owned(),
        env: [].into(),
        status: LabStatus::Pending,
        has_pod: false,
        internal_url: None,
        resources: LabResources {
            limits: amounts,
            requests: amounts,
        },
        quota: None,
    }
}

fn spawn(record: &mut LabRecord, number: u64) -> Arc<Operation> {
    match record.begin_spawn(pending(), Some("key"), number) {
        Ok(SpawnStart::Started { operation, .. }) => operation,
        other => panic!("not started: {other:?}"),
    }
}

fn delete(record: &mut LabRecord, number: u64) -> Arc<Operation> {
    match record.begin_delete("rachel", false, number) {
        Ok(DeleteStart::Started { operation, .. }) => operation,
        other => panic!("not started: {other:?}"),
    }
}

fn status(record: &LabRecord) -> Option<LabStatus> {
    record.state.as_ref().map(|state| state.status)
}

const fn pod(status: LabStatus) -> Seen {
    Seen::Present {
        status,
        has_pod: true,
    }
}

/// A record whose lab runs.
fn running() -> LabRecord {
    let mut record = LabRecord::default();
    let operation = spawn(&mut record, 1);
    record.observe(pod(LabStatus::Pending));
    record.end(&operation, LabStatus::Running, true);
    operation.finish(Ok(()));
    record
}

#[test]
fn a_second_lab_is_refused_while_the_first_one_starts_and_while_it_runs() {
    let mut record = LabRecord::default();
    let operation = spawn(&mut record, 1);
    let second = record.begin_spawn(pending(), None, 2);
    assert!(matches!(second, Err(LabError::OperationInProgress(_))));
    record.end(&operation, LabStatus::Running, true);
    operation.finish(Ok(()));
    let second = record.begin_spawn(pending(), Some("other key"), 3);
    assert!(matches!(second, Err(LabError::LabExists(_))));
}

#[test]
fn a_request_that_comes_twice_starts_one_lab() {
    let mut record = LabRecord::default();
    let operation = spawn(&mut record, 1);
    let again = record.begin_spawn(pending(), Some("key"), 2);
    assert!(matches!(again, Ok(SpawnStart::Repeated)));
    record.end(&operation, LabStatus::Running, true);
    operation.finish(Ok(()));
    assert!(record.is_repeated(Some("key")));
    assert!(!record.is_repeated(None));
    delete(&mut record, 3);
    assert!(!record.is_repeated(Some("key")));
}

#[test]
fn a_dead_lab_is_replaced() {
    for dead in [LabStatus::Failed, LabStatus::Terminated] {
        let mut record = LabRecord::default();
        let operation = spawn(&mut record, 1);
        record.end(&operation, dead, false);
        operation.finish(Ok(()));
        assert!(record.dead_since.is_some());
        let Ok(SpawnStart::Started { is_replacement, .. }) =
            record.begin_spawn(pending(), Some("key"), 2)
        else {
            panic!("not replaced after {dead:?}");
        };
        assert!(is_replacement);
        assert_eq!(
            (status(&record), record.dead_since),
            (Some(LabStatus::Pending), None)
        );
    }
}

#[test]
fn a_deletion_cancels_the_spawn_and_its_end_is_ignored() {
    let mut record = LabRecord::default();
    let spawning = spawn(&mut record, 1);
    let deletion = delete(&mut record, 2);
    assert!(spawning.cancel.is_cancelled());
    record.end(&spawning, LabStatus::Failed, false);
    assert_eq!(status(&record), Some(LabStatus::Terminating));
    record.end_deleted(&deletion);
    deletion.finish(Ok(()));
    assert_eq!(status(&record), None);
}

#[test]
fn deletions_join_and_the_next_one_finds_nothing() {
    let mut record = running();
    let first = delete(&mut record, 2);
    let Ok(DeleteStart::Joined(second)) = record.begin_delete("rachel", true, 3) else {
        panic!("not joined");
    };
    assert!(Arc::ptr_eq(&first, &second));
    record.end_deleted(&first);
    first.finish(Ok(()));
    let next = record.begin_delete("rachel", false, 4);
    assert_eq!(next.err(), Some(LabError::unknown_user("rachel")));
}

#[test]
fn what_memory_does_not_know_and_the_cluster_has_is_deleted() {
    let mut record = LabRecord::default();
    let started = record.begin_delete("rachel", true, 1);
    assert!(matches!(started, Ok(DeleteStart::Started { .. })));
}

#[test]
fn a_lab_follows_its_pod_when_it_has_no_operation() {
    let mut record = running();
    record.observe(pod(LabStatus::Terminated));
    assert_eq!(status(&record), Some(LabStatus::Terminated));
    assert!(record.dead_since.is_some());
    record.observe(Seen::Gone);
    assert_eq!(status(&record), None);
    assert_eq!(record.dead_since, None);
}

#[test]
fn a_watch_that_is_behind_does_not_end_a_lab() {
    let mut record = LabRecord::default();
    let operation = spawn(&mut record, 1);
    record.end(&operation, LabStatus::Running, true);
    operation.finish(Ok(()));
    record.observe(Seen::Gone);
    assert_eq!(status(&record), Some(LabStatus::Running));
}

#[test]
fn the_end_of_an_earlier_namespace_does_not_end_the_lab_that_follows() {
    let mut record = LabRecord::default();
    let operation = spawn(&mut record, 1);
    // The dead lab that is replaced.
    record.observe(pod(LabStatus::Terminated));
    record.forget_namespace();
    record.end(&operation, LabStatus::Running, true);
    operation.finish(Ok(()));
    // The watch of namespaces is behind that of pods.
    record.observe(Seen::Gone);
    assert_eq!(status(&record), Some(LabStatus::Running));
    record.observe(pod(LabStatus::Running));
    record.observe(Seen::Gone);
    assert_eq!(status(&record), None);
}

#[tokio::test(start_paused = true)]
async fn what_is_left_over_has_no_operation_and_is_dead_for_a_while_or_no_lab_at_all() {
    let interval = Duration::from_secs(300);
    let mut record = LabRecord::default();
    assert!(record.is_left_over(true, interval));
    assert!(!record.is_left_over(false, interval));
    let operation = spawn(&mut record, 1);
    assert!(!record.is_left_over(true, interval));
    record.end(&operation, LabStatus::Terminated, true);
    operation.finish(Ok(()));
    assert!(!record.is_left_over(true, interval));
    tokio::time::advance(interval).await;
    assert!(record.is_left_over(true, interval));
    // The lab is replaced at this moment.
    let operation = spawn(&mut record, 2);
    assert!(!record.is_left_over(true, interval));
    record.end(&operation, LabStatus::Running, true);
    operation.finish(Ok(()));
    tokio::time::advance(interval).await;
    assert!(!record.is_left_over(true, interval));
}

#[test]
fn a_lab_that_failed_stays_failed_whatever_its_pod_does() {
    let mut record = LabRecord::default();
    let operation = spawn(&mut record, 1);
    record.end(&operation, LabStatus::Failed, true);
    operation.finish(Ok(()));
    record.observe(pod(LabStatus::Running));
    assert_eq!(status(&record), Some(LabStatus::Failed));
    record.observe(pod(LabStatus::Terminating));
    assert_eq!(status(&record), Some(LabStatus::Terminating));
}

#[test]
fn a_state_from_a_request_is_not_replaced_by_what_the_objects_say() {
    let mut record = running();
    let rebuilt = LabState {
        options: LabOptions {
            image: ImageChoice::List("reference".to_owned()),
            ..pending().options
        },
        ..pending()
    };
    record.rebuild(rebuilt.clone());
    let choice = |record: &LabRecord| record.state.as_ref().map(|lab| lab.options.image.clone());
    assert_eq!(
        choice(&record),
        Some(ImageChoice::Tag("w_2077_43".to_owned()))
    );
    let mut record = LabRecord::default();
    record.rebuild(rebuilt);
    assert_eq!(
        choice(&record),
        Some(ImageChoice::List("reference".to_owned()))
    );
}

#[test]
fn a_pending_lab_of_another_process_goes_on() {
    let mut record = LabRecord::default();
    assert!(record.resume_spawn(1).is_none());
    record.rebuild(pending());
    let operation = record.resume_spawn(2).expect("a spawn");
    assert!(record.resume_spawn(3).is_none());
    record.end(&operation, LabStatus::Running, true);
    operation.finish(Ok(()));
    assert_eq!(status(&record), Some(LabStatus::Running));
    assert!(record.resume_spawn(4).is_none());
}

#[test]
fn a_deletion_of_another_process_goes_on_while_the_pod_ends() {
    let mut record = LabRecord::default();
    assert!(!record.is_ending());
    record.rebuild(LabState {
        status: LabStatus::Terminating,
        ..pending()
    });
    // The namespace is not deleted yet, and the lab is not dead.
    assert!(record.is_ending());
    assert!(!record.is_left_over(true, Duration::ZERO));
    let deletion = delete(&mut record, 1);
    assert!(!record.is_ending());
    record.end(&deletion, LabStatus::Failed, false);
    deletion.finish(Ok(()));
    assert!(!record.is_ending());
    record.observe(pod(LabStatus::Terminating));
    assert!(record.is_ending());
}

#[test]
fn an_operation_that_another_process_takes_over_leaves_nothing_behind() {
    let mut record = LabRecord::default();
    let operation = spawn(&mut record, 1);
    record.abandon(&operation);
    assert_eq!(status(&record), None);
    assert!(record.operation.is_none());
}

fn shared(kind: OperationKind, number: u64) -> Arc<Operation> {
    Operation::shared(kind, number, OperationRequest::default())
}

#[test]
fn a_shared_deletion_cancels_the_spawn_whose_last_events_are_still_read() {
    let mut record = LabRecord::default();
    let spawn = shared(OperationKind::Spawn, 1);
    record.follow(spawn.clone(), Some(pending()));
    assert_eq!(status(&record), Some(LabStatus::Pending));
    let deletion = shared(OperationKind::Delete, 2);
    record.follow(deletion.clone(), None);
    assert!(spawn.cancel.is_cancelled() && spawn.is_running());
    assert_eq!(status(&record), Some(LabStatus::Terminating));
    let previous = record.previous.clone().expect("the spawn");
    assert!(Arc::ptr_eq(&previous, &spawn));
    let joined = record.check_delete("rachel", true).expect("a deletion");
    assert!(joined.is_some_and(|joined| Arc::ptr_eq(&joined, &deletion)));
    // A third operation: of the first one no more is heard.
    record.follow(shared(OperationKind::Spawn, 3), Some(pending()));
    assert!(!spawn.is_running());
}

#[test]
fn a_shared_spawn_without_a_plan_keeps_the_state_of_the_objects() {
    let mut record = LabRecord::default();
    record.rebuild(pending());
    assert!(record.is_unfinished());
    record.follow(shared(OperationKind::Spawn, 1), None);
    assert_eq!(status(&record), Some(LabStatus::Pending));
    assert!(!record.is_unfinished() && !record.is_requested());
}

#[test]
fn what_ended_before_it_was_known_changes_no_state_unless_it_failed() {
    for (has_failed, expected) in [(false, LabStatus::Running), (true, LabStatus::Failed)] {
        let mut record = LabRecord::default();
        record.rebuild(LabState {
            status: LabStatus::Running,
            ..pending()
        });
        let past = shared(OperationKind::Spawn, 1);
        past.finish(Ok(()));
        record.follow_past(past, Some("key".to_owned()), has_failed);
        assert_eq!(status(&record), Some(expected));
        assert_eq!(record.is_repeated(Some("key")), !has_failed);
    }
}

#[test]
fn while_the_store_is_away_a_pod_that_runs_is_seen() {
    let mut record = LabRecord::default();
    record.follow(shared(OperationKind::Spawn, 1), Some(pending()));
    for (seen, expected) in [
        (pod(LabStatus::Terminated), LabStatus::Pending),
        (Seen::Gone, LabStatus::Pending),
        (pod(LabStatus::Running), LabStatus::Running),
    ] {
        record.observe_unowned(seen);
        assert_eq!(status(&record), Some(expected), "{seen:?}");
    }
}

#[test]
fn the_end_of_the_namespace_that_a_shared_spawn_replaces_is_not_that_of_the_lab() {
    let mut record = LabRecord::default();
    let operation = shared(OperationKind::Spawn, 1);
    record.follow(operation.clone(), Some(pending()));
    // Another replica deletes the dead lab.
    record.observe(pod(LabStatus::Terminated));
    record.observe(Seen::Gone);
    record.end(&operation, LabStatus::Running, true);
    operation.finish(Ok(()));
    // The watch of namespaces is behind.
    record.observe(Seen::Gone);
    assert_eq!(status(&record), Some(LabStatus::Running));
}
