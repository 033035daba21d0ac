//! The time of the last use of an app: of the last request that its access rule permitted.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use super::clock::{Clock, Moment};

/// When an app was used last. It survives changes of the app while it is published.
#[derive(Clone, Debug, Default)]
pub struct Activity(Arc<Uses>);

#[derive(Debug)]
struct Uses {
    /// In milliseconds, or [`NEVER`].
    last: AtomicU64,
    /// Permitted requests that are not over.
    open: AtomicUsize,
    /// The moment from which another anonymous use counts, in milliseconds.
    anonymous_from: AtomicU64,
}

/// No use yet. A clock of tests begins at zero.
const NEVER: u64 = u64::MAX;

impl Default for Uses {
    fn default() -> Uses {
        Uses {
            last: AtomicU64::new(NEVER),
            open: AtomicUsize::new(0),
            anonymous_from: AtomicU64::new(0),
        }
    }
}

impl Activity {
    /// Records a use.
    pub fn record(&self, now: Moment) {
        // Most requests of a busy app fall into a millisecond that is recorded already, and leave
        // the cache line unchanged.
        if self.0.last.load(Relaxed) != now.0 {
            self.0.last.store(now.0, Relaxed);
        }
    }

    /// Records a use by an anonymous caller, unless one was counted less than `interval` ago.
    /// Returns whether it counts.
    pub fn record_anonymous(&self, now: Moment, interval: Duration) -> bool {
        let from = self.0.anonymous_from.load(Relaxed);
        let next = now.after(interval).0;
        // If the exchange fails, another thread has just counted a use.
        let counts = now.0 >= from
            && self
                .0
                .anonymous_from
                .compare_exchange(from, next, Relaxed, Relaxed)
                .is_ok();
        if counts {
            self.record(now);
        }
        counts
    }

    /// Begins a permitted request, which is a use until the guard is finished. `now` was read
    /// already, which saves a second read of the clock.
    pub fn begin(&self, clock: &Clock, now: Instant) -> OpenUse {
        self.record(clock.at(now));
        self.0.open.fetch_add(1, Relaxed);
        OpenUse {
            activity: self.clone(),
            clock: clock.clone(),
        }
    }

    /// The time since the last use: zero while a request is open; `None`: never used.
    pub fn unused(&self, now: Moment) -> Option<Duration> {
        if self.0.open.load(Relaxed) > 0 {
            return Some(Duration::ZERO);
        }
        match self.0.last.load(Relaxed) {
            NEVER => None,
            last => Some(Duration::from_millis(now.0.saturating_sub(last))),
        }
    }
}

/// A permitted request that is not over.
#[derive(Debug)]
pub struct OpenUse {
    activity: Activity,
    clock: Clock,
}

impl OpenUse {
    /// Ends the request: the app was in use until now.
    pub fn finish(self, now: Instant) {
        self.activity.record(self.clock.at(now));
    }
}

impl Drop for OpenUse {
    fn drop(&mut self) {
        self.activity.0.open.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn at(seconds: u64) -> Moment {
        Moment(seconds * 1000)
    }

    #[test]
    fn an_app_is_used_from_the_begin_of_a_request_to_its_end() {
        let (clock, manual_clock) = Clock::manual();
        let activity = Activity::default();
        let unused = || activity.unused(clock.now());
        let begin = || activity.clone().begin(&clock, Instant::now());
        assert_eq!(unused(), None);
        let (one, other) = (begin(), begin());
        manual_clock.advance(9 * SECOND);
        one.finish(Instant::now());
        manual_clock.advance(9 * SECOND);
        assert_eq!(unused(), Some(Duration::ZERO), "one is still open");
        other.finish(Instant::now());
        assert_eq!(unused(), Some(Duration::ZERO));
        manual_clock.advance(4 * SECOND);
        assert_eq!(unused(), Some(4 * SECOND));
        let earlier = clock.now();
        manual_clock.advance(SECOND);
        activity.record(clock.now());
        assert_eq!(
            activity.unused(earlier),
            Some(Duration::ZERO),
            "recorded after the clock was read"
        );
    }

    #[test]
    fn anonymous_uses_count_once_in_an_interval() {
        let activity = Activity::default();
        let counts = |seconds| activity.record_anonymous(at(seconds), 10 * SECOND);
        assert!(counts(0) && !counts(1) && !counts(9));
        assert_eq!(activity.unused(at(9)), Some(9 * SECOND));
        assert!(counts(10) && !counts(19) && counts(35) && !counts(36));
        activity.record(at(36));
        assert_eq!(activity.unused(at(36)), Some(Duration::ZERO));
    }
}
