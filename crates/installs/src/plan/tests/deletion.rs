//! The steps of installations that are being deleted.

use ludgate_cluster::crd::installation::ABANDON_ANNOTATION;

use super::*;

#[test]
fn a_deleted_installation_is_uninstalled_and_then_let_go() {
    let mut world = World::deleted();
    assert_eq!(world.step(), Step::Uninstall);
    world.running = Some(OperationKind::Uninstall);
    assert_eq!(world.step(), Step::Wait(None));
    world.running = None;
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
    for history in [
        vec![],
        vec![samples::release(1, ReleaseStatus::Uninstalled)],
    ] {
        world.history = history;
        assert_eq!(world.step(), Step::RemoveFinalizer);
    }
    world.patch(json!({ "metadata": { "finalizers": ["other"] } }));
    assert_eq!(world.step(), Step::Nothing);
}

#[test]
fn a_deletion_cancels_the_running_operation_first() {
    for kind in [OperationKind::Apply, OperationKind::Repair] {
        let mut world = World::deleted();
        world.running = Some(kind);
        assert_eq!(world.step(), Step::Cancel);
    }
    let mut world = World::deleted();
    world.history = vec![samples::release(1, ReleaseStatus::PendingInstall)];
    assert_eq!(world.step(), Step::Uninstall);
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
        world.history = Vec::new();
        world.patch(json!({ "spec": { "deletePolicy": policy } }));
        world.namespace = namespace;
        assert_eq!(world.step(), wanted, "{policy} {namespace:?}");
    }
}
