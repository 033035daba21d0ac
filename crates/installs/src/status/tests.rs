//! The sequences of a status.

use ludgate_cluster::crd::installation_status::{InstallationCondition, InstallationPlacement};
use serde_json::json;

use super::*;
use crate::{
    applied_digest::InputDigest, deploy_options::EffectiveOptions, release::ReleaseStatus, samples,
};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_767_225_600 + second).expect("a time")
}

/// One installation, and the reports that it gets.
struct Sequence {
    status: ApplicationInstallationStatus,
    generation: i64,
    second: i64,
}

impl Sequence {
    fn new() -> Sequence {
        Sequence {
            status: ApplicationInstallationStatus::default(),
            generation: 1,
            second: 0,
        }
    }

    fn report(&mut self, release: Option<&Release>, report: Report<'_>) {
        let version = samples::version("1.0.0");
        let input = StatusInput {
            before: &self.status,
            generation: self.generation,
            version: Some((&version, "helm")),
            release,
            operation: None,
            now: at(self.second),
        };
        self.status = status(&input, report);
        self.second += 1;
    }

    fn attempt(&mut self, result: AttemptResult, is_atomic: bool) {
        let release = samples::release(1, ReleaseStatus::Deployed);
        let failed = result != AttemptResult::Succeeded;
        let error = if failed { "timed out" } else { "" };
        let digest = digest();
        let report = Report::Attempted {
            result,
            error,
            is_atomic,
            digest: &digest,
        };
        self.report(Some(&release), report);
    }

    fn condition(&self, kind: &str) -> InstallationCondition {
        self.status
            .conditions
            .get(kind)
            .cloned()
            .unwrap_or_default()
    }

    /// `Ready` as status and reason.
    fn ready(&self) -> (String, String) {
        let ready = self.condition(READY);
        (ready.status, ready.reason)
    }
}

fn digest() -> AppliedDigest {
    let version = samples::version("1.0.0");
    InputDigest::new(&version, &samples::no_values(), EffectiveOptions::default()).with_chart("c")
}

fn pair(status: &str, reason: &str) -> (String, String) {
    (status.to_owned(), reason.to_owned())
}

#[test]
fn an_installation_goes_from_the_download_to_success() {
    let mut sequence = Sequence::new();
    sequence.report(None, Report::Installing);
    let retrieved = sequence.condition(MANIFESTS_RETRIEVED);
    assert_eq!(retrieved.status, "True");
    assert_eq!(retrieved.reason, "DownloadSourceSuccessful");
    assert_eq!(sequence.ready(), pair("Unknown", "InstallationInProgress"));
    sequence.attempt(AttemptResult::Succeeded, false);
    assert_eq!(sequence.ready(), pair("True", "InstallationSuccessful"));
    let ready = sequence.condition(READY);
    assert_eq!(
        ready.message,
        "application successfully installed or upgraded"
    );
    assert_eq!(
        ready.last_transition_time.as_deref(),
        Some("2026-01-01T00:00:01Z")
    );
    let status = serde_json::to_value(&sequence.status).expect("JSON");
    assert_eq!(status["helmRelease"]["name"], "apps-app-1");
    assert_eq!(status["helmRelease"]["version"], 1);
    assert_eq!(
        status["helmRelease"]["info"],
        json!({ "status": "deployed" })
    );
    assert_eq!(status["method"], "helm");
    assert_eq!(status["applicationVersion"]["version"], "1.0.0");
    assert_eq!(status["appliedDigest"], digest().to_string());
    assert!(status.get("failures").is_none());

    let before = sequence.status.clone();
    sequence.attempt(AttemptResult::Succeeded, false);
    assert_eq!(
        sequence.status, before,
        "nothing changed, so nothing is written"
    );
}

