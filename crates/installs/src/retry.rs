//! Failed attempts: how they count, and when the next one is.
//!
//! Counters and reasons are those of the Kubermatic Kubernetes Platform. It stops after five
//! failures; here attempts go on for ever, with longer and longer pauses.

use std::time::Duration;

use crate::{release::ReleaseStatus, stuck::StuckAction};

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
/// next attempt continues.
pub fn count(failures: i64, result: AttemptResult, is_atomic: bool) -> FailureCount {
    let (failures, is_exceeded) = match result {
        AttemptResult::Succeeded => (0, false),
        AttemptResult::Disturbed => (failures, false),
        AttemptResult::Failed if !is_atomic => (failures, false),
        AttemptResult::Failed if failures > MAX_FAILURES => (failures, true),
        AttemptResult::Failed => (failures.saturating_add(1), false),
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

/// The message for an error after the last permitted attempt. An error that has the prefix already
/// does not get a second one.
pub fn exceeded_message(error: &str) -> String {
    let error = error.strip_prefix(EXCEEDED_PREFIX).unwrap_or(error);
    format!("{EXCEEDED_PREFIX}{error}")
}

/// Whether the count is wrong: there are too many failures, although the installation is ready and
/// Helm has deployed its newest revision.
pub fn is_count_wrong(
    failures: i64,
    is_atomic: bool,
    is_ready: bool,
    release: Option<ReleaseStatus>,
) -> bool {
    is_atomic && failures > MAX_FAILURES && is_ready && release == Some(ReleaseStatus::Deployed)
}

/// A recovery of a stuck release. The status says zero failures before the release changes, so
/// that a crash in between leaves no repaired release that is kept from attempts. If the repair
/// fails, the earlier count returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recovery {
    /// What repairs the release.
    pub action: StuckAction,
    /// The failures before.
    pub failures: i64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_count_as_in_the_kubermatic_platform() {
        use AttemptResult::{Disturbed, Failed, Succeeded};
        for (failures, result, is_atomic, wanted, is_exceeded) in [
            (0, Succeeded, true, 0, false),
            (0, Succeeded, false, 0, false),
            (0, Failed, true, 1, false),
            (2, Failed, true, 3, false),
            (3, Succeeded, true, 0, false),
            (6, Failed, true, 6, true),
            (6, Succeeded, true, 0, false),
            (0, Failed, false, 0, false),
            (5, Failed, true, 6, false),
            (2, Disturbed, true, 2, false),
            (6, Disturbed, true, 6, false),
        ] {
            let counted = count(failures, result, is_atomic);
            let wanted = FailureCount {
                failures: wanted,
                is_exceeded,
            };
            assert_eq!(counted, wanted, "{failures} {result:?} {is_atomic}");
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
    }

    #[test]
    fn a_count_is_wrong_only_if_helm_deployed_the_current_spec() {
        let deployed = Some(ReleaseStatus::Deployed);
        let failed = Some(ReleaseStatus::Failed);
        for (failures, is_atomic, is_ready, release, wanted) in [
            (6, true, true, deployed, true),
            (6, true, false, deployed, false),
            (6, true, true, failed, false),
            (6, true, true, None, false),
            (5, true, true, deployed, false),
            (6, false, true, deployed, false),
        ] {
            let found = is_count_wrong(failures, is_atomic, is_ready, release);
            assert_eq!(
                found, wanted,
                "{failures} {is_atomic} {is_ready} {release:?}"
            );
        }
    }
}
