//! The steps of the sequences that installations go through.

use k8s_openapi::jiff::Timestamp;
use ludgate_cluster::crd::{
    definition::{ApplicationDefinition, INTERVAL_ANNOTATION},
    installation::{ABANDON_ANNOTATION, ApplicationInstallation, CLEANUP_FINALIZER},
    installation_status::InstallationOperation,
};
use serde_json::{Value, json};

use super::*;
use crate::{
    applied_digest::AppliedDigest,
    deploy_options::EffectiveOptions,
    merge_patch,
    release::{Release, ReleaseStatus},
    samples,
    stuck::{OperationKind, OperationState, StuckAction},
    withdrawal::Withdrawal,
};

const NOW: &str = "2026-01-01T12:00:00Z";
const LATER: &str = "2026-01-01T12:05:00Z";

fn at(text: &str) -> Timestamp {
    text.parse().expect("a time")
}

/// A world with one installation, which has its finalizer.
struct World {
    installation: Value,
    definition: Option<ApplicationDefinition>,
    target: TargetState,
    namespace: NamespaceState,
    history: Option<Vec<Release>>,
    own: Option<OperationKind>,
    recorded: Option<InstallationOperation>,
    downloaded: Option<Downloaded>,
    retry: RetryTimes,
    is_interval_due: bool,
}

impl World {
    fn new() -> World {
        let installation = samples::installation(json!({
            "metadata": { "finalizers": [CLEANUP_FINALIZER] },
        }));
        World {
            installation: serde_json::to_value(installation).expect("JSON"),
            definition: Some(samples::definition(json!({}))),
            target: TargetState::Ready,
            namespace: NamespaceState {
                exists: true,
                is_prepared: true,
                ..NamespaceState::default()
            },
            history: Some(Vec::new()),
            own: None,
            recorded: None,
            downloaded: None,
            retry: RetryTimes::default(),
            is_interval_due: false,
        }
    }

    /// A world in which the app is installed.
    fn installed() -> World {
        let mut world = World::new();
        let version = samples::version("1.0.0");
        world.patch(json!({ "status": {
            "conditions": {
                "Accepted": { "status": "True", "observedGeneration": 1 },
                "Ready": { "status": "True", "observedGeneration": 1 },
            },
            "applicationVersion": version,
            "helmRelease": { "name": "apps-app-1", "version": 1 },
            "appliedDigest": digest().to_string(),
        } }));
        world.history = Some(vec![samples::release(1, ReleaseStatus::Deployed)]);
        world
    }

    /// The same, and the installation is being deleted.
    fn deleted() -> World {
        let mut world = World::installed();
        world.patch(json!({ "metadata": { "deletionTimestamp": NOW } }));
        world
    }

    fn patch(&mut self, patch: Value) {
        merge_patch::apply(&mut self.installation, &patch);
    }

    fn failed(&mut self, failures: i64) {
        self.patch(json!({ "status": {
            "failures": failures, "conditions": { "Ready": { "status": "False" } },
        } }));
    }

    fn step(&self) -> Step {
        let installation: ApplicationInstallation =
            serde_json::from_value(self.installation.clone()).expect("an object");
        next_step(&ObservedInstallation {
            installation: &installation,
            definition: self.definition.as_ref(),
            target: self.target,
            namespace: self.namespace,
            history: self.history.as_deref(),
            operation: OperationState {
                own: self.own,
                recorded: self.recorded.as_ref(),
                was_taken_over: false,
            },
            downloaded: self.downloaded.as_ref(),
            retry: self.retry,
            is_interval_due: self.is_interval_due,
            now: at(NOW),
        })
    }
}

fn inputs() -> InputDigest {
    let options = EffectiveOptions::default();
    InputDigest::new(&samples::version("1.0.0"), &samples::no_values(), options)
}

fn digest() -> AppliedDigest {
    inputs().with_chart("sha256:c")
}

fn downloaded(chart: &str) -> Option<Downloaded> {
    Some(Downloaded {
        inputs: inputs(),
        chart: chart.to_owned(),
    })
}

fn wait(until: &str) -> Step {
    Step::Wait(Some(at(until)))
}

