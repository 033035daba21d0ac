//! The limit of log lines that one app or its clients can cause.

use std::time::{Duration, Instant};

/// Reports are at least this far apart.
const REPORT_INTERVAL: Duration = Duration::from_secs(60);

/// At most one report a minute.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReportLimit {
    reported_at: Option<Instant>,
}

impl ReportLimit {
    /// Whether a report is due. If so, the next one is due a minute later.
    pub fn acquire(&mut self, now: Instant) -> bool {
        let is_due = self
            .reported_at
            .is_none_or(|at| now.saturating_duration_since(at) >= REPORT_INTERVAL);
        if is_due {
            self.reported_at = Some(now);
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_report_a_minute_is_due() {
        let (mut limit, start) = (ReportLimit::default(), Instant::now());
        for (second, is_due) in [
            (0, true),
            (1, false),
            (59, false),
            (60, true),
            (61, false),
            (119, false),
            (300, true),
        ] {
            let now = start + Duration::from_secs(second);
            assert_eq!(limit.acquire(now), is_due, "second {second}");
        }
    }
}
