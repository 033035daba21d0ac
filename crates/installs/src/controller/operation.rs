//! Helm operations. The status records the start first, so that a crash leaves a trace. A task then
//! runs the process, and the next reconcile records the result.

use std::{sync::Arc, time::Duration};

use k8s_openapi::jiff::Timestamp;
use kube::runtime::reflector::ObjectRef;
use ludgate_cluster::{
    crd::installation_status::InstallationOperation, deadline::ApiCallError, object::DeepObject,
};
use ludgate_controllers::error::ReconcileError;
use tokio_util::sync::CancellationToken;

use super::{
    attempts::{ChartOnDisk, EndedOperation, FailureKind, OperationFailure, Work},
    context::InstallationReconcile,
    observe::{Observation, Subject},
    operations::{OperationPermit, ReleaseKey},
    report::{StatusFacts, earlier_status},
    target_cluster::TargetCluster,
};
use crate::{
    deploy_options::EffectiveOptions,
    helm::{
        command::{ReleaseName, UpgradeOptions},
        engine::{ReleaseAccess, Rollback, Uninstall, Upgrade},
        outcome::{FailureClass, HelmError},
    },
    releases::secret::OWNER_LABEL,
    retry::{AttemptResult, Recovery},
    status::{CancelCause, Report},
    stuck::StuckAction,
    targets::token::{NamespaceAccessError, NamespaceAccount},
    values,
};

/// Deadline of a hook if the options set no timeout.
const HOOK_TIMEOUT: Duration = Duration::from_secs(300);
/// Deadline of a hook of a rollback or an uninstall.
const REPAIR_TIMEOUT: Duration = Duration::from_secs(60);

/// Input of the task that runs Helm. No `Debug`: the values may contain secrets.
struct HelmRun {
    work: Work,
    cluster: Arc<TargetCluster>,
    release: ReleaseKey,
    owner: String,
    options: EffectiveOptions,
    /// Only for upgrades.
    chart: Option<Arc<ChartOnDisk>>,
    values: String,
    cancel: CancellationToken,
}

/// Reports the result of an operation on drop. If the task panics or is aborted, the operation
/// counts as failed.
struct EndGuard {
    context: Arc<InstallationReconcile>,
    key: String,
    uid: String,
    request: ObjectRef<DeepObject>,
    work: Work,
    cluster: Arc<TargetCluster>,
    release: ReleaseKey,
    generation: i64,
    result: Result<(), OperationFailure>,
    permit: Option<OperationPermit>,
}

impl Drop for EndGuard {
    fn drop(&mut self) {
        let ReleaseKey {
            namespace, release, ..
        } = &self.release;
        self.cluster.outdate_history(namespace, release);
        let ended = EndedOperation {
            work: self.work.clone(),
            result: self.result.clone(),
            generation: self.generation,
        };
        let memory = &self.context.memory;
        memory.with(&self.key, &self.uid, |remembered| {
            remembered.ended = Some(ended);
            if matches!(self.work, Work::Apply { .. }) {
                // Success or failure: the next attempt waits for its pause, and downloads again.
                remembered.chart = None;
            }
        });
        // Before the wake-up: the reconcile that follows must find the release free.
        drop(self.permit.take());
        let _ = self.context.wake.send(self.request.clone());
    }
}

