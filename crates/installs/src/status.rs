//! The status of an installation after something happened to it.

use k8s_openapi::jiff::Timestamp;
use ludgate_cluster::crd::{
    definition::ApplicationVersion,
    installation_status::{ApplicationInstallationStatus, InstallationOperation},
};

use crate::{
    applied_digest::AppliedDigest,
    conditions::{
        self, ACCEPTED, ConditionStatus, HEALTHY, HOST_KEY_UNCHECKED, MANIFESTS_RETRIEVED,
        NAMESPACE_LABELLED, READY, RECOVERED, Statement, VERSION_WITHDRAWN,
    },
    health::WorkloadHealth,
    placement::PlacementRefused,
    release::Release,
    release_name::ReleaseNameTaken,
    retry::{self, AttemptResult},
    stuck::StuckAction,
    validation::field_error::{FieldError, message},
    withdrawal::Withdrawal,
};

/// What happened last to an installation.
#[derive(Clone, Copy, Debug)]
pub enum Report<'a> {
    /// It breaks rules.
    Invalid(&'a [FieldError]),
    /// It was never installed, and its definition or version is absent.
    NotFound(&'a str),
    /// It runs, and its definition or version is gone.
    Withdrawn(Withdrawal, &'a str),
    /// The release belongs to another installation.
    NameTaken(&'a ReleaseNameTaken),
    /// The rights in the target namespace do not suffice.
    NotPermitted(&'a str),
    /// The app may not be where the installation wants it.
    PlacementRefused(&'a PlacementRefused),
    /// A label or annotation of the namespace belongs to another writer.
    NamespaceConflict(&'a str),
    /// The chart could not be fetched.
    DownloadFailed(&'a str),
    /// The chart was fetched, and an operation begins.
    Installing,
    /// An operation ended, or was not needed since nothing changed.
    Attempted {
        /// How.
        result: AttemptResult,
        /// The error for people; empty after a success.
        error: &'a str,
        /// Whether failures count.
        is_atomic: bool,
        /// What was to be applied.
        digest: &'a AppliedDigest,
    },
    /// The installation was deleted or changed while an operation ran.
    Cancelled(CancelCause),
    /// The release could not be removed.
    UninstallFailed(&'a str),
    /// A stuck release was repaired.
    Recovered(StuckAction),
    /// A stuck release could not be repaired.
    RecoveryFailed(&'a str),
}

/// Why an operation was cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CancelCause {
    /// The installation was deleted.
    Deleted,
    /// The spec changed, and an operation for it follows.
    Changed,
}

impl CancelCause {
    fn message(self) -> &'static str {
        match self {
            CancelCause::Deleted => "the operation was cancelled by the deletion",
            CancelCause::Changed => "the operation was cancelled by a change of the spec",
        }
    }
}

/// What is known besides the report.
#[derive(Clone, Debug)]
pub struct StatusInput<'a> {
    /// The status before.
    pub before: &'a ApplicationInstallationStatus,
    /// The generation of the spec.
    pub generation: i64,
    /// The version in the definition, and the method; `None`: not known, so they stay.
    pub version: Option<(&'a ApplicationVersion, &'a str)>,
    /// The newest revision of the release; `None`: there is none.
    pub release: Option<&'a Release>,
    /// The operation that runs.
    pub operation: Option<&'a InstallationOperation>,
    /// The time.
    pub now: Timestamp,
}

/// The status after a report. It equals the one before if nothing changed.
pub fn status(input: &StatusInput<'_>, report: Report<'_>) -> ApplicationInstallationStatus {
    let mut draft = StatusDraft::begin(input);
    draft.report(report);
    draft.status
}

/// The status with the health of the workloads. `None`: there is no release, so it has none.
pub fn with_health(
    before: &ApplicationInstallationStatus,
    health: Option<&WorkloadHealth>,
    generation: i64,
    now: Timestamp,
) -> ApplicationInstallationStatus {
    let mut draft = StatusDraft {
        status: before.clone(),
        generation,
        now: format_time(now),
    };
    match health {
        Some(health) => draft.set_health(health),
        None => drop(draft.status.conditions.remove(HEALTHY)),
    }
    draft.status
}

/// A time as Kubernetes writes it, without fractions of a second.
pub(crate) fn format_time(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

struct StatusDraft {
    status: ApplicationInstallationStatus,
    generation: i64,
    now: String,
}

impl StatusDraft {
    fn begin(input: &StatusInput<'_>) -> StatusDraft {
        let mut status = input.before.clone();
        let ready = status.conditions.get(READY);
        if ready.is_some_and(|ready| ready.observed_generation != input.generation) {
            status.failures = 0;
        }
        status.helm_release = input.release.map(Release::to_status);
        status.operation = input.operation.cloned();
        if let Some((version, method)) = input.version {
            status.application_version = Some(version.clone());
            status.method = Some(method.to_owned());
        }
        let mut draft = StatusDraft {
            status,
            generation: input.generation,
            now: format_time(input.now),
        };
        if let Some((version, _)) = input.version {
            draft.set_host_key(version);
        }
        draft
    }

    fn set(&mut self, kind: &str, status: ConditionStatus, reason: &str, message: &str) {
        let statement = Statement {
            kind,
            status,
            reason,
            message,
        };
        let conditions = &mut self.status.conditions;
        conditions::set(conditions, &statement, self.generation, &self.now);
    }

    fn set_ready(&mut self, status: ConditionStatus, reason: &str, message: &str) {
        self.set(READY, status, reason, message);
    }

    /// A source with this option can be replaced by an attacker in the network.
    fn set_host_key(&mut self, version: &ApplicationVersion) {
        let git = version.template.source.git.as_ref();
        if git.is_some_and(|git| git.insecure_ignore_host_key) {
            let message = "insecureIgnoreHostKey is set: the server is not authenticated";
            let status = ConditionStatus::True;
            self.set(HOST_KEY_UNCHECKED, status, "InsecureIgnoreHostKey", message);
        } else {
            self.status.conditions.remove(HOST_KEY_UNCHECKED);
        }
    }

    fn set_health(&mut self, health: &WorkloadHealth) {
        let (status, reason) = match health.is_available {
            Some(true) => (ConditionStatus::True, "WorkloadsAvailable"),
            Some(false) => (ConditionStatus::False, "WorkloadsUnavailable"),
            None => (ConditionStatus::Unknown, "WorkloadsUnknown"),
        };
        self.set(HEALTHY, status, reason, &health.message);
    }

    /// The object follows the rules, and its version exists.
    fn accept(&mut self) {
        self.set(ACCEPTED, ConditionStatus::True, "Valid", "");
        self.status.conditions.remove(VERSION_WITHDRAWN);
    }

    fn report(&mut self, report: Report<'_>) {
        let no = ConditionStatus::False;
        match report {
            Report::Invalid(errors) => self.set(ACCEPTED, no, "Invalid", &message(errors)),
            Report::NotFound(text) => self.set(ACCEPTED, no, "NotFound", text),
            Report::Withdrawn(withdrawal, text) => {
                let reason = withdrawal.reason();
                self.set(VERSION_WITHDRAWN, ConditionStatus::True, reason, text);
            }
            Report::NameTaken(taken) => {
                self.accept();
                self.set_ready(no, "ReleaseNameTaken", &taken.to_string());
            }
            Report::NotPermitted(text) => {
                self.accept();
                self.set_ready(no, "NotPermitted", text);
            }
            Report::PlacementRefused(refused) => {
                // The gateway publishes accepted installations only. The placement stays, so that
                // a release whose permission was withdrawn can be removed.
                let text = refused.to_string();
                self.set(ACCEPTED, no, "NotPermitted", &text);
                self.set_ready(no, "NotPermitted", &text);
            }
            Report::NamespaceConflict(text) => {
                self.accept();
                // An app that runs is still ready.
                self.set(NAMESPACE_LABELLED, no, "Conflict", text);
            }
            Report::DownloadFailed(text) => {
                self.accept();
                self.set(MANIFESTS_RETRIEVED, no, "DownloadSourceFailed", text);
            }
            Report::Installing => {
                self.accept();
                self.retrieved();
                let message = "the app is being installed or upgraded";
                let status = ConditionStatus::Unknown;
                self.set_ready(status, "InstallationInProgress", message);
            }
            Report::Attempted {
                result,
                error,
                is_atomic,
                digest,
            } => self.attempted(result, error, is_atomic, digest),
            Report::Cancelled(cause) => self.set_ready(no, "Cancelled", cause.message()),
            Report::UninstallFailed(text) => self.set_ready(no, "UninstallFailed", text),
            Report::Recovered(action) => self.recovered(action),
            Report::RecoveryFailed(text) => self.set(RECOVERED, no, "RecoveryFailed", text),
        }
    }

    fn retrieved(&mut self) {
        let message = "the chart was downloaded";
        let status = ConditionStatus::True;
        self.set(
            MANIFESTS_RETRIEVED,
            status,
            "DownloadSourceSuccessful",
            message,
        );
    }

    fn attempted(
        &mut self,
        result: AttemptResult,
        error: &str,
        is_atomic: bool,
        digest: &AppliedDigest,
    ) {
        self.accept();
        let counted = retry::count(self.status.failures, result, is_atomic);
        self.status.failures = counted.failures;
        if result == AttemptResult::Succeeded {
            self.retrieved();
            self.status.applied_digest = Some(digest.to_string());
            let message = "application successfully installed or upgraded";
            return self.set_ready(ConditionStatus::True, "InstallationSuccessful", message);
        }
        let no = ConditionStatus::False;
        if counted.is_exceeded {
            let message = retry::exceeded_message(error);
            self.set_ready(no, "InstallationFailedRetriesExceeded", &message);
        } else {
            self.set_ready(no, "InstallationFailed", error);
        }
    }

    fn recovered(&mut self, action: StuckAction) {
        let (reason, text) = match action {
            StuckAction::Nothing => return,
            StuckAction::Rollback(revision) => {
                ("RolledBack", format!("rolled back to revision {revision}"))
            }
            StuckAction::Uninstall => {
                let text = "the interrupted installation was removed".to_owned();
                ("Uninstalled", text)
            }
            StuckAction::UninstallAgain => {
                let text = "the interrupted uninstall was completed".to_owned();
                ("Uninstalled", text)
            }
        };
        self.status.failures = 0;
        self.set(RECOVERED, ConditionStatus::True, reason, &text);
    }
}

#[cfg(test)]
mod tests;
