//! Failures of a provider in a row, after which it is not called for a while. Each provider has its
//! own, so that an outage of one does not delay the checks of people of another.

use std::{
    sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use crate::model::clock::Moment;

/// After so many failures in a row, no check is started
const MAX_FAILURES: u32 = 8;
/// for this long.
const PAUSE: Duration = Duration::from_secs(10);

/// The state of one provider.
#[derive(Debug, Default)]
pub(crate) struct Outage {
    failures: AtomicU32,
    /// No check is started until then, in milliseconds of the clock.
    paused_until: AtomicU64,
}

impl Outage {
    /// Whether the provider is not called now.
    pub(crate) fn is_under_way(&self, now: Moment) -> bool {
        now.0 < self.paused_until.load(Relaxed)
    }

    /// Records an answer.
    pub(crate) fn record_success(&self) {
        self.failures.store(0, Relaxed);
    }

    /// Records a call without a usable answer.
    pub(crate) fn record_failure(&self, now: Moment) {
        if self.failures.fetch_add(1, Relaxed) + 1 >= MAX_FAILURES {
            self.paused_until.store(now.after(PAUSE).0, Relaxed);
            self.failures.store(0, Relaxed);
        }
    }
}