impl InstallationReconcile {
    /// Starts an operation, unless one runs for the release. Returns whether it was started.
    ///
    /// # Errors
    /// The status cannot be written; nothing was started.
    pub(super) async fn start_operation(
        self: &Arc<Self>,
        subject: &mut Subject,
        observation: &Observation,
        request: ObjectRef<DeepObject>,
        work: Work,
    ) -> Result<bool, ReconcileError> {
        let key = observation.release.clone();
        let now = Timestamp::now();
        let begun = self.operations.begin(key, &work, &subject.uid, now);
        let Some(permit) = begun else {
            return Ok(false);
        };
        let record = permit.operation.record.clone();
        self.report_begun(subject, observation, &work, &record)
            .await?;
        // `Accepted` already reports invalid values, and the plan holds such installations.
        let values = values::installation_values(&subject.installation.spec).unwrap_or_default();
        let run = HelmRun {
            work: work.clone(),
            cluster: observation.cluster.clone(),
            release: observation.release.clone(),
            owner: subject.uid.clone(),
            options: observation.options(subject),
            chart: observation.chart.clone(),
            values: values::to_block(&values).unwrap_or_default(),
            cancel: permit.operation.cancel.clone(),
        };
        let mut guard = EndGuard {
            context: self.clone(),
            key: subject.key.clone(),
            uid: subject.uid.clone(),
            request,
            work,
            cluster: observation.cluster.clone(),
            release: observation.release.clone(),
            generation: subject.installation.metadata.generation.unwrap_or_default(),
            result: Err(OperationFailure {
                kind: FailureKind::Disturbed,
                message: "the operation was interrupted".to_owned(),
            }),
            permit: Some(permit),
        };
        self.tasks.spawn(async move {
            guard.result = guard.context.run_helm(&run).await;
            drop(guard);
        });
        Ok(true)
    }

    /// Records the start of an operation in the status.
    async fn report_begun(
        &self,
        subject: &mut Subject,
        observation: &Observation,
        work: &Work,
        record: &InstallationOperation,
    ) -> Result<(), ReconcileError> {
        match work {
            Work::Apply { .. } => {
                let facts = observation.facts_of(subject, record);
                self.report(subject, facts, Report::Installing).await
            }
            Work::Repair(_) => {
                let mut after = earlier_status(subject);
                // Before the release changes: see [`Recovery`].
                after.failures = 0;
                after.operation = Some(record.clone());
                self.write_status(subject, after).await
            }
            Work::Uninstall => {
                let mut after = earlier_status(subject);
                after.operation = Some(record.clone());
                self.write_status(subject, after).await
            }
        }
    }

    /// Reports an operation that ended. Returns whether there was one.
    ///
    /// # Errors
    /// The status cannot be written; the next reconcile reports the result.
    pub(super) async fn record_ended(
        &self,
        subject: &mut Subject,
        observation: &Observation,
    ) -> Result<bool, ReconcileError> {
        let ended = self
            .memory
            .with(&subject.key, &subject.uid, |it| it.ended.clone());
        let Some(EndedOperation {
            work,
            result,
            generation,
        }) = ended
        else {
            return Ok(false);
        };
        let kind = work.kind();
        let failure = result.as_ref().err();
        match work {
            Work::Apply { digest, is_atomic } => {
                let attempt = |result: AttemptResult, error| Report::Attempted {
                    result,
                    error,
                    is_atomic,
                    digest: &digest,
                };
                let report = match failure {
                    None => attempt(AttemptResult::Succeeded, ""),
                    Some(failure) => match failure.kind {
                        FailureKind::Failed => attempt(AttemptResult::Failed, &failure.message),
                        FailureKind::Disturbed => {
                            attempt(AttemptResult::Disturbed, &failure.message)
                        }
                        FailureKind::NotPermitted => Report::NotPermitted(&failure.message),
                        FailureKind::Cancelled => Report::Cancelled(cancel_cause(subject)),
                    },
                };
                // The result is about the spec of its start. A deletion changes the generation too.
                let is_deleted = cancel_cause(subject) == CancelCause::Deleted;
                let facts = StatusFacts {
                    generation: (!is_deleted).then_some(generation),
                    ..observation.facts(subject)
                };
                self.report(subject, facts, report).await?;
            }
            Work::Repair(recovery) => {
                self.record_repair(subject, observation, recovery, failure)
                    .await?;
            }
            Work::Uninstall => match failure {
                // The next step sees that the release is gone.
                None => {}
                Some(failure) => {
                    let report = Report::UninstallFailed(&failure.message);
                    let facts = observation.facts(subject);
                    self.report(subject, facts, report).await?;
                }
            },
        }
        let is_cancelled = failure.is_some_and(|it| it.kind == FailureKind::Cancelled);
        self.memory.with(&subject.key, &subject.uid, |remembered| {
            remembered.ended = None;
            match failure {
                None => remembered.reset(kind),
                Some(_) if is_cancelled => {}
                Some(_) => remembered.failed(kind, Timestamp::now()),
            }
        });
        Ok(true)
    }

