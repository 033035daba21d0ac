//! Reconciles an installation: observes it and performs the next step, until it must wait.

use std::{sync::Arc, time::Duration};

use k8s_openapi::jiff::Timestamp;
use kube::{
    ResourceExt,
    runtime::{controller::Action, reflector::ObjectRef},
};
use ludgate_cluster::{crd::installation::ABANDON_ANNOTATION, object::DeepObject};
use ludgate_controllers::error::ReconcileError;

use super::{
    attempts::Work,
    context::InstallationReconcile,
    observe::{Observation, Observed, Subject},
    parsed,
    report::{StatusFacts, earlier_status},
};
use crate::{
    applied_digest::AppliedDigest,
    conditions::NAMESPACE_LABELLED,
    placement::PermittedPlacement,
    plan::{Hold, Step, next_step},
    retry::{AttemptResult, Recovery},
    status::Report,
    stuck::OperationKind,
};

/// Every installation is reconciled again after this time, in case an event was lost.
const RESYNC: Duration = Duration::from_secs(300);
/// Pause while the process of another installation holds the release.
const BUSY: Duration = Duration::from_secs(5);
/// Maximum of steps in one reconcile. No path of the plan has more without a wait.
const MAX_STEPS: u32 = 12;

/// What follows a step.
enum StepOutcome {
    /// Observe again.
    Observe,
    /// Wait for a change, a task or a time.
    Wait(Action),
}

/// Performs the steps of an installation until it must wait.
///
/// # Errors
/// [`ReconcileError`]; the installation is reconciled again after a pause.
pub(super) async fn reconcile(
    object: Arc<DeepObject>,
    context: Arc<InstallationReconcile>,
) -> Result<Action, ReconcileError> {
    // Before the first list, a definition that exists would count as absent.
    if context.stores.wait_until_ready().await.is_err() {
        return Ok(Action::await_change());
    }
    let action = context.reconcile(&object).await?;
    context.backoffs.reset(&parsed::key(&*object));
    Ok(action)
}

impl InstallationReconcile {
    async fn reconcile(self: &Arc<Self>, object: &DeepObject) -> Result<Action, ReconcileError> {
        let request = self.stores.request(object);
        let installation = match parsed::installation(object) {
            Ok(installation) => installation,
            Err(text) => {
                // A patch of the status alone needs no readable spec.
                tracing::warn!(installation = parsed::key(object), text, "cannot be read");
                return Ok(Action::requeue(RESYNC));
            }
        };
        let mut subject = self.subject(object, installation);
        for _ in 0..MAX_STEPS {
            let observation = match self.observe(&subject).await {
                Ok(Observed::Installation(observation)) => observation,
                // The end of the first list triggers a reconcile.
                Ok(Observed::NotListed) => return Ok(Action::requeue(RESYNC)),
                Ok(Observed::NoTarget(text)) => {
                    return self.without_target(&mut subject, &text).await;
                }
                Err(ReconcileError::Rejected(text)) => {
                    // Rights on the target may be granted again without a change of the object, so
                    // this is an error that is retried.
                    let text = format!("the release cannot be read: {text}");
                    self.without_target(&mut subject, &text).await?;
                    return Err(ReconcileError::Rejected(text));
                }
                Err(error) => return Err(error),
            };
            if self.record_ended(&mut subject, &observation).await?
                || self
                    .record_failed_download(&mut subject, &observation)
                    .await?
            {
                continue;
            }
            if self.pin_namespace(&subject, &observation).await? {
                return Ok(Action::requeue(RESYNC));
            }
            self.report_health(&mut subject, &observation).await?;
            let step = match observation.is_busy_for_other(&subject) {
                true => return Ok(Action::requeue(BUSY)),
                false => next_step(&observation.as_input(&subject)),
            };
            match self
                .perform(&mut subject, &observation, &request, step)
                .await?
            {
                StepOutcome::Observe => {}
                StepOutcome::Wait(action) => return Ok(action),
            }
        }
        Ok(Action::requeue(BUSY))
    }

    /// An installation whose target is not known, or refuses to answer. `text` says why.
    async fn without_target(
        &self,
        subject: &mut Subject,
        text: &str,
    ) -> Result<Action, ReconcileError> {
        let installation = &subject.installation;
        let is_abandoned = installation
            .annotations()
            .get(ABANDON_ANNOTATION)
            .is_some_and(|value| value == "true");
        let is_deleted = installation.metadata.deletion_timestamp.is_some();
        if is_deleted && is_abandoned {
            self.remove_finalizer(subject).await?;
            return Ok(Action::await_change());
        }
        let report = match is_deleted {
            true => Report::UninstallFailed(text),
            false => Report::NotPermitted(text),
        };
        self.report(subject, StatusFacts::unknown(), report).await?;
        Ok(Action::requeue(RESYNC))
    }