#[test]
fn a_failed_download_leaves_the_release_and_ready_as_they_are() {
    let mut sequence = Sequence::new();
    sequence.attempt(AttemptResult::Succeeded, false);
    let release = samples::release(1, ReleaseStatus::Deployed);
    sequence.generation = 2;
    sequence.report(Some(&release), Report::DownloadFailed("HTTP 503"));
    let retrieved = sequence.condition(MANIFESTS_RETRIEVED);
    assert_eq!(
        (retrieved.status.as_str(), retrieved.message.as_str()),
        ("False", "HTTP 503")
    );
    assert_eq!(retrieved.reason, "DownloadSourceFailed");
    assert_eq!(sequence.ready(), pair("True", "InstallationSuccessful"));
    assert!(!conditions::is_ready(&sequence.status.conditions, 2));
    sequence.report(Some(&release), Report::Installing);
    sequence.attempt(AttemptResult::Succeeded, false);
    assert!(conditions::is_ready(&sequence.status.conditions, 2));
}

#[test]
fn failures_count_until_a_success_or_a_change() {
    let mut sequence = Sequence::new();
    for wanted in 1..=6 {
        sequence.attempt(AttemptResult::Failed, true);
        assert_eq!(sequence.status.failures, wanted);
        assert_eq!(sequence.ready(), pair("False", "InstallationFailed"));
        sequence.report(None, Report::Installing);
        assert_eq!(sequence.status.failures, wanted);
    }
    for _ in 0..2 {
        sequence.attempt(AttemptResult::Failed, true);
        assert_eq!(sequence.status.failures, 6);
        assert_eq!(
            sequence.ready(),
            pair("False", "InstallationFailedRetriesExceeded")
        );
        let wanted = "Max number of retries was exceeded. Last error: timed out";
        assert_eq!(sequence.condition(READY).message, wanted);
    }
    sequence.generation = 2;
    sequence.report(None, Report::Installing);
    assert_eq!(sequence.status.failures, 0);
    sequence.attempt(AttemptResult::Failed, true);
    assert_eq!(sequence.status.failures, 1);
    sequence.attempt(AttemptResult::Disturbed, true);
    assert_eq!(sequence.status.failures, 1);
    sequence.attempt(AttemptResult::Succeeded, true);
    assert_eq!(sequence.status.failures, 0);
    sequence.attempt(AttemptResult::Failed, false);
    assert_eq!(sequence.status.failures, 0);
}

#[test]
fn each_report_has_its_reason() {
    let taken = ReleaseNameTaken {
        release: "r".into(),
        namespace: "n".into(),
    };
    let errors = [FieldError::immutable("spec.namespace.name")];
    let withdrawal = Withdrawal::VersionRemoved;
    for (report, kind, status, reason) in [
        (Report::Invalid(&errors), ACCEPTED, "False", "Invalid"),
        (Report::NotFound("x"), ACCEPTED, "False", "NotFound"),
        (
            Report::Withdrawn(withdrawal, "x"),
            VERSION_WITHDRAWN,
            "True",
            "ApplicationVersionRemoved",
        ),
        (
            Report::NameTaken(&taken),
            READY,
            "False",
            "ReleaseNameTaken",
        ),
        (Report::NotPermitted("x"), READY, "False", "NotPermitted"),
        (
            Report::Cancelled(CancelCause::Deleted),
            READY,
            "False",
            "Cancelled",
        ),
        (
            Report::Cancelled(CancelCause::Changed),
            READY,
            "False",
            "Cancelled",
        ),
        (
            Report::UninstallFailed("x"),
            READY,
            "False",
            "UninstallFailed",
        ),
        (
            Report::Recovered(StuckAction::Rollback(1)),
            RECOVERED,
            "True",
            "RolledBack",
        ),
        (
            Report::Recovered(StuckAction::UninstallAgain),
            RECOVERED,
            "True",
            "Uninstalled",
        ),
        (
            Report::RecoveryFailed("x"),
            RECOVERED,
            "False",
            "RecoveryFailed",
        ),
    ] {
        let mut sequence = Sequence::new();
        sequence.report(None, report);
        let condition = sequence.condition(kind);
        let found = (condition.status.as_str(), condition.reason.as_str());
        assert_eq!(found, (status, reason), "{report:?}");
    }
}

