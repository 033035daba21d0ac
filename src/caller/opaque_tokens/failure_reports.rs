//! Failed introspections, for the log: at most one line a minute, with their number. Clients choose
//! how many tokens they present.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use crate::model::clock::{Moment, millis};

/// Failures are reported at most this often.
const REPORT_INTERVAL: Duration = Duration::from_secs(60);

/// Counts failures between reports.
#[derive(Debug, Default)]
pub(super) struct FailureReports(Mutex<UnreportedFailures>);

#[derive(Debug, Default)]
struct UnreportedFailures {
    count: u64,
    reported_at: Option<Moment>,
}

impl FailureReports {
    /// Counts a failure. Returns the number of failures since the last report if one is due.
    pub(super) fn count(&self, now: Moment) -> Option<u64> {
        let mut unreported = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        unreported.count += 1;
        let is_due = unreported
            .reported_at
            .is_none_or(|at| now.0.saturating_sub(at.0) >= millis(REPORT_INTERVAL));
        if !is_due {
            return None;
        }
        unreported.reported_at = Some(now);
        Some(std::mem::take(&mut unreported.count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_reported_once_a_minute_with_their_number() {
        let reports = FailureReports::default();
        for (millis, wanted) in [
            (0, Some(1)),
            (1, None),
            (59_999, None),
            (60_000, Some(3)),
            (60_001, None),
            (200_000, Some(2)),
        ] {
            assert_eq!(reports.count(Moment(millis)), wanted, "{millis}");
        }
    }
}