    async fn record_repair(
        &self,
        subject: &mut Subject,
        observation: &Observation,
        recovery: Recovery,
        failure: Option<&OperationFailure>,
    ) -> Result<(), ReconcileError> {
        let Some(failure) = failure else {
            let report = Report::Recovered(recovery.action);
            let facts = observation.facts(subject);
            return self.report(subject, facts, report).await;
        };
        let mut after = earlier_status(subject);
        after.failures = recovery.failures;
        self.write_status(subject, after).await?;
        if failure.kind == FailureKind::Cancelled {
            let report = Report::Cancelled(cancel_cause(subject));
            let facts = observation.facts(subject);
            return self.report(subject, facts, report).await;
        }
        let report = Report::RecoveryFailed(&failure.message);
        let facts = observation.facts(subject);
        self.report(subject, facts, report).await
    }

    /// Makes the account of the namespace, and runs Helm with its token.
    async fn run_helm(&self, run: &HelmRun) -> Result<(), OperationFailure> {
        let slots = match run.work {
            Work::Apply { .. } | Work::Repair(_) => &self.slots.upgrades,
            Work::Uninstall => &self.slots.uninstalls,
        };
        let slot = run.cancel.run_until_cancelled(slots.acquire());
        let Some(Ok(_slot)) = slot.await else {
            return Err(cancelled());
        };
        let settings = self.settings();
        let namespace = &run.release.namespace;
        let account = NamespaceAccount {
            namespace,
            cluster_role: &settings.cluster_role,
        };
        let timeout = match run.work {
            Work::Apply { .. } if !run.options.timeout.is_zero() => run.options.timeout,
            Work::Apply { .. } => HOOK_TIMEOUT,
            Work::Repair(_) | Work::Uninstall => REPAIR_TIMEOUT,
        };
        let prepared = async {
            {
                let _bound = run.cluster.accounts.read().await;
                account.apply(&run.cluster.writer).await?;
            }
            account.request_token(&run.cluster.client, timeout).await
        };
        let token = match run.cancel.run_until_cancelled(prepared).await {
            None => return Err(cancelled()),
            Some(token) => token.map_err(from_access)?,
        };
        let access = ReleaseAccess {
            release: ReleaseName {
                namespace,
                name: &run.release.release,
            },
            endpoint: &run.cluster.endpoint,
            token: &token,
        };
        let uninstall = Uninstall {
            access,
            timeout,
            wait: false,
        };
        let engine = &self.engine;
        let done = match &run.work {
            Work::Apply { .. } => return self.upgrade(run, access, timeout).await,
            Work::Repair(recovery) => match recovery.action {
                StuckAction::Nothing => return Ok(()),
                StuckAction::Rollback(revision) => {
                    let rollback = Rollback {
                        access,
                        revision,
                        timeout,
                    };
                    engine.rollback(&rollback, &run.cancel).await
                }
                StuckAction::Uninstall | StuckAction::UninstallAgain => {
                    engine.uninstall(&uninstall, &run.cancel).await
                }
            },
            Work::Uninstall => engine.uninstall(&uninstall, &run.cancel).await,
        };
        if matches!(run.work, Work::Uninstall) && done.is_ok() {
            self.withdraw_account(run, account).await;
        }
        done.map(|_| ()).map_err(from_helm)
    }

    /// Installs the chart, or upgrades its release.
    async fn upgrade(
        &self,
        run: &HelmRun,
        access: ReleaseAccess<'_>,
        timeout: Duration,
    ) -> Result<(), OperationFailure> {
        let Some(chart) = &run.chart else {
            return Err(OperationFailure {
                kind: FailureKind::Disturbed,
                message: "the chart is no longer there".to_owned(),
            });
        };
        let options = UpgradeOptions {
            wait: run.options.wait,
            atomic: run.options.atomic,
            timeout,
            enable_dns: run.options.enable_dns,
            server_side: self.settings().server_side,
            labels: [(OWNER_LABEL.to_owned(), run.owner.clone())].into(),
            ..UpgradeOptions::default()
        };
        let upgrade = Upgrade {
            access,
            chart: &chart.path,
            values: &run.values,
            options: &options,
        };
        let done = self.engine.upgrade(&upgrade, &run.cancel).await;
        done.map(|_| ()).map_err(from_helm)
    }

