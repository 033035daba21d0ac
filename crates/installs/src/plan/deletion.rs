//! The steps of an installation that is being deleted.

use kube::ResourceExt;
use ludgate_cluster::crd::installation::ABANDON_ANNOTATION;

use super::{observed::ObservedInstallation, step::Step};
use crate::{
    release::{ReleaseStatus, latest},
    release_name::check_owner,
    stuck::OperationKind,
};

/// The next step. The finalizer stays until the release is gone, so that no workload is left
/// without an object.
pub(super) fn next_step(observed: &ObservedInstallation<'_>) -> Step {
    if !observed.has_finalizer() {
        return Step::Nothing;
    }
    match observed.running {
        Some(OperationKind::Uninstall) => return Step::Wait(None),
        // An upgrade may wait for its objects for many minutes.
        Some(OperationKind::Apply | OperationKind::Repair) => return Step::Cancel,
        None => {}
    }
    let abandoned = observed.installation.annotations().get(ABANDON_ANNOTATION);
    if abandoned.is_some_and(|value| value == "true") {
        return Step::RemoveFinalizer;
    }
    let latest = latest(observed.history);
    let latest = latest.filter(|latest| latest.status != ReleaseStatus::Uninstalled);
    let is_ours = check_owner(latest, observed.uid(), observed.recorded_release()).is_ok();
    if latest.is_none() || !is_ours {
        return without_release(observed);
    }
    match observed.retry.uninstall {
        Some(until) if until > observed.now => Step::Wait(Some(until)),
        Some(_) | None => Step::Uninstall,
    }
}

/// The next step when the app is gone.
fn without_release(observed: &ObservedInstallation<'_>) -> Step {
    let policy = observed.installation.spec.delete_policy.as_deref();
    let namespace = observed.namespace;
    let is_deleted = policy == Some("deleteNamespace")
        && namespace.exists
        && namespace.is_created_here
        && !namespace.is_shared
        && !namespace.is_terminating;
    match is_deleted {
        true => Step::DeleteNamespace,
        false => Step::RemoveFinalizer,
    }
}