#[test]
fn a_new_installation_is_protected_downloaded_and_upgraded() {
    let mut world = World::new();
    world.patch(json!({ "metadata": { "finalizers": null } }));
    assert_eq!(world.step(), Step::AddFinalizer);
    world.patch(json!({ "metadata": { "finalizers": [CLEANUP_FINALIZER] } }));
    world.namespace = NamespaceState::default();
    assert_eq!(world.step(), Step::Download(inputs()));
    world.downloaded = downloaded("sha256:c");
    assert_eq!(world.step(), Step::PrepareNamespace);
    world.namespace.exists = true;
    assert_eq!(world.step(), Step::PrepareNamespace);
    world.namespace.is_prepared = true;
    assert_eq!(world.step(), Step::Upgrade(digest()));
    world.own = Some(OperationKind::Apply);
    assert_eq!(world.step(), Step::Wait(None));
    world = World::installed();
    world.downloaded = downloaded("sha256:c");
    assert_eq!(world.step(), Step::Nothing);
    world.downloaded = None;
    assert_eq!(world.step(), Step::Nothing);
}

#[test]
fn a_namespace_is_created_only_if_the_installation_asks_for_it() {
    let mut world = World::new();
    world.downloaded = downloaded("sha256:c");
    world.namespace = NamespaceState::default();
    world.patch(json!({ "spec": { "namespace": { "create": false } } }));
    assert_eq!(world.step(), Step::Upgrade(digest()));
    world.namespace.is_terminating = true;
    assert_eq!(world.step(), Step::Wait(None));
}

#[test]
fn paused_targets_and_targets_without_nodes_are_left_alone() {
    let mut world = World::new();
    world.target = TargetState::NoNodes;
    assert_eq!(world.step(), wait("2026-01-01T12:00:10Z"));
    world.target = TargetState::Paused;
    assert_eq!(world.step(), Step::Hold(Hold::Paused));
    let mut world = World::deleted();
    world.target = TargetState::NoNodes;
    assert_eq!(world.step(), Step::Uninstall);
}

#[test]
fn changes_are_downloaded_and_only_another_result_is_applied() {
    let changes: [fn(&mut World); 4] = [
        |world| world.patch(json!({ "spec": { "valuesBlock": "a: 1" } })),
        |world| world.patch(json!({ "metadata": { "generation": 2 } })),
        |world| world.is_interval_due = true,
        |world| world.history = Some(vec![samples::release(2, ReleaseStatus::Failed)]),
    ];
    for (at, change) in changes.into_iter().enumerate() {
        let mut world = World::installed();
        change(&mut world);
        assert!(matches!(world.step(), Step::Download(_)), "change {at}");
    }
    let options = json!({ "spec": { "defaultDeployOptions": { "helm": { "wait": true } } } });
    let mut world = World::installed();
    world.definition = Some(samples::definition(options));
    assert!(matches!(world.step(), Step::Download(_)));

    // The same chart and values again, under a new generation.
    let mut world = World::installed();
    world.patch(json!({ "metadata": { "generation": 2 } }));
    world.downloaded = downloaded("sha256:c");
    assert_eq!(world.step(), Step::RecordApplied(digest()));
    world.downloaded = downloaded("sha256:d");
    assert_eq!(world.step(), Step::Upgrade(inputs().with_chart("sha256:d")));
    // An interval repairs what others changed.
    let mut world = World::installed();
    world.is_interval_due = true;
    world.downloaded = downloaded("sha256:c");
    assert_eq!(world.step(), Step::Upgrade(digest()));
    // A chart of an earlier version is of no use.
    let mut world = World::installed();
    world.downloaded = downloaded("sha256:d");
    world.patch(json!({ "spec": { "valuesBlock": "a: 1" } }));
    assert!(matches!(world.step(), Step::Download(_)));
}

#[test]
fn a_failed_release_of_unchanged_inputs_is_applied_again() {
    let mut world = World::installed();
    world.history = Some(vec![samples::release(1, ReleaseStatus::Failed)]);
    world.downloaded = downloaded("sha256:c");
    assert_eq!(world.step(), Step::Upgrade(digest()));
}

#[test]
fn failures_wait_for_their_pause_and_changes_do_not() {
    let mut world = World::installed();
    world.failed(6);
    world.history = Some(vec![samples::release(2, ReleaseStatus::Failed)]);
    world.retry.apply = Some(at(LATER));
    assert_eq!(world.step(), wait(LATER));
    world.retry.apply = Some(at(NOW));
    assert_eq!(world.step(), Step::Download(inputs()));
    world.retry.apply = Some(at(LATER));
    world.patch(json!({ "metadata": { "generation": 2 } }));
    assert_eq!(world.step(), Step::Download(inputs()));
}

