//! Failed attempts: how they count, when the next one is, and the order of a recovery.
//!
//! Counters and reasons are those of the Kubermatic Kubernetes Platform. It stops after five
//! failures; here attempts go on for ever, with longer and longer pauses.

use std::time::Duration;

use ludgate_cluster::crd::installation_status::InstallationCondition;

use crate::{conditions::ConditionStatus, release::ReleaseStatus, stuck::StuckAction};

/// More failures than this are shown as exceeded.
pub const MAX_FAILURES: i64 = 5;
/// The beginning of the message of an exceeded count.
pub const EXCEEDED_PREFIX: &str = "Max number of retries was exceeded. Last error: ";

const MIN_DELAY: Duration = Duration::from_secs(10);
const MAX_DELAY: Duration = Duration::from_secs(600);

/// How an attempt to install or upgrade ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptResult {
    /// The app is installed.
    Succeeded,
    /// It is not, because of the chart, its values or its objects.
    Failed,
    /// It is not, because the API server or another operation stood in the way.
    Disturbed,
}

/// The failures after an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FailureCount {
    /// The number in the status.
    pub failures: i64,
    /// Whether the status says that there were too many.
    pub is_exceeded: bool,
}

/// Counts an attempt. Only atomic installations count: others leave a failed release, on which the
/// next attempt continues. `is_changed`: the spec changed since the last attempt.
pub fn count(
    failures: i64,
    result: AttemptResult,
    is_atomic: bool,
    is_changed: bool,
) -> FailureCount {
    let before = if is_changed { 0 } else { failures };
    let (failures, is_exceeded) = match result {
        AttemptResult::Succeeded => (0, false),
        AttemptResult::Disturbed => (before, false),
        AttemptResult::Failed if !is_atomic => (before, false),
        AttemptResult::Failed if before > MAX_FAILURES => (before, true),
        AttemptResult::Failed => (before.saturating_add(1), false),
    };
    FailureCount {
        failures,
        is_exceeded,
    }
}

/// The pause before the next attempt after this many attempts without success, of any kind: 10
/// seconds, doubled up to 10 minutes.
pub fn delay(attempts: u32) -> Duration {
    let factor = 1u32
        .checked_shl(attempts.saturating_sub(1))
        .unwrap_or(u32::MAX);
    MIN_DELAY.saturating_mul(factor).min(MAX_DELAY)
}

/// The message of an exceeded count. The prefix stands there once, however often it is set.
pub fn exceeded_message(error: &str) -> String {
    let mut error = error;
    while let Some(rest) = error.strip_prefix(EXCEEDED_PREFIX) {
        error = rest;
    }
    format!("{EXCEEDED_PREFIX}{error}")
}

/// Whether the API server's response means that the same call may succeed later.
pub fn is_disturbance(code: u16) -> bool {
    matches!(code, 408 | 409 | 429 | 500..=599)
}

/// Parts of Helm's messages about the API server and about other operations.
const DISTURBANCES: [&str; 14] = [
    "another operation (install/upgrade/rollback) is in progress",
    "the object has been modified",
    "the server is currently unable to handle the request",
    "the server was unable to return a response",
    "Too many requests",
    "too many requests",
    "Internal error occurred",
    "etcdserver: ",
    "connection refused",
    "connection reset by peer",
    "unexpected EOF",
    "i/o timeout",
    "TLS handshake timeout",
    "Kubernetes cluster unreachable",
];

/// The result that Helm's error message means.
pub fn from_helm_error(message: &str) -> AttemptResult {
    match DISTURBANCES.iter().any(|part| message.contains(part)) {
        true => AttemptResult::Disturbed,
        false => AttemptResult::Failed,
    }
}

/// Whether the next attempt waits for its pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryGate {
    /// Attempts may follow each other as their pauses say.
    Open,
    /// The count is wrong: Helm has deployed the current spec. It begins at zero again.
    Reset,
    /// Too many failures: the longest pause, and the reason says so.
    Limited,
}

