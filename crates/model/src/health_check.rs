//! Active health checks of upstreams: their settings, and what they found.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use http::uri::PathAndQuery;

use super::upstream_health::limited;

/// How the upstreams of an app are checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthCheck {
    /// The target of the request, without the app's mount.
    pub path: PathAndQuery,
    /// The time between two checks of one upstream.
    pub interval: Duration,
    /// Deadline of one check, from the connection to the response head.
    pub timeout: Duration,
    /// An upstream fails after this many failed checks in a row.
    pub failures: u32,
}

/// What the checks of one upstream found. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct CheckRecord(Arc<Record>);

#[derive(Debug, Default)]
struct Record {
    /// Changes only while `state` is locked. Requests read it without the lock.
    is_failing: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    is_known: bool,
    /// Failed checks in a row.
    failed: u32,
    failure: Option<CheckFailure>,
}

/// An upstream that fails its checks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckFailure {
    /// The error of the last check.
    pub cause: Arc<str>,
    /// The time of the check by which it began to fail.
    pub since: Instant,
}

/// The state of an upstream by its checks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CheckStatus {
    /// No check has ended yet. It counts as passing.
    Unknown,
    /// It passes, or has not failed often enough in a row.
    Passing,
    /// It fails.
    Failing(CheckFailure),
}

/// A change that one check brings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CheckChange {
    /// The upstream begins to fail, with this cause.
    Fails(Arc<str>),
    /// It passes again after so long.
    Passes(Duration),
}

impl CheckRecord {
    /// Whether the upstream fails its checks.
    pub fn is_failing(&self) -> bool {
        self.0.is_failing.load(Relaxed)
    }

    /// The state of the upstream.
    pub fn status(&self) -> CheckStatus {
        let state = self.lock();
        match &state.failure {
            Some(failure) => CheckStatus::Failing(failure.clone()),
            None if state.is_known => CheckStatus::Passing,
            None => CheckStatus::Unknown,
        }
    }

    /// Records a check: an error is its cause. An upstream fails after `failures` failed checks in
    /// a row, and passes after the next successful one. Returns what changed.
    pub fn record(
        &self,
        result: Result<(), String>,
        failures: u32,
        now: Instant,
    ) -> Option<CheckChange> {
        let mut state = self.lock();
        state.is_known = true;
        let Err(cause) = result else {
            state.failed = 0;
            self.0.is_failing.store(false, Relaxed);
            let failure = state.failure.take()?;
            let failed_for = now.saturating_duration_since(failure.since);
            return Some(CheckChange::Passes(failed_for));
        };
        let cause = limited(cause);
        state.failed = state.failed.saturating_add(1);
        if let Some(failure) = &mut state.failure {
            failure.cause = cause;
            return None;
        }
        if state.failed < failures {
            return None;
        }
        self.0.is_failing.store(true, Relaxed);
        state.failure = Some(CheckFailure {
            cause: cause.clone(),
            since: now,
        });
        Some(CheckChange::Fails(cause))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_upstream_fails_after_failures_in_a_row_and_passes_after_one_success() {
        let record = CheckRecord::default();
        let start = Instant::now();
        let at = |second| start + Duration::from_secs(second);
        let refused = || Err("refused".to_owned());
        assert_eq!(record.status(), CheckStatus::Unknown);
        assert_eq!(record.record(refused(), 2, at(0)), None);
        assert_eq!(record.status(), CheckStatus::Passing);
        assert_eq!(record.record(Ok(()), 2, at(1)), None, "not in a row");
        assert_eq!(record.record(refused(), 2, at(2)), None);
        assert!(!record.is_failing());
        let fails = Some(CheckChange::Fails("refused".into()));
        assert_eq!(record.record(refused(), 2, at(3)), fails);
        assert!(record.clone().is_failing(), "clones share it");
        let status = |cause: &str| {
            CheckStatus::Failing(CheckFailure {
                cause: cause.into(),
                since: at(3),
            })
        };
        assert_eq!(record.status(), status("refused"));
        assert_eq!(record.record(Err("status 500".into()), 2, at(4)), None);
        assert_eq!(record.status(), status("status 500"), "the last cause");
        let passes = Some(CheckChange::Passes(Duration::from_secs(7)));
        assert_eq!(record.record(Ok(()), 2, at(10)), passes);
        assert!(!record.is_failing());
        assert_eq!(record.record(Ok(()), 2, at(11)), None, "once");
    }
}