#[test]
fn a_wrong_count_of_a_deployed_release_is_reset() {
    let mut world = World::installed();
    world.patch(json!({
        "spec": { "deployOptions": { "helm": { "atomic": true, "wait": true, "timeout": "5m" } } },
        "status": { "failures": 6 },
    }));
    assert_eq!(world.step(), Step::ResetFailures);
    world.patch(json!({ "metadata": { "generation": 2 } }));
    world.retry.apply = Some(at(LATER));
    assert!(
        matches!(world.step(), Step::Download(_)),
        "a change is tried at once"
    );
}

#[test]
fn a_stuck_release_is_repaired_before_the_pause_of_failures() {
    let mut world = World::installed();
    world.failed(6);
    world.retry.apply = Some(at(LATER));
    world.history = Some(vec![
        samples::release(1, ReleaseStatus::Deployed),
        samples::release(2, ReleaseStatus::PendingUpgrade),
    ]);
    assert_eq!(world.step(), Step::Repair(StuckAction::Rollback(1)));
    world.retry.repair = Some(at(LATER));
    assert_eq!(world.step(), wait(LATER));
    world.retry.repair = None;
    world.recorded = Some(InstallationOperation {
        id: "o".into(),
        since: "2026-01-01T11:59:30Z".into(),
    });
    // Another replica's operation without a timeout has a minute.
    assert_eq!(world.step(), wait("2026-01-01T12:00:30Z"));
    world.recorded = None;
    world.namespace = NamespaceState::default();
    assert_eq!(
        world.step(),
        wait(LATER),
        "without a namespace nothing is stuck"
    );
    world.history = None;
    assert_eq!(
        world.step(),
        Step::Wait(None),
        "an unread history changes nothing"
    );

    let mut world = World::installed();
    world.history = Some(vec![samples::release(2, ReleaseStatus::PendingUpgrade)]);
    assert!(
        matches!(world.step(), Step::Download(_)),
        "ready without failures"
    );
    world.history = Some(vec![samples::release(2, ReleaseStatus::Uninstalling)]);
    assert_eq!(world.step(), Step::Repair(StuckAction::UninstallAgain));
}

#[test]
fn a_release_of_another_installation_is_not_touched() {
    let mut world = World::new();
    let foreign = Release {
        owner: Some("2".into()),
        ..samples::release(1, ReleaseStatus::PendingInstall)
    };
    world.history = Some(vec![foreign]);
    let Step::Hold(Hold::NameTaken(taken)) = world.step() else {
        panic!("{:?}", world.step())
    };
    assert_eq!(taken.release, "apps-app-1");
    world.patch(json!({ "metadata": { "deletionTimestamp": NOW } }));
    assert_eq!(world.step(), Step::RemoveFinalizer);
}

#[test]
fn a_withdrawn_version_keeps_running_unless_its_definition_says_otherwise() {
    let gone = |spec: Value| Some(samples::definition(json!({ "spec": spec })));
    let other = [samples::version("2.0.0")];
    let removed = Withdrawal::VersionRemoved;
    let deleting = samples::definition(json!({
        "metadata": { "deletionTimestamp": NOW }, "spec": { "onVersionRemoved": "uninstall" },
    }));
    for (definition, new, installed) in [
        (
            None,
            Step::Hold(Hold::NotFound(Withdrawal::DefinitionRemoved)),
            Step::Hold(Hold::Withdrawn(Withdrawal::DefinitionRemoved)),
        ),
        (
            gone(json!({ "versions": other })),
            Step::Hold(Hold::NotFound(removed)),
            Step::Hold(Hold::Withdrawn(removed)),
        ),
        (
            gone(json!({ "versions": other, "onVersionRemoved": "uninstall" })),
            Step::Hold(Hold::NotFound(removed)),
            Step::DeleteInstallation(removed),
        ),
        (
            Some(deleting),
            Step::Hold(Hold::NotFound(Withdrawal::DefinitionDeleting)),
            Step::DeleteInstallation(Withdrawal::DefinitionDeleting),
        ),
    ] {
        let mut world = World::new();
        world.definition = definition.clone();
        assert_eq!(world.step(), new);
        let mut world = World::installed();
        world.definition = definition;
        assert_eq!(world.step(), installed);
    }
}