/// The gate of an installation with this many failures. `ready` is its condition.
pub fn gate(
    failures: i64,
    is_atomic: bool,
    ready: Option<&InstallationCondition>,
    generation: i64,
    release: Option<ReleaseStatus>,
) -> RetryGate {
    if failures <= MAX_FAILURES || !is_atomic {
        return RetryGate::Open;
    }
    let is_current = ready.is_some_and(|ready| {
        ready.status == ConditionStatus::True.as_str() && ready.observed_generation == generation
    });
    match is_current && release == Some(ReleaseStatus::Deployed) {
        true => RetryGate::Reset,
        false => RetryGate::Limited,
    }
}

/// A recovery of a stuck release, in the order that survives a crash: the failures are zero in the
/// status before the release changes, so that a repaired release is never kept from attempts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recovery {
    /// What repairs the release.
    pub action: StuckAction,
    /// The failures before.
    pub failures: i64,
}

/// What happened last in a recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecoveryStage {
    /// Nothing yet.
    Begun,
    /// The write of the zero ended.
    ResetWritten {
        /// Whether it succeeded.
        succeeded: bool,
    },
    /// Helm ended.
    Repaired {
        /// Whether it succeeded.
        succeeded: bool,
    },
}

/// What comes next in a recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecoveryStep {
    /// Write this number of failures to the status.
    WriteFailures(i64),
    /// Repair the release.
    Repair(StuckAction),
    /// Write the earlier number of failures, and report the error.
    RestoreFailures(i64),
    /// Report the error.
    Abort,
    /// The release can be upgraded.
    Done,
}

