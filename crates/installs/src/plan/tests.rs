//! The steps of the sequences that installations go through.

mod deletion;

use k8s_openapi::jiff::Timestamp;
use ludgate_cluster::{
    crd::{
        definition::{ApplicationDefinition, INTERVAL_ANNOTATION},
        installation::{ApplicationInstallation, CLEANUP_FINALIZER},
    },
    merge_patch,
};
use serde_json::{Value, json};

use super::*;
use crate::{
    applied_digest::AppliedDigest,
    deploy_options::EffectiveOptions,
    release::{Release, ReleaseStatus},
    samples,
    stuck::{OperationKind, StuckAction},
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
    history: Vec<Release>,
    running: Option<OperationKind>,
    /// What runs, and since when.
    upgrade: Option<(AppliedDigest, &'static str)>,
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
            history: Vec::new(),
            running: None,
            upgrade: None,
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
        world.history = vec![samples::release(1, ReleaseStatus::Deployed)];
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
            history: &self.history,
            running: self.running,
            upgrade: self.upgrade.as_ref().map(|(digest, since)| RunningUpgrade {
                digest,
                since: at(since),
            }),
            downloaded: self.downloaded.as_ref(),
            retry: self.retry,
            is_interval_due: self.is_interval_due,
            now: at(NOW),
        })
    }
}

fn inputs_of(version: &str) -> InputDigest {
    let options = EffectiveOptions::default();
    InputDigest::new(&samples::version(version), &samples::no_values(), options)
}

fn inputs() -> InputDigest {
    inputs_of("1.0.0")
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
    world.running = Some(OperationKind::Apply);
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
        |world| world.history = vec![samples::release(2, ReleaseStatus::Failed)],
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
    world.history = vec![samples::release(1, ReleaseStatus::Failed)];
    world.downloaded = downloaded("sha256:c");
    assert_eq!(world.step(), Step::Upgrade(digest()));
}

#[test]
fn failures_wait_for_their_pause_and_changes_do_not() {
    let mut world = World::installed();
    world.failed(6);
    world.history = vec![samples::release(2, ReleaseStatus::Failed)];
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
    world.history = vec![
        samples::release(1, ReleaseStatus::Deployed),
        samples::release(2, ReleaseStatus::PendingUpgrade),
    ];
    assert_eq!(world.step(), Step::Repair(StuckAction::Rollback(1)));
    world.retry.repair = Some(at(LATER));
    assert_eq!(world.step(), wait(LATER));
    world.retry.repair = None;
    world.namespace = NamespaceState::default();
    assert_eq!(
        world.step(),
        wait(LATER),
        "without a namespace nothing is stuck"
    );

    let mut world = World::installed();
    world.history = vec![samples::release(2, ReleaseStatus::PendingUpgrade)];
    assert!(
        matches!(world.step(), Step::Download(_)),
        "ready without failures"
    );
    world.history = vec![samples::release(2, ReleaseStatus::Uninstalling)];
    assert_eq!(world.step(), Step::Repair(StuckAction::UninstallAgain));
}

#[test]
fn a_release_of_another_installation_is_not_touched() {
    let mut world = World::new();
    let foreign = Release {
        owner: Some("2".into()),
        ..samples::release(1, ReleaseStatus::PendingInstall)
    };
    world.history = vec![foreign];
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
fn a_changed_spec_cancels_an_upgrade_that_waits() {
    let values = json!({ "metadata": { "generation": 2 }, "spec": { "valuesBlock": "a: 1" } });
    let running = |patch: Value, since: &'static str| {
        let mut world = World::installed();
        world.running = Some(OperationKind::Apply);
        world.upgrade = Some((digest(), since));
        world.patch(patch);
        world
    };
    let (long, short) = ("2026-01-01T11:59:57Z", "2026-01-01T11:59:58Z");
    assert_eq!(running(values.clone(), long).step(), Step::Cancel);
    // It may end by itself.
    let until = wait("2026-01-01T12:00:01Z");
    assert_eq!(running(values.clone(), short).step(), until);
    for other in [
        json!({}),
        // Nothing that the upgrade applies.
        json!({ "metadata": { "generation": 2 }, "spec": { "deletePolicy": "deleteNamespace" } }),
        // A definition can change under many installations.
        json!({ "spec": { "valuesBlock": "a: 1" } }),
        // It is not known what is wanted instead.
        json!({ "metadata": { "generation": 2 }, "spec": { "valuesBlock": "[" } }),
        json!({
            "metadata": { "generation": 2 },
            "spec": { "applicationRef": { "name": "example", "version": "9.9.9" } },
        }),
    ] {
        let world = running(other.clone(), long);
        assert_eq!(world.step(), Step::Wait(None), "{other}");
    }
    // Another version of the app. Repairs and removals are no upgrades.
    let mut world = running(json!({ "metadata": { "generation": 2 } }), long);
    world.upgrade = Some((inputs_of("0.9.0").with_chart("sha256:c"), long));
    assert_eq!(world.step(), Step::Cancel);
    let mut world = running(values, long);
    world.running = Some(OperationKind::Repair);
    world.upgrade = None;
    assert_eq!(world.step(), Step::Wait(None));
}
