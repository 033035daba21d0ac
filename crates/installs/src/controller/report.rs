//! Writes the status of an installation when it changed, and publishes failures.

use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;
use ludgate_cluster::{
    crd::{
        definition::ApplicationVersion,
        installation_status::{
            ApplicationInstallationStatus, HelmRelease, InstallationOperation,
            InstallationPlacement,
        },
    },
    merge_patch,
    writer::NamespacedName,
};
use ludgate_controllers::error::ReconcileError;
use serde_json::{Value, json};

use super::{
    attempts::WrittenStatus,
    context::InstallationReconcile,
    metadata::place,
    observe::{Observation, Subject},
};
use crate::{
    conditions::{
        self, ACCEPTED, ConditionStatus, HEALTHY, MANIFESTS_RETRIEVED, NAMESPACE_LABELLED, READY,
        RECOVERED, Statement, VERSION_WITHDRAWN,
    },
    health::WorkloadHealth,
    release::Release,
    status::{Report, StatusInput, format_time, status, with_health},
    withdrawal,
};

/// The reason of the Event of each failure.
const FAILED: &str = "ApplicationInstallationReconcileFailed";
/// The condition of an app that its definition wants to publish, and the gateway does not.
const PUBLISHED: &str = "Published";
/// The method of all installations.
const METHOD: &str = "helm";

/// What the status shows besides the report.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct StatusFacts<'a> {
    /// The generation of the spec that the report is about; `None`: the current one.
    pub(super) generation: Option<i64>,
    /// The version to show; `None`: the one that is shown stays.
    pub(super) version: Option<&'a ApplicationVersion>,
    /// The newest revision.
    pub(super) release: Option<&'a Release>,
    /// The operation that runs.
    pub(super) operation: Option<&'a InstallationOperation>,
    /// The app should be published, and is on another cluster than the gateway.
    pub(super) is_out_of_reach: bool,
    /// The release is not known, so the one that is shown stays.
    pub(super) keeps_release: bool,
    /// The name of the release that an operation is about to make. Its status shows it before the
    /// release exists, so that the owner of an interrupted release is known.
    pub(super) new_release: Option<&'a str>,
    /// Where the app may be, and is or is about to be; `None`: what is shown stays.
    pub(super) placement: Option<&'a InstallationPlacement>,
}

impl StatusFacts<'_> {
    /// What is shown stays.
    pub(super) fn unknown() -> Self {
        StatusFacts {
            keeps_release: true,
            ..StatusFacts::default()
        }
    }
}

impl Observation {
    /// The version to install, if the definition has it.
    pub(super) fn version(&self, subject: &Subject) -> Option<&ApplicationVersion> {
        let definition = self.definition.as_ref();
        withdrawal::find_version(&subject.installation, definition).ok()
    }

    /// The release, without an operation. A release of others is not shown: by the status the
    /// installation would own it.
    pub(super) fn facts(&self, subject: &Subject) -> StatusFacts<'_> {
        let definition = self.definition.as_ref();
        let is_exposed = definition.is_some_and(|it| it.spec.expose.is_some());
        let own = self.latest().filter(|_| self.has_own_release(subject));
        StatusFacts {
            release: own,
            keeps_release: own.is_none() && self.latest().is_some(),
            is_out_of_reach: is_exposed && !self.cluster.is_home(),
            ..StatusFacts::default()
        }
    }

    /// The version and the release of an operation that begins.
    pub(super) fn facts_of<'a>(
        &'a self,
        subject: &Subject,
        operation: &'a InstallationOperation,
    ) -> StatusFacts<'a> {
        StatusFacts {
            version: self.version(subject),
            operation: Some(operation),
            new_release: Some(&self.release.release),
            placement: Some(&self.placement),
            ..self.facts(subject)
        }
    }
}

impl InstallationReconcile {
    /// Writes the status after a report, if it changed.
    ///
    /// # Errors
    /// See [`ReconcileError`]. The subject then has its earlier status.
    pub(super) async fn report(
        &self,
        subject: &mut Subject,
        facts: StatusFacts<'_>,
        report: Report<'_>,
    ) -> Result<(), ReconcileError> {
        let before = earlier_status(subject);
        let current = subject.installation.metadata.generation.unwrap_or_default();
        let input = StatusInput {
            before: &before,
            generation: facts.generation.unwrap_or(current),
            version: facts.version.map(|version| (version, METHOD)),
            release: facts.release,
            operation: facts.operation,
            now: Timestamp::now(),
        };
        let mut after = status(&input, report);
        if facts.keeps_release {
            after.helm_release = before.helm_release.clone();
        }
        if let (None, Some(name)) = (&after.helm_release, facts.new_release) {
            after.helm_release = Some(HelmRelease {
                name: Some(name.to_owned()),
                ..HelmRelease::default()
            });
        }
        if let Some(placement) = facts.placement {
            after.placement = Some(placement.clone());
        }
        if facts.is_out_of_reach {
            set_out_of_reach(&mut after, &input);
        }
        let is_changed = has_changed(&before, &after);
        self.write_status(subject, after).await?;
        if is_changed {
            self.publish(subject, report);
        }
        Ok(())
    }

