//! What the cluster shows, and the phase that an app gets for it.

use serde_json::{Value, json};

use super::*;
use crate::application::samples::app;

fn deployment(counts: [i32; 3], generations: (i64, i64)) -> Deployment {
    let [replicas, updated, ready] = counts;
    serde_json::from_value(json!({
        "metadata": { "generation": generations.0 },
        "spec": { "replicas": 1, "selector": {}, "template": {} },
        "status": {
            "observedGeneration": generations.1, "replicas": replicas,
            "updatedReplicas": updated, "readyReplicas": ready,
        },
    }))
    .expect("a Deployment")
}

/// A pod of a ReplicaSet, with a status.
fn pod_with(replica_set: &str, status: Value) -> Pod {
    serde_json::from_value(json!({
        "metadata": { "ownerReferences": [{ "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "x", "uid": replica_set }] },
        "status": status,
    }))
    .expect("a pod")
}

/// A container that has failed before, with its state now.
fn container(state: Value) -> Value {
    json!({
        "name": "app", "image": "", "imageID": "", "ready": false, "restartCount": 0, "state": state,
        "lastState": { "terminated": { "exitCode": 3, "message": "the end of the log" } },
    })
}

/// A pod of a ReplicaSet, with the state of its container.
fn pod(replica_set: &str, state: Value) -> Pod {
    pod_with(
        replica_set,
        json!({ "containerStatuses": [container(state)] }),
    )
}

fn check(
    app: &Application,
    rejection: Option<&str>,
    observed: Observed<'_>,
    wanted: (Phase, &str),
) {
    let phase = phase(app, rejection, observed);
    assert_eq!((phase.phase, phase.message.as_str()), wanted);
}

#[test]
fn the_phase_follows_the_rollout() {
    let app = app(json!({}));
    for (counts, generations, is_applied, wanted) in [
        (
            [1, 1, 1],
            (1, 1),
            true,
            (Phase::Ready, "Deployment is ready"),
        ),
        (
            [1, 1, 1],
            (2, 1),
            true,
            (Phase::Updating, "Deployment is updating"),
        ),
        (
            [1, 1, 1],
            (1, 1),
            false,
            (Phase::Updating, "Deployment is updating"),
        ),
        (
            [2, 1, 1],
            (1, 1),
            true,
            (Phase::Updating, "Deployment is updating"),
        ),
        (
            [1, 0, 1],
            (1, 1),
            true,
            (Phase::Updating, "Deployment is updating"),
        ),
        (
            [1, 1, 0],
            (1, 1),
            true,
            (Phase::Starting, "Deployment is starting"),
        ),
        (
            [0, 0, 0],
            (1, 1),
            true,
            (Phase::Starting, "Deployment is starting"),
        ),
    ] {
        let deployment = deployment(counts, generations);
        let observed = Observed {
            deployment: Some(&deployment),
            is_applied,
            ..Observed::default()
        };
        check(&app, None, observed, wanted);
    }
    check(
        &app,
        None,
        Observed::default(),
        (Phase::Starting, "Deployment is starting"),
    );
    check(
        &app,
        Some("no room"),
        Observed::default(),
        (Phase::Error, "no room"),
    );
}

#[test]
fn an_app_is_stopped_when_its_last_pod_is_gone() {
    let app = app(json!({ "stop": true }));
    let ending = pod("current", json!({ "running": {} }));
    let pods = [&ending];
    let observed = Observed {
        pods: &pods,
        ..Observed::default()
    };
    check(
        &app,
        None,
        observed,
        (Phase::Stopping, "Deployment is stopping"),
    );
    check(
        &app,
        None,
        Observed::default(),
        (Phase::Stopped, "Deployment had stopped"),
    );
    let up = deployment([0, 0, 0], (1, 1));
    let not_scaled = Observed {
        deployment: Some(&up),
        ..Observed::default()
    };
    let stopping = (Phase::Stopping, "Deployment is stopping");
    check(&app, None, not_scaled, stopping);
}

#[test]
fn only_pods_of_the_current_revision_count() {
    let app = app(json!({}));
    let deployment = deployment([1, 1, 0], (1, 1));
    let waiting = |reason: &str, message: &str| {
        pod(
            "current",
            json!({ "waiting": { "reason": reason, "message": message } }),
        )
    };
    let old = pod(
        "old",
        json!({ "waiting": { "reason": "ErrImagePull", "message": "old" } }),
    );
    let mut gone = waiting("ErrImagePull", "gone");
    gone.metadata.deletion_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(
        k8s_openapi::jiff::Timestamp::UNIX_EPOCH,
    ));
    for (pod, wanted) in [
        (old, (Phase::Starting, "Deployment is starting")),
        (gone, (Phase::Starting, "Deployment is starting")),
        (
            waiting("ErrImagePull", "no image a:1"),
            (Phase::Error, "ErrImagePull: no image a:1"),
        ),
        (
            waiting("CrashLoopBackOff", "back-off 10s"),
            (Phase::Error, "CrashLoopBackOff: the end of the log"),
        ),
        (
            pod(
                "current",
                json!({ "terminated": { "exitCode": 1, "reason": "Error", "message": "failed" } }),
            ),
            (Phase::Error, "Error: failed"),
        ),
        (
            pod(
                "current",
                json!({ "waiting": { "reason": "ContainerCreating" } }),
            ),
            (Phase::Starting, "Deployment is starting"),
        ),
    ] {
        let pods = [&pod];
        let observed = Observed {
            deployment: Some(&deployment),
            is_applied: true,
            pods: &pods,
            replica_set: Some("current"),
        };
        check(&app, None, observed, wanted);
    }
}

#[test]
fn the_failures_that_kubernetes_reports_of_a_pod_are_the_message() {
    let app = app(json!({}));
    let deployment = deployment([1, 1, 0], (1, 1));
    let initializing = || container(json!({ "waiting": { "reason": "PodInitializing" } }));
    for (status, wanted) in [
        (
            json!({ "initContainerStatuses": [container(json!({ "waiting": {
                "reason": "ErrImagePull", "message": "no image ludgate:1",
            } }))] }),
            (Phase::Error, "ErrImagePull: no image ludgate:1"),
        ),
        (
            json!({
                "initContainerStatuses": [container(json!({ "terminated": {
                    "reason": "Completed", "exitCode": 0, "message": "done",
                } }))],
                "containerStatuses": [initializing()],
            }),
            (Phase::Starting, "Deployment is starting"),
        ),
        (
            json!({
                "initContainerStatuses": [container(json!({ "terminated": {
                    "reason": "Error", "exitCode": 1, "message": "cannot prepare the folder",
                } }))],
                "containerStatuses": [initializing()],
            }),
            (Phase::Error, "Error: cannot prepare the folder"),
        ),
        (
            json!({ "containerStatuses": [container(json!({ "terminated": {
                "reason": "OOMKilled", "exitCode": 137,
            } }))] }),
            (Phase::Error, "OOMKilled: exit code 137"),
        ),
        (
            json!({ "conditions": [
                { "type": "Initialized", "status": "True" },
                {
                    "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
                    "message": "0/1 nodes are available: 1 Insufficient cpu.",
                },
            ] }),
            (
                Phase::Error,
                "Unschedulable: 0/1 nodes are available: 1 Insufficient cpu.",
            ),
        ),
    ] {
        let pod = pod_with("current", status);
        let pods = [&pod];
        let observed = Observed {
            deployment: Some(&deployment),
            is_applied: true,
            pods: &pods,
            replica_set: Some("current"),
        };
        check(&app, None, observed, wanted);
    }
}

#[test]
fn a_deployment_that_cannot_make_pods_says_why() {
    let app = app(json!({}));
    let starting = (Phase::Starting, "Deployment is starting");
    for (status, is_applied, wanted) in [
        ("True", true, (Phase::Error, "FailedCreate: exceeded quota")),
        ("False", true, starting),
        // It is about an earlier spec.
        ("True", false, starting),
    ] {
        let mut deployment = deployment([0, 0, 0], (1, 1));
        let condition = json!({
            "type": "ReplicaFailure", "status": status,
            "reason": "FailedCreate", "message": "exceeded quota",
        });
        let condition = serde_json::from_value(condition).expect("a condition");
        let counts = deployment.status.as_mut().expect("a status");
        counts.conditions = Some(vec![condition]);
        let observed = Observed {
            deployment: Some(&deployment),
            is_applied,
            ..Observed::default()
        };
        check(&app, None, observed, wanted);
    }
}

#[test]
fn a_failing_pod_is_an_error_though_the_earlier_one_is_ready() {
    let app = app(json!({}));
    let deployment = deployment([2, 1, 1], (1, 1));
    let earlier = pod("old", json!({ "running": {} }));
    let failure = json!({ "reason": "ImagePullBackOff", "message": "no image a:2" });
    for (waiting, wanted) in [
        (failure, (Phase::Error, "ImagePullBackOff: no image a:2")),
        (
            json!({ "reason": "ContainerCreating" }),
            (Phase::Updating, "Deployment is updating"),
        ),
    ] {
        let current = pod("current", json!({ "waiting": waiting }));
        let pods = [&earlier, &current];
        let observed = Observed {
            deployment: Some(&deployment),
            is_applied: true,
            pods: &pods,
            replica_set: Some("current"),
        };
        check(&app, None, observed, wanted);
    }
}

#[test]
fn dropped_containers_are_a_condition_as_long_as_there_are_any() {
    let phase = PhaseMessage::new(Phase::Ready, "Deployment is ready");
    let spec = |generation, dropped: &[&str]| ObservedSpec {
        generation,
        dropped_containers: dropped.iter().map(|&name| name.to_owned()).collect(),
        ..ObservedSpec::default()
    };
    let dropping = spec(1, &["initContainers[b]", "containers[c]"]);
    let first = phase.to_status(&dropping, &PhApplicationStatus::default(), "first");
    assert_eq!(first.phase.as_deref(), Some("Ready"));
    let [ready, dropped] = &first.conditions[..] else {
        panic!("{:?}", first.conditions)
    };
    assert_eq!(
        (ready.kind.as_str(), ready.status.as_str()),
        ("Ready", "True")
    );
    assert_eq!(
        (dropped.kind.as_str(), dropped.status.as_str()),
        ("ContainersDropped", "True")
    );
    assert_eq!(
        dropped.message,
        "not started: initContainers[b], containers[c]"
    );
    assert_eq!(
        phase.to_status(&dropping, &first, "second"),
        first,
        "the times stay"
    );
    let none = phase.to_status(&spec(2, &[]), &first, "third");
    let kinds: Vec<&str> = none.conditions.iter().map(|it| it.kind.as_str()).collect();
    assert_eq!(kinds, ["Ready"]);
}
