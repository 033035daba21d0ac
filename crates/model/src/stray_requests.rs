//! Requests that pages of an app send to addresses outside of its mount, usually because the app
//! does not know its mount. At most one a minute is reported to operators.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

/// Stray requests of one app are reported at most this often.
const REPORT_INTERVAL: Duration = Duration::from_secs(60);

/// When stray requests of one app were reported last. It survives changes of the app while it is
/// published.
#[derive(Clone, Debug, Default)]
pub struct StrayRequests(Arc<Mutex<Option<Instant>>>);

impl StrayRequests {
    /// Records a stray request. Returns whether it is to be reported.
    pub fn record(&self, now: Instant) -> bool {
        let mut reported = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = reported.is_none_or(|at| now.saturating_duration_since(at) >= REPORT_INTERVAL);
        if is_due {
            *reported = Some(now);
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_in_a_minute_is_reported() {
        let (stray, start) = (StrayRequests::default(), Instant::now());
        for (second, is_reported) in [
            (0, true),
            (1, false),
            (59, false),
            (60, true),
            (61, false),
            (119, false),
            (300, true),
        ] {
            let now = start + Duration::from_secs(second);
            assert_eq!(stray.record(now), is_reported, "second {second}");
        }
    }
}