    async fn perform(
        self: &Arc<Self>,
        subject: &mut Subject,
        observation: &Observation,
        request: &ObjectRef<DeepObject>,
        step: Step,
    ) -> Result<StepOutcome, ReconcileError> {
        let changed = StepOutcome::Wait(Action::requeue(RESYNC));
        // In a namespace that was never permitted, a release of this name belongs to another owner.
        let is_foreign = step == Step::Uninstall && !observation.may_uninstall(subject);
        let step = if is_foreign {
            Step::RemoveFinalizer
        } else {
            step
        };
        let Some(permitted) = self.permission(subject, observation, &step).await? else {
            return Ok(changed);
        };
        match step {
            Step::Nothing => self.settle(subject, observation, permitted).await,
            Step::Hold(hold) => {
                self.drop_download(subject);
                self.report_hold(subject, observation, &hold).await?;
                Ok(changed)
            }
            Step::Wait(until) => Ok(StepOutcome::Wait(wait(until, observation.now))),
            Step::AddFinalizer
            | Step::RemoveFinalizer
            | Step::DeleteInstallation(_)
            | Step::SetInterval(_) => {
                self.change_object(subject, step).await?;
                Ok(changed)
            }
            Step::Cancel => {
                self.cancel(subject, observation);
                Ok(changed)
            }
            Step::Uninstall => {
                self.drop_download(subject);
                self.start(subject, observation, request, Work::Uninstall)
                    .await
            }
            Step::DeleteNamespace => {
                self.delete_namespace(observation).await?;
                // The watch reports that it is terminating.
                Ok(StepOutcome::Wait(Action::requeue(BUSY)))
            }
            Step::Repair(action) => {
                let failures = earlier_status(subject).failures;
                let work = Work::Repair(Recovery { action, failures });
                self.start(subject, observation, request, work).await
            }
            Step::ResetFailures => {
                let mut after = earlier_status(subject);
                after.failures = 0;
                self.write_status(subject, after).await?;
                Ok(StepOutcome::Observe)
            }
            Step::Download(inputs) => {
                if let Some(version) = observation.version(subject) {
                    self.start_download(subject, request.clone(), version, inputs);
                }
                Ok(changed)
            }
            Step::PrepareNamespace => {
                self.prepare(subject, observation, permitted).await?;
                // The watch reports the namespace, which triggers the next step.
                Ok(StepOutcome::Wait(Action::requeue(BUSY)))
            }
            Step::Upgrade(digest) => {
                let is_atomic = observation.options(subject).atomic;
                let work = Work::Apply { digest, is_atomic };
                self.start(subject, observation, request, work).await
            }
            Step::RecordApplied(digest) => {
                self.record_applied(subject, observation, &digest).await?;
                Ok(StepOutcome::Observe)
            }
        }
    }

    /// What the placement permits; `None`: it is refused, which the status says.
    async fn permission(
        &self,
        subject: &mut Subject,
        observation: &Observation,
        step: &Step,
    ) -> Result<Option<PermittedPlacement>, ReconcileError> {
        let is_deleted = subject.installation.metadata.deletion_timestamp.is_some();
        match &observation.permission {
            Ok(permitted) => Ok(Some(*permitted)),
            // Withdrawing a permission must not make a release impossible to uninstall.
            Err(_) if is_deleted || !is_of_app(step) => Ok(Some(PermittedPlacement::default())),
            Err(refused) => {
                self.drop_download(subject);
                // The release of this name may belong to another installation, so no facts of it.
                let facts = StatusFacts::unknown();
                let report = Report::PlacementRefused(refused);
                self.report(subject, facts, report).await?;
                Ok(None)
            }
        }
    }

    /// Cancels the running operation and drops its download.
    fn cancel(&self, subject: &Subject, observation: &Observation) {
        if let Some(running) = &observation.running {
            running.cancel.cancel();
        }
        self.drop_download(subject);
    }

    /// Changes the metadata or the spec of the installation, or deletes it.
    async fn change_object(&self, subject: &Subject, step: Step) -> Result<(), ReconcileError> {
        match step {
            Step::AddFinalizer => self.add_finalizer(subject).await,
            Step::RemoveFinalizer => {
                self.drop_download(subject);
                self.remove_finalizer(subject).await
            }
            Step::DeleteInstallation(withdrawal) => {
                self.delete_installation(subject, withdrawal).await
            }
            Step::SetInterval(interval) => self.set_interval(subject, &interval).await,
            Step::Nothing
            | Step::Hold(_)
            | Step::Wait(_)
            | Step::Cancel
            | Step::Uninstall
            | Step::DeleteNamespace
            | Step::Repair(_)
            | Step::ResetFailures
            | Step::Download(_)
            | Step::PrepareNamespace
            | Step::Upgrade(_)
            | Step::RecordApplied(_) => Ok(()),
        }
    }

    /// The chart and its settings are unchanged: the last upgrade also counts for this digest.
    async fn record_applied(
        &self,
        subject: &mut Subject,
        observation: &Observation,
        digest: &AppliedDigest,
    ) -> Result<(), ReconcileError> {
        let report = Report::Attempted {
            result: AttemptResult::Succeeded,
            error: "",
            is_atomic: false,
            digest,
        };
        let facts = StatusFacts {
            version: observation.version(subject),
            placement: Some(&observation.placement),
            ..observation.facts(subject)
        };
        self.report(subject, facts, report).await?;
        self.memory.with(&subject.key, &subject.uid, |remembered| {
            remembered.reset(OperationKind::Apply);
            remembered.chart = None;
        });
        Ok(())
    }