    /// Writes the health of the workloads, if it changed.
    ///
    /// # Errors
    /// See [`ReconcileError`]. The subject then has its earlier status.
    pub(super) async fn report_health(
        &self,
        subject: &mut Subject,
        observation: &Observation,
    ) -> Result<(), ReconcileError> {
        let metadata = &subject.installation.metadata;
        if metadata.deletion_timestamp.is_some() {
            return Ok(());
        }
        let generation = metadata.generation.unwrap_or_default();
        let before = earlier_status(subject);
        let health = match observation.has_own_release(subject) {
            false => None,
            true => match observation.health() {
                Some(health) => Some(health),
                // Each process lists the workloads at its start. The app is as before meanwhile.
                None if before.conditions.contains_key(HEALTHY) => return Ok(()),
                None => Some(WorkloadHealth::unknown()),
            },
        };
        let after = with_health(&before, health.as_ref(), generation, Timestamp::now());
        self.write_status(subject, after).await
    }

    /// Writes a status, if it changed.
    ///
    /// # Errors
    /// See [`ReconcileError`]. The subject then has its earlier status.
    pub(super) async fn write_status(
        &self,
        subject: &mut Subject,
        after: ApplicationInstallationStatus,
    ) -> Result<(), ReconcileError> {
        let before = earlier_status(subject);
        if before == after {
            return Ok(());
        }
        let patch = merge_patch::between(&to_value(&before), &to_value(&after));
        let (namespace, name) = place(subject);
        let place = NamespacedName {
            namespace: &namespace,
            name: &name,
        };
        let kind = &self.stores.kinds.installations;
        self.metrics.wrote();
        let patch = json!({ "status": patch });
        let written = self.writer.merge_status(kind, place, &patch).await?;
        let written = WrittenStatus {
            version: written.resource_version().unwrap_or_default(),
            status: after.clone(),
        };
        self.memory
            .with(&subject.key, &subject.uid, |it| it.wrote(written));
        subject.installation.status = Some(after);
        Ok(())
    }

    fn publish(&self, subject: &Subject, report: Report<'_>) {
        let (reason, note) = match report {
            Report::Withdrawn(withdrawal, text) => (withdrawal.reason(), text.to_owned()),
            Report::NameTaken(taken) => (FAILED, taken.to_string()),
            Report::PlacementRefused(refused) => (FAILED, refused.to_string()),
            Report::NotFound(text)
            | Report::NotPermitted(text)
            | Report::NamespaceConflict(text)
            | Report::DownloadFailed(text)
            | Report::UninstallFailed(text)
            | Report::RecoveryFailed(text) => (FAILED, text.to_owned()),
            Report::Attempted { error, .. } if !error.is_empty() => (FAILED, error.to_owned()),
            Report::Invalid(_)
            | Report::Installing
            | Report::Attempted { .. }
            | Report::Cancelled(_)
            | Report::Recovered(_) => {
                tracing::info!(installation = subject.key, "changed");
                return;
            }
        };
        tracing::info!(installation = subject.key, reason, note, "changed");
        self.publish_warning(subject, reason, &note);
    }
}

/// Says that the gateway does not publish the app.
fn set_out_of_reach(after: &mut ApplicationInstallationStatus, input: &StatusInput<'_>) {
    let statement = Statement {
        kind: PUBLISHED,
        status: ConditionStatus::False,
        reason: "OtherTarget",
        message: "apps on other targets are not published",
    };
    let now = format_time(input.now);
    conditions::set(&mut after.conditions, &statement, input.generation, &now);
}

/// The status that was written last.
pub(super) fn earlier_status(subject: &Subject) -> ApplicationInstallationStatus {
    subject.installation.status.clone().unwrap_or_default()
}

fn to_value(status: &ApplicationInstallationStatus) -> Value {
    serde_json::to_value(status).unwrap_or_default()
}

/// Whether a condition has another status, reason or message. Health is left out: it changes often.
fn has_changed(
    before: &ApplicationInstallationStatus,
    after: &ApplicationInstallationStatus,
) -> bool {
    let of = |status: &ApplicationInstallationStatus, kind: &str| {
        let condition = status.conditions.get(kind)?;
        let texts = (&condition.status, &condition.reason, &condition.message);
        Some(format!("{texts:?}"))
    };
    let all = [
        READY,
        MANIFESTS_RETRIEVED,
        NAMESPACE_LABELLED,
        RECOVERED,
        VERSION_WITHDRAWN,
        ACCEPTED,
    ];
    all.iter().any(|kind| of(before, kind) != of(after, kind))
}
