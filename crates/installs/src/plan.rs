//! The next step of one installation.
//!
//! The controller observes, asks for the step, does it, and observes again: a crash between two
//! steps loses nothing. Deletion comes before all else, then what stands in the way, then the
//! repair of a stuck release, then the normal path.

mod deletion;
mod observed;
mod step;

pub use observed::{
    Downloaded, NamespaceState, ObservedInstallation, RetryTimes, RunningUpgrade, TargetState,
};
pub use step::{Hold, Step};

use k8s_openapi::jiff::SignedDuration;
use ludgate_cluster::crd::definition::ApplicationVersion;

use crate::{
    applied_digest::{AppliedDigest, InputDigest},
    interval,
    release::latest,
    release_name::check_owner,
    retry, stuck,
    validation::installation::validate_stored,
    values, withdrawal,
};

/// Pause while a target has no node.
const NO_NODES: SignedDuration = SignedDuration::from_secs(10);
/// An upgrade that lasts longer waits for objects or for a hook.
const MAX_BUSY: SignedDuration = SignedDuration::from_secs(3);

/// The next step.
pub fn next_step(observed: &ObservedInstallation<'_>) -> Step {
    let metadata = &observed.installation.metadata;
    if observed.target == TargetState::Paused {
        return Step::Hold(Hold::Paused);
    }
    if metadata.deletion_timestamp.is_some() {
        return deletion::next_step(observed);
    }
    if observed.target == TargetState::NoNodes {
        let until = observed.now.checked_add(NO_NODES);
        return Step::Wait(until.ok());
    }
    if !observed.has_finalizer() {
        return Step::AddFinalizer;
    }
    if observed.running.is_some() {
        return while_running(observed);
    }
    let version = match find_version(observed) {
        Ok(version) => version,
        Err(step) => return step,
    };
    let definition = observed.definition.map(|definition| &definition.spec);
    let errors = validate_stored(&observed.installation.spec, definition);
    if !errors.is_empty() {
        return Step::Hold(Hold::Invalid(errors));
    }
    let annotations = observed
        .definition
        .and_then(|it| it.metadata.annotations.as_ref());
    if let Some(wanted) = interval::wanted_interval(annotations, &observed.installation.spec) {
        return Step::SetInterval(wanted.to_owned());
    }
    match check_release(observed) {
        Some(step) => step,
        None => apply(observed, version),
    }
}

/// The step while a process of this replica runs. An upgrade that waits for what is no longer
/// wanted is cancelled. A shorter one ends by itself, and its release needs no repair.
fn while_running(observed: &ObservedInstallation<'_>) -> Step {
    let upgrade = observed.upgrade;
    let Some(upgrade) = upgrade.filter(|upgrade| is_outdated(observed, upgrade.digest)) else {
        return Step::Wait(None);
    };
    match upgrade.since.checked_add(MAX_BUSY) {
        Ok(until) if until > observed.now => Step::Wait(Some(until)),
        Ok(_) | Err(_) => Step::Cancel,
    }
}

/// Whether the spec changed since an upgrade to this digest began, and now leads to another one.
/// While the spec is invalid or its version is absent, nothing else is wanted.
fn is_outdated(observed: &ObservedInstallation<'_>, digest: &AppliedDigest) -> bool {
    let Ok(version) = find_version(observed) else {
        return false;
    };
    let definition = observed.definition.map(|definition| &definition.spec);
    observed.is_changed()
        && validate_stored(&observed.installation.spec, definition).is_empty()
        && !digest.has_inputs(&inputs(observed, version))
}

/// The version to install, or the step without one.
fn find_version<'a>(observed: &ObservedInstallation<'a>) -> Result<&'a ApplicationVersion, Step> {
    let found = withdrawal::find_version(observed.installation, observed.definition);
    found.map_err(|reason| {
        if !withdrawal::was_installed(observed.installation) {
            Step::Hold(Hold::NotFound(reason))
        } else if withdrawal::ends_installation(observed.definition) {
            Step::DeleteInstallation(reason)
        } else {
            Step::Hold(Hold::Withdrawn(reason))
        }
    })
}

/// What the release needs before it can be upgraded; `None`: nothing.
fn check_release(observed: &ObservedInstallation<'_>) -> Option<Step> {
    let latest = latest(observed.history);
    if let Err(taken) = check_owner(latest, observed.uid(), observed.recorded_release()) {
        return Some(Step::Hold(Hold::NameTaken(taken)));
    }
    let action = stuck::repair(observed.history);
    if observed.may_be_stuck(action) {
        return Some(match observed.retry.repair {
            Some(until) if until > observed.now => Step::Wait(Some(until)),
            Some(_) | None => Step::Repair(action),
        });
    }
    let failures = observed.status().map_or(0, |status| status.failures);
    let is_atomic = observed.options().atomic;
    let release = latest.map(|latest| latest.status);
    let is_wrong = retry::is_count_wrong(failures, is_atomic, observed.is_ready(), release);
    is_wrong.then_some(Step::ResetFailures)
}

/// The normal path: download, namespace, upgrade.
fn apply(observed: &ObservedInstallation<'_>, version: &ApplicationVersion) -> Step {
    let inputs = inputs(observed, version);
    let applied = observed.applied();
    let is_deployed = observed.is_deployed();
    if let Some(downloaded) = observed.downloaded.filter(|it| it.inputs == inputs) {
        let wanted = inputs.with_chart(&downloaded.chart);
        let is_same = applied.is_some_and(|applied| applied.applies_same(&wanted));
        if is_same && is_deployed && !observed.is_interval_due {
            return match observed.is_ready() && observed.has_applied(&wanted) {
                true => Step::Nothing,
                false => Step::RecordApplied(wanted),
            };
        }
        return match observed.namespace.step(observed.creates_namespace()) {
            Some(step) => step,
            None => Step::Upgrade(wanted),
        };
    }
    let is_settled = observed.is_ready()
        && is_deployed
        && !observed.is_interval_due
        && applied.is_some_and(|applied| applied.has_inputs(&inputs));
    if is_settled {
        return Step::Nothing;
    }
    // A changed spec is tried at once.
    match observed.retry.apply {
        Some(until) if until > observed.now && !observed.is_changed() => Step::Wait(Some(until)),
        Some(_) | None => Step::Download(inputs),
    }
}

/// The digest of what the installation asks for.
fn inputs(observed: &ObservedInstallation<'_>, version: &ApplicationVersion) -> InputDigest {
    // Values that cannot be read are errors that were reported before.
    let values = values::installation_values(&observed.installation.spec).unwrap_or_default();
    InputDigest::new(version, &values, observed.options())
}

#[cfg(test)]
mod tests;