#[test]
fn a_withdrawn_version_keeps_ready_and_the_condition_ends_with_its_return() {
    let mut sequence = Sequence::new();
    sequence.attempt(AttemptResult::Succeeded, false);
    let release = samples::release(1, ReleaseStatus::Deployed);
    let withdrawn = Report::Withdrawn(Withdrawal::DefinitionRemoved, "gone");
    sequence.report(Some(&release), withdrawn);
    assert_eq!(sequence.ready(), pair("True", "InstallationSuccessful"));
    assert_eq!(sequence.condition(VERSION_WITHDRAWN).message, "gone");
    sequence.report(Some(&release), Report::Installing);
    assert!(!sequence.status.conditions.contains_key(VERSION_WITHDRAWN));
}

#[test]
fn an_unchecked_host_key_is_shown() {
    let git = json!({
        "remote": "git@git.example:a.git", "ref": { "tag": "v1" }, "insecureIgnoreHostKey": true,
    });
    let version = json!({ "version": "1.0.0", "template": { "source": { "git": git } } });
    let unchecked: ApplicationVersion = serde_json::from_value(version).expect("a version");
    let checked = samples::version("1.0.0");
    let mut before = ApplicationInstallationStatus::default();
    for (version, is_shown) in [(&unchecked, true), (&checked, false)] {
        let input = StatusInput {
            before: &before,
            generation: 1,
            version: Some((version, "helm")),
            release: None,
            operation: None,
            now: at(0),
        };
        let after = status(&input, Report::Installing);
        assert_eq!(after.conditions.contains_key(HOST_KEY_UNCHECKED), is_shown);
        before = after;
    }
}

#[test]
fn health_is_shown_while_there_is_a_release() {
    let mut before = ApplicationInstallationStatus::default();
    for (is_available, status, reason) in [
        (Some(true), "True", "WorkloadsAvailable"),
        (Some(false), "False", "WorkloadsUnavailable"),
        (None, "Unknown", "WorkloadsUnknown"),
    ] {
        let health = WorkloadHealth {
            is_available,
            message: "m".into(),
        };
        let after = with_health(&before, Some(&health), 1, at(0));
        let healthy = &after.conditions[HEALTHY];
        assert_eq!(
            (healthy.status.as_str(), healthy.reason.as_str()),
            (status, reason)
        );
        // Without a change, nothing is written.
        assert_eq!(with_health(&after, Some(&health), 1, at(1)), after);
        before = after;
    }
    let without = with_health(&before, None, 1, at(2));
    assert_eq!(without, ApplicationInstallationStatus::default());
}

#[test]
fn a_refused_placement_is_not_accepted_and_a_conflict_leaves_an_app_ready() {
    let mut sequence = Sequence::new();
    sequence.attempt(AttemptResult::Succeeded, false);
    sequence.status.placement = Some(InstallationPlacement::default());
    let release = samples::release(1, ReleaseStatus::Deployed);
    let conflict = Report::NamespaceConflict("label env");
    sequence.report(Some(&release), conflict);
    let labelled = sequence.condition(NAMESPACE_LABELLED);
    assert_eq!(
        (labelled.status, labelled.message),
        pair("False", "label env")
    );
    assert_eq!(sequence.ready(), pair("True", "InstallationSuccessful"));
    assert!(sequence.status.placement.is_some());
    let refused = PlacementRefused::Protected("kube-system".to_owned());
    sequence.report(Some(&release), Report::PlacementRefused(&refused));
    assert_eq!(sequence.ready(), pair("False", "NotPermitted"));
    assert_eq!(sequence.condition(ACCEPTED).status, "False");
    assert!(sequence.status.placement.is_some());
}
