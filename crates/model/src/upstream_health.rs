//! Whether the upstream of an app, or another server, fails, since when, and why.
//!
//! A request to a healthy app costs one relaxed load. Only failures, and the first success after
//! them, lock the record.

use std::{
    error::Error,
    fmt::Display,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use super::{error_cause::chain_text, report_limit::ReportLimit};

/// Longest text of a cause, in bytes.
const MAX_CAUSE: usize = 512;

/// The health of one app's upstream, as its requests show it. It survives changes of the app while
/// it is published.
#[derive(Clone, Debug, Default)]
pub struct UpstreamHealth(Arc<Record>);

#[derive(Debug, Default)]
struct Record {
    /// Changes only while `state` is locked.
    is_failing: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The last failure, or the cause of one that is about to be recorded.
    last: Option<UpstreamFailure>,
    failing_since: Option<Instant>,
    /// The outcome that was reported last, until the success after it.
    reported: Option<&'static str>,
    reports: ReportLimit,
}

/// A failure of an upstream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpstreamFailure {
    /// The stable word of the access log and the metrics.
    pub outcome: &'static str,
    /// The error of the system or the TLS library, with its causes.
    pub cause: Arc<str>,
}

/// The end of failures that were reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UpstreamRecovery {
    /// The outcome that was reported last.
    pub outcome: &'static str,
    /// From the first failure to this success.
    pub failed_for: Duration,
}

impl UpstreamHealth {
    /// Whether the last request got no response.
    pub fn is_failing(&self) -> bool {
        self.0.is_failing.load(Relaxed)
    }

    /// Records why a connection failed, before it is known whether the request fails too.
    pub fn record_cause(&self, outcome: &'static str, error: &dyn Error) {
        self.lock().last = Some(UpstreamFailure {
            outcome,
            cause: limited(chain_text(error)),
        });
    }

    /// Records that a request got no response. `fallback` is the cause if none was recorded for
    /// this outcome. Returns the failure if it is to be reported: the first one, and one with
    /// another outcome, at most once a minute.
    pub fn fail(
        &self,
        outcome: &'static str,
        fallback: &dyn Display,
        now: Instant,
    ) -> Option<UpstreamFailure> {
        let mut state = self.lock();
        self.0.is_failing.store(true, Relaxed);
        state.failing_since.get_or_insert(now);
        let known = state.last.take().filter(|last| last.outcome == outcome);
        let failure = known.unwrap_or_else(|| UpstreamFailure {
            outcome,
            cause: limited(fallback.to_string()),
        });
        state.last = Some(failure.clone());
        if state.reported == Some(outcome) || !state.reports.acquire(now) {
            return None;
        }
        state.reported = Some(outcome);
        Some(failure)
    }

    /// Records a response. Returns the recovery if the failures before it were reported.
    pub fn recover(&self, now: Instant) -> Option<UpstreamRecovery> {
        if !self.is_failing() {
            return None;
        }
        let mut state = self.lock();
        self.0.is_failing.store(false, Relaxed);
        state.last = None;
        let since = state.failing_since.take()?;
        let outcome = state.reported.take()?;
        Some(UpstreamRecovery {
            outcome,
            failed_for: now.saturating_duration_since(since),
        })
    }

    /// The last failure, and the time of the first one; `None`: the last request got a response, or
    /// there was none.
    pub fn failure(&self) -> Option<(UpstreamFailure, Instant)> {
        if !self.is_failing() {
            return None;
        }
        let state = self.lock();
        Some((state.last.clone()?, state.failing_since?))
    }

    /// The cause of the last failure with this outcome.
    pub fn cause(&self, outcome: &'static str) -> Option<Arc<str>> {
        let state = self.lock();
        let last = state.last.as_ref()?;
        (last.outcome == outcome).then(|| last.cause.clone())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The text of a cause, cut to its longest.
pub(crate) fn limited(mut text: String) -> Arc<str> {
    text.truncate(text.floor_char_boundary(MAX_CAUSE));
    text.into()
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    const REFUSED: &str = "upstream_refused";
    const EXPIRED: &str = "upstream_tls_expired";

    /// One request: an outcome, or a response.
    type Step = (u64, Option<&'static str>, bool);

    #[test]
    fn a_change_is_reported_once_and_at_most_once_a_minute() {
        let cases: [(&str, &[Step]); 5] = [
            (
                "begins and ceases",
                &[
                    (0, None, false),
                    (1, Some(REFUSED), true),
                    (2, Some(REFUSED), false),
                    (200, Some(REFUSED), false),
                    (201, None, true),
                    (202, None, false),
                ],
            ),
            (
                "an outage that begins again within the minute waits for its end",
                &[
                    (0, Some(REFUSED), true),
                    (1, None, true),
                    (2, Some(REFUSED), false),
                    (59, Some(REFUSED), false),
                    (60, Some(REFUSED), true),
                    (61, None, true),
                ],
            ),
            (
                "the end of an outage that was not reported is none to report",
                &[
                    (0, Some(REFUSED), true),
                    (1, None, true),
                    (2, Some(REFUSED), false),
                    (3, None, false),
                ],
            ),
            (
                "another outcome is a change",
                &[
                    (0, Some(REFUSED), true),
                    (61, Some(EXPIRED), true),
                    (62, Some(REFUSED), false),
                    (122, Some(REFUSED), true),
                ],
            ),
            ("healthy", &[(0, None, false), (100, None, false)]),
        ];
        let start = Instant::now();
        for (name, steps) in cases {
            let health = UpstreamHealth::default();
            for (second, outcome, is_reported) in steps {
                let now = start + Duration::from_secs(*second);
                let reported = match *outcome {
                    Some(outcome) => health.fail(outcome, &"no cause", now).is_some(),
                    None => health.recover(now).is_some(),
                };
                assert_eq!(reported, *is_reported, "{name}: second {second}");
                assert_eq!(health.failure().is_some(), outcome.is_some(), "{name}");
            }
        }
    }

    #[test]
    fn a_failure_names_the_cause_that_was_recorded_for_it() {
        let health = UpstreamHealth::default();
        let now = Instant::now();
        health.record_cause(REFUSED, &io::Error::other("port closed"));
        let failure = health.fail(REFUSED, &"no cause", now).expect("reported");
        assert_eq!(&*failure.cause, "port closed");
        assert_eq!(health.cause(REFUSED).as_deref(), Some("port closed"));
        assert_eq!(health.cause(EXPIRED), None);
        health.fail(EXPIRED, &"no cause", now);
        assert_eq!(health.cause(EXPIRED).as_deref(), Some("no cause"));
        let later = now + Duration::from_secs(5);
        let recovery = health.recover(later).expect("reported");
        assert_eq!(
            (recovery.outcome, recovery.failed_for),
            (REFUSED, Duration::from_secs(5))
        );
        assert_eq!(health.cause(EXPIRED), None);
    }

    #[test]
    fn a_long_cause_is_cut_between_characters() {
        let health = UpstreamHealth::default();
        health.record_cause(REFUSED, &io::Error::other("€".repeat(MAX_CAUSE)));
        let cause = health.cause(REFUSED).expect("recorded");
        assert!(cause.len() <= MAX_CAUSE && cause.chars().all(|c| c == '€'));
    }
}