impl Recovery {
    /// What comes after a stage.
    pub fn next(self, stage: RecoveryStage) -> RecoveryStep {
        match stage {
            RecoveryStage::Begun if self.action == StuckAction::Nothing => RecoveryStep::Done,
            RecoveryStage::Begun if self.failures != 0 => RecoveryStep::WriteFailures(0),
            RecoveryStage::Begun | RecoveryStage::ResetWritten { succeeded: true } => {
                RecoveryStep::Repair(self.action)
            }
            RecoveryStage::ResetWritten { succeeded: false } => RecoveryStep::Abort,
            RecoveryStage::Repaired { succeeded: true } => RecoveryStep::Done,
            RecoveryStage::Repaired { succeeded: false } if self.failures != 0 => {
                RecoveryStep::RestoreFailures(self.failures)
            }
            RecoveryStage::Repaired { succeeded: false } => RecoveryStep::Abort,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_count_as_in_the_kubermatic_platform() {
        use AttemptResult::{Disturbed, Failed, Succeeded};
        for (failures, result, is_atomic, is_changed, wanted, is_exceeded) in [
            (0, Succeeded, true, false, 0, false),
            (0, Succeeded, false, false, 0, false),
            (2, Failed, true, false, 3, false),
            (3, Succeeded, true, false, 0, false),
            (3, Failed, true, true, 1, false),
            (6, Failed, true, false, 6, true),
            (6, Succeeded, true, true, 0, false),
            (6, Failed, true, true, 1, false),
            (0, Failed, false, false, 0, false),
            (5, Failed, true, false, 6, false),
            (2, Disturbed, true, false, 2, false),
            (6, Disturbed, true, false, 6, false),
        ] {
            let counted = count(failures, result, is_atomic, is_changed);
            let wanted = FailureCount {
                failures: wanted,
                is_exceeded,
            };
            assert_eq!(
                counted, wanted,
                "{failures} {result:?} {is_atomic} {is_changed}"
            );
        }
    }

    #[test]
    fn pauses_double_up_to_ten_minutes_and_never_end() {
        let seconds = [0, 1, 2, 3, 6, 7, 8, 1000, u32::MAX].map(|count| delay(count).as_secs());
        assert_eq!(seconds, [10, 10, 20, 40, 320, 600, 600, 600, 600]);
    }

    #[test]
    fn the_prefix_of_the_message_never_grows() {
        let once = exceeded_message("timed out");
        assert_eq!(
            once,
            "Max number of retries was exceeded. Last error: timed out"
        );
        assert_eq!(exceeded_message(&once), once);
        assert_eq!(exceeded_message(&format!("{EXCEEDED_PREFIX}{once}")), once);
    }

    #[test]
    fn the_api_servers_troubles_do_not_count() {
        for (message, wanted) in [
            (
                "Error: another operation (install/upgrade/rollback) is in progress",
                AttemptResult::Disturbed,
            ),
            (
                "Error: Kubernetes cluster unreachable: dial tcp: connection refused",
                AttemptResult::Disturbed,
            ),
            (
                "Error: UPGRADE FAILED: the server is currently unable to handle the request",
                AttemptResult::Disturbed,
            ),
            (
                "Error: INSTALLATION FAILED: timed out waiting for the condition",
                AttemptResult::Failed,
            ),
            (
                "Error: INSTALLATION FAILED: execution error",
                AttemptResult::Failed,
            ),
        ] {
            assert_eq!(from_helm_error(message), wanted, "{message}");
        }
        for (code, wanted) in [
            (409, true),
            (429, true),
            (503, true),
            (403, false),
            (422, false),
        ] {
            assert_eq!(is_disturbance(code), wanted, "{code}");
        }
    }

    #[test]
    fn a_wrong_count_is_reset_only_if_helm_deployed_the_current_spec() {
        let ready = |status: &str, generation: i64| InstallationCondition {
            status: status.into(),
            observed_generation: generation,
            ..InstallationCondition::default()
        };
        let deployed = Some(ReleaseStatus::Deployed);
        for (failures, is_atomic, ready, release, wanted) in [
            (6, true, ready("True", 2), deployed, RetryGate::Reset),
            (6, true, ready("True", 1), deployed, RetryGate::Limited),
            (6, true, ready("False", 2), deployed, RetryGate::Limited),
            (
                6,
                true,
                ready("True", 2),
                Some(ReleaseStatus::Failed),
                RetryGate::Limited,
            ),
            (6, true, ready("True", 2), None, RetryGate::Limited),
            (5, true, ready("False", 2), None, RetryGate::Open),
            (6, false, ready("False", 2), None, RetryGate::Open),
        ] {
            let found = gate(failures, is_atomic, Some(&ready), 2, release);
            assert_eq!(
                found, wanted,
                "{failures} {is_atomic} {ready:?} {release:?}"
            );
        }
    }

    #[test]
    fn failures_are_zero_before_the_repair_and_come_back_if_it_fails() {
        let stages = [
            RecoveryStage::Begun,
            RecoveryStage::ResetWritten { succeeded: true },
            RecoveryStage::ResetWritten { succeeded: false },
            RecoveryStage::Repaired { succeeded: true },
            RecoveryStage::Repaired { succeeded: false },
        ];
        let action = StuckAction::Rollback(1);
        let repair = RecoveryStep::Repair(action);
        for (failures, wanted) in [
            (
                6,
                [
                    RecoveryStep::WriteFailures(0),
                    repair,
                    RecoveryStep::Abort,
                    RecoveryStep::Done,
                    RecoveryStep::RestoreFailures(6),
                ],
            ),
            (
                0,
                [
                    repair,
                    repair,
                    RecoveryStep::Abort,
                    RecoveryStep::Done,
                    RecoveryStep::Abort,
                ],
            ),
        ] {
            let recovery = Recovery { action, failures };
            assert_eq!(
                stages.map(|stage| recovery.next(stage)),
                wanted,
                "{failures}"
            );
        }
        let nothing = Recovery {
            action: StuckAction::Nothing,
            failures: 6,
        };
        assert_eq!(nothing.next(RecoveryStage::Begun), RecoveryStep::Done);
    }
}
