//! Failed introspections, for the log: at most one line a minute, with their number. Clients choose
//! how many tokens they present.

use std::{
    sync::{Mutex, PoisonError},
    time::Instant,
};

use crate::model::report_limit::ReportLimit;

/// Counts failures between reports.
#[derive(Debug, Default)]
pub(super) struct FailureReports(Mutex<UnreportedFailures>);

#[derive(Debug, Default)]
struct UnreportedFailures {
    count: u64,
    reports: ReportLimit,
}

impl FailureReports {
    /// Counts a failure. Returns the number of failures since the last report if one is due.
    pub(super) fn count(&self, now: Instant) -> Option<u64> {
        let mut unreported = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        unreported.count += 1;
        let is_due = unreported.reports.acquire(now);
        is_due.then(|| std::mem::take(&mut unreported.count))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn failures_are_reported_once_a_minute_with_their_number() {
        let (reports, start) = (FailureReports::default(), Instant::now());
        for (millis, wanted) in [
            (0, Some(1)),
            (1, None),
            (59_999, None),
            (60_000, Some(3)),
            (60_001, None),
            (200_000, Some(2)),
        ] {
            let now = start + Duration::from_millis(millis);
            assert_eq!(reports.count(now), wanted, "{millis}");
        }
    }
}