    /// Unbinds the role of the account after the last release of its namespace. A process that
    /// starts meanwhile is already in `operations`, or waits for the lock and binds it again.
    async fn withdraw_account(&self, run: &HelmRun, account: NamespaceAccount<'_>) {
        let _alone = run.cluster.accounts.write().await;
        let ReleaseKey {
            namespace, release, ..
        } = &run.release;
        let releases = run.cluster.releases.names_in(namespace);
        let has_others = releases.iter().any(|name| name != release);
        if has_others || self.operations.has_others(&run.release) {
            return;
        }
        if let Err(error) = account.unbind(&run.cluster.writer).await {
            tracing::warn!(namespace, %error, "the account of the namespace keeps its role");
        }
    }
}

/// Why the operation of an installation was cancelled.
fn cancel_cause(subject: &Subject) -> CancelCause {
    match subject.installation.metadata.deletion_timestamp.is_some() {
        true => CancelCause::Deleted,
        false => CancelCause::Changed,
    }
}

fn cancelled() -> OperationFailure {
    OperationFailure {
        kind: FailureKind::Cancelled,
        message: "the operation was cancelled".to_owned(),
    }
}

fn from_helm(error: HelmError) -> OperationFailure {
    let kind = match error.class {
        FailureClass::AnotherOperation | FailureClass::Unavailable => FailureKind::Disturbed,
        FailureClass::Cancelled => FailureKind::Cancelled,
        FailureClass::Forbidden => FailureKind::NotPermitted,
        FailureClass::NoDeployedReleases | FailureClass::Timeout | FailureClass::Other => {
            FailureKind::Failed
        }
    };
    OperationFailure {
        kind,
        message: error.message,
    }
}

fn from_access(error: NamespaceAccessError) -> OperationFailure {
    let kind = match &error {
        NamespaceAccessError::Api(ApiCallError::Api(kube::Error::Api(status))) => {
            match status.code {
                403 => FailureKind::NotPermitted,
                400 | 404 | 422 => FailureKind::Failed,
                _ => FailureKind::Disturbed,
            }
        }
        NamespaceAccessError::Api(_) => FailureKind::Disturbed,
        NamespaceAccessError::TimeoutTooLong(_) | NamespaceAccessError::ShortToken => {
            FailureKind::Failed
        }
    };
    OperationFailure {
        kind,
        message: error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::redaction::Redactor;

    #[test]
    fn only_failures_of_the_chart_count() {
        for (class, wanted) in [
            (FailureClass::AnotherOperation, FailureKind::Disturbed),
            (FailureClass::Unavailable, FailureKind::Disturbed),
            (FailureClass::Cancelled, FailureKind::Cancelled),
            (FailureClass::Forbidden, FailureKind::NotPermitted),
            (FailureClass::Timeout, FailureKind::Failed),
            (FailureClass::Other, FailureKind::Failed),
        ] {
            let error = HelmError::new(class, "m", &Redactor::default());
            let failure = from_helm(error);
            assert_eq!(
                (failure.kind, failure.message.as_str()),
                (wanted, "m"),
                "{class:?}"
            );
        }
        for (code, wanted) in [
            (403, FailureKind::NotPermitted),
            (404, FailureKind::Failed),
            (409, FailureKind::Disturbed),
            (503, FailureKind::Disturbed),
        ] {
            let status = kube::core::Status::failure("m", "").with_code(code);
            let error = ApiCallError::Api(kube::Error::Api(Box::new(status)));
            assert_eq!(from_access(error.into()).kind, wanted, "{code}");
        }
    }
}