    async fn start(
        self: &Arc<Self>,
        subject: &mut Subject,
        observation: &Observation,
        request: &ObjectRef<DeepObject>,
        work: Work,
    ) -> Result<StepOutcome, ReconcileError> {
        let request = request.clone();
        let started = self.start_operation(subject, observation, request, work);
        let pause = match started.await? {
            true => RESYNC,
            false => BUSY,
        };
        Ok(StepOutcome::Wait(Action::requeue(pause)))
    }

    /// Prepares the namespace, or reports the obstacle.
    async fn prepare(
        &self,
        subject: &mut Subject,
        observation: &Observation,
        permitted: PermittedPlacement,
    ) -> Result<(), ReconcileError> {
        let prepared = self.prepare_namespace(subject, observation, permitted);
        if let Err(conflict) = prepared.await? {
            let report = Report::NamespaceConflict(&conflict);
            let facts = observation.facts(subject);
            self.report(subject, facts, report).await?;
        }
        Ok(())
    }

    /// The release needs no change: completes the status, and labels the namespace if necessary.
    async fn settle(
        &self,
        subject: &mut Subject,
        observation: &Observation,
        permitted: PermittedPlacement,
    ) -> Result<StepOutcome, ReconcileError> {
        let is_deleted = subject.installation.metadata.deletion_timestamp.is_some();
        if is_deleted {
            return Ok(StepOutcome::Wait(Action::await_change()));
        }
        let mut after = earlier_status(subject);
        after.operation = None;
        after.placement = Some(observation.placement.clone());
        let namespace = observation.namespace;
        if namespace.is_prepared {
            after.conditions.remove(NAMESPACE_LABELLED);
        }
        self.write_status(subject, after).await?;
        let creates = observation.target_namespace.create;
        if creates && namespace.exists && !namespace.is_terminating && !namespace.is_prepared {
            // Labels of the namespace can change without a change of the release.
            self.prepare(subject, observation, permitted).await?;
        }
        // A chart may have been downloaded and not be needed.
        self.drop_download(subject);
        let until = observation.due;
        Ok(StepOutcome::Wait(wait(until, observation.now)))
    }

    async fn report_hold(
        &self,
        subject: &mut Subject,
        observation: &Observation,
        hold: &Hold,
    ) -> Result<(), ReconcileError> {
        let facts = observation.facts(subject);
        match hold {
            Hold::Paused => Ok(()),
            Hold::Invalid(errors) => self.report(subject, facts, Report::Invalid(errors)).await,
            Hold::NotFound(reason) => {
                let text = reason.message(&subject.installation);
                self.report(subject, facts, Report::NotFound(&text)).await
            }
            Hold::Withdrawn(reason) => {
                let text = reason.message(&subject.installation);
                let report = Report::Withdrawn(*reason, &text);
                self.report(subject, facts, report).await
            }
            Hold::NameTaken(taken) => {
                // The release is not this installation's, so its status must not show it.
                let facts = StatusFacts::unknown();
                self.report(subject, facts, Report::NameTaken(taken)).await
            }
        }
    }
}

/// Whether a step changes the app's objects, prepares such a change, or shows its release.
fn is_of_app(step: &Step) -> bool {
    match step {
        Step::Nothing
        | Step::Hold(Hold::NameTaken(_))
        | Step::Repair(_)
        | Step::Download(_)
        | Step::PrepareNamespace
        | Step::Upgrade(_)
        | Step::RecordApplied(_) => true,
        Step::Hold(_)
        | Step::Wait(_)
        | Step::AddFinalizer
        | Step::RemoveFinalizer
        | Step::DeleteInstallation(_)
        | Step::SetInterval(_)
        | Step::Cancel
        | Step::Uninstall
        | Step::DeleteNamespace
        | Step::ResetFailures => false,
    }
}

/// A pause until a time, or until something changes.
fn wait(until: Option<Timestamp>, now: Timestamp) -> Action {
    let Some(until) = until else {
        return Action::requeue(RESYNC);
    };
    let pause = Duration::try_from(until.duration_since(now)).unwrap_or(Duration::ZERO);
    // With a margin, so that the time has passed when the next reconcile runs.
    Action::requeue(pause.min(RESYNC) + Duration::from_millis(10))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_ends_after_its_time_and_within_the_resync() {
        let now: Timestamp = "2026-01-01T12:00:00Z".parse().expect("a time");
        let at = |text: &str| -> Option<Timestamp> { text.parse().ok() };
        let after = |milliseconds| Action::requeue(Duration::from_millis(milliseconds));
        for (until, wanted) in [
            (None, after(300_000)),
            (at("2026-01-01T11:59:00Z"), after(10)),
            (at("2026-01-01T12:00:02Z"), after(2_010)),
            (at("2026-01-01T13:00:00Z"), after(300_010)),
        ] {
            assert_eq!(wait(until, now), wanted, "{until:?}");
        }
    }
}