#[test]
fn the_interval_of_the_definition_is_written_and_invalid_objects_wait() {
    let mut world = World::new();
    let annotations = json!({ "metadata": { "annotations": { INTERVAL_ANNOTATION: "10m" } } });
    world.definition = Some(samples::definition(annotations));
    assert_eq!(world.step(), Step::SetInterval("10m".into()));
    world.patch(json!({ "spec": { "valuesBlock": "[" } }));
    assert!(matches!(world.step(), Step::Hold(Hold::Invalid(_))));
}

#[test]
fn a_deleted_installation_is_uninstalled_and_then_let_go() {
    let mut world = World::deleted();
    assert_eq!(world.step(), Step::Uninstall);
    world.own = Some(OperationKind::Uninstall);
    assert_eq!(world.step(), Step::Wait(None));
    world.own = None;
    world.retry.uninstall = Some(at(LATER));
    assert_eq!(
        world.step(),
        wait(LATER),
        "the object stays while the uninstall fails"
    );
    // The pause of failed upgrades is no matter for a deletion.
    world.retry = RetryTimes {
        apply: Some(at(LATER)),
        ..RetryTimes::default()
    };
    assert_eq!(world.step(), Step::Uninstall);
    world.history = None;
    assert_eq!(world.step(), Step::Wait(None));
    for history in [
        vec![],
        vec![samples::release(1, ReleaseStatus::Uninstalled)],
    ] {
        world.history = Some(history);
        assert_eq!(world.step(), Step::RemoveFinalizer);
    }
    world.patch(json!({ "metadata": { "finalizers": ["other"] } }));
    assert_eq!(world.step(), Step::Nothing);
}

#[test]
fn a_deletion_cancels_the_running_operation_first() {
    for kind in [OperationKind::Apply, OperationKind::Repair] {
        let mut world = World::deleted();
        world.own = Some(kind);
        assert_eq!(world.step(), Step::Cancel);
    }
    let mut world = World::deleted();
    world.history = Some(vec![samples::release(1, ReleaseStatus::PendingInstall)]);
    assert_eq!(world.step(), Step::Uninstall);
    world.recorded = Some(InstallationOperation {
        id: "o".into(),
        since: NOW.into(),
    });
    assert_eq!(world.step(), wait("2026-01-01T12:01:00Z"));
}

#[test]
fn an_abandoned_release_stays_in_the_cluster() {
    let mut world = World::deleted();
    world.patch(json!({ "metadata": { "annotations": { ABANDON_ANNOTATION: "true" } } }));
    assert_eq!(world.step(), Step::RemoveFinalizer);
    world.patch(json!({ "metadata": { "annotations": { ABANDON_ANNOTATION: "no" } } }));
    assert_eq!(world.step(), Step::Uninstall);
}

#[test]
fn a_namespace_is_deleted_only_if_it_was_created_for_this_app_alone() {
    let own = NamespaceState {
        exists: true,
        is_created_here: true,
        ..NamespaceState::default()
    };
    for (policy, namespace, wanted) in [
        (json!("deleteNamespace"), own, Step::DeleteNamespace),
        (json!("keep"), own, Step::RemoveFinalizer),
        (json!(null), own, Step::RemoveFinalizer),
        (
            json!("deleteNamespace"),
            NamespaceState {
                is_shared: true,
                ..own
            },
            Step::RemoveFinalizer,
        ),
        (
            json!("deleteNamespace"),
            NamespaceState {
                is_created_here: false,
                ..own
            },
            Step::RemoveFinalizer,
        ),
        (
            json!("deleteNamespace"),
            NamespaceState {
                is_terminating: true,
                ..own
            },
            Step::RemoveFinalizer,
        ),
        (
            json!("deleteNamespace"),
            NamespaceState {
                exists: false,
                ..own
            },
            Step::RemoveFinalizer,
        ),
    ] {
        let mut world = World::deleted();
        world.history = Some(Vec::new());
        world.patch(json!({ "spec": { "deletePolicy": policy } }));
        world.namespace = namespace;
        assert_eq!(world.step(), wanted, "{policy} {namespace:?}");
    }
}
