//! When a person was last confirmed by their provider, and when the next check is due. At most one
//! check per sign-in runs at a time.

use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::Duration,
};

use crate::model::clock::{Moment, millis};

/// The state of the periodic checks of one sign-in.
#[derive(Debug)]
pub struct IdentityCheck {
    /// When the person was last confirmed, in milliseconds of the clock.
    confirmed_at: AtomicU64,
    /// The next check is counted from here: the last check, or the last attempt.
    attempted_at: AtomicU64,
    is_running: AtomicBool,
    /// Loaded from Redis with a confirmation older than `recheck`, and not confirmed since.
    is_required: AtomicBool,
    /// The provider's last answer did not identify the person.
    is_unusable: AtomicBool,
    /// No access token is fetched before, in milliseconds of the clock.
    next_token_fetch: AtomicU64,
    /// 0 to 255, different for each sign-in.
    jitter: u8,
}

impl IdentityCheck {
    /// The state of a person who was confirmed at that moment.
    pub(super) fn new(confirmed: Moment, jitter: u8, is_required: bool) -> IdentityCheck {
        IdentityCheck {
            confirmed_at: AtomicU64::new(confirmed.0),
            attempted_at: AtomicU64::new(confirmed.0),
            is_running: AtomicBool::new(false),
            is_required: AtomicBool::new(is_required),
            is_unusable: AtomicBool::new(false),
            next_token_fetch: AtomicU64::new(0),
            jitter,
        }
    }

    /// Whether group and owner rules must wait for a new confirmation.
    pub fn is_required(&self) -> bool {
        self.is_required.load(Ordering::Acquire)
    }

    /// Whether a repeated check would not help: the person must sign in again.
    pub fn is_unusable(&self) -> bool {
        self.is_unusable.load(Ordering::Acquire)
    }

    /// Records whether the provider's answer failed to identify the person.
    pub(crate) fn set_unusable(&self, is_unusable: bool) {
        self.is_unusable.store(is_unusable, Ordering::Release);
    }

    /// Whether a check is running now.
    pub(crate) fn is_running(&self) -> bool {
        self.is_running.load(Ordering::Acquire)
    }

    /// When the person was last confirmed.
    pub fn confirmed_at(&self) -> Moment {
        Moment(self.confirmed_at.load(Ordering::Relaxed))
    }

    /// Records a confirmation by this process. The interval to the next check is counted from the
    /// start of this one.
    pub(super) fn confirm(&self, now: Moment) {
        self.confirmed_at.store(now.0, Ordering::Relaxed);
        self.is_required.store(false, Ordering::Release);
    }

    /// Records a confirmation by another replica.
    pub(super) fn adopt(&self, confirmed: Moment, is_fresh: bool) {
        self.confirmed_at.store(confirmed.0, Ordering::Relaxed);
        self.attempted_at.store(confirmed.0, Ordering::Relaxed);
        if is_fresh {
            self.is_required.store(false, Ordering::Release);
        }
    }

    /// Counts the interval to the next check from now.
    pub(crate) fn restart_interval(&self, now: Moment) {
        self.attempted_at.store(now.0, Ordering::Relaxed);
    }

    /// Claims the next check, if it is due and no check runs. A check that becomes due while
    /// another one runs stays due. True for one caller only, which must run it. After a failure the
    /// next check is due one interval later.
    pub(super) fn try_start_due(&self, now: Moment, recheck: Duration) -> bool {
        if !self.is_due(now, recheck) || !self.try_start() {
            return false;
        }
        // A whole check may have run between the two calls.
        let is_due = self.is_due(now, recheck);
        if is_due {
            self.restart_interval(now);
        } else {
            self.finish();
        }
        is_due
    }

    fn is_due(&self, now: Moment, recheck: Duration) -> bool {
        let attempted = self.attempted_at.load(Ordering::Relaxed);
        now.0 >= attempted.saturating_add(self.interval(recheck))
    }

    /// Milliseconds between two checks: up to a tenth less than `recheck`, different for each
    /// sign-in, so that people who signed in together are not checked together.
    fn interval(&self, recheck: Duration) -> u64 {
        millis(recheck) - millis(recheck) / 10 * u64::from(self.jitter) / 256
    }

    /// Whether a whole interval has passed without a check.
    pub fn is_overdue(&self, now: Moment, recheck: Duration) -> bool {
        let attempted = self.attempted_at.load(Ordering::Relaxed);
        now.0 >= attempted.saturating_add(millis(recheck))
    }

    /// Makes the next check due after `retry`, because this one had no result.
    pub fn postpone(&self, now: Moment, recheck: Duration, retry: Duration) {
        let attempted = now.after(retry).0.saturating_sub(self.interval(recheck));
        self.attempted_at.store(attempted, Ordering::Relaxed);
    }

    /// Whether an access token may be fetched: the last attempt had a result, or was long ago.
    pub(crate) fn may_fetch_token(&self, now: Moment) -> bool {
        now.0 >= self.next_token_fetch.load(Ordering::Relaxed)
    }

    /// Postpones the next fetch of an access token, because this one had no result.
    pub(crate) fn postpone_token_fetch(&self, now: Moment, retry: Duration) {
        let next = now.after(retry).0;
        self.next_token_fetch.store(next, Ordering::Relaxed);
    }

    /// Claims the only running check; false while another one runs.
    pub(super) fn try_start(&self) -> bool {
        !self.is_running.swap(true, Ordering::AcqRel)
    }

    /// Lets the next check start.
    pub(super) fn finish(&self) {
        self.is_running.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_that_falls_due_while_another_one_runs_is_due_after_it() {
        const RECHECK: Duration = Duration::from_secs(300);
        let check = IdentityCheck::new(Moment(0), 0, false);
        let (first, second) = (Moment(0).after(RECHECK), Moment(0).after(2 * RECHECK));
        assert!(check.try_start_due(first, RECHECK));
        assert!(!check.try_start_due(second, RECHECK), "the first one runs");
        check.finish();
        assert!(check.try_start_due(second, RECHECK));
        check.finish();
        assert!(!check.try_start_due(second, RECHECK), "it was made");
        assert!(!check.is_running());
    }

    #[test]
    fn a_postponed_check_is_due_after_its_pause_and_not_before() {
        const RECHECK: Duration = Duration::from_secs(300);
        const PAUSE: Duration = Duration::from_secs(5);
        for jitter in [0, 128, 255] {
            let check = IdentityCheck::new(Moment(0), jitter, false);
            let now = Moment(0).after(2 * RECHECK);
            check.postpone(now, RECHECK, PAUSE);
            let before = now.after(PAUSE - Duration::from_millis(1));
            assert!(!check.try_start_due(before, RECHECK), "{jitter}");
            assert!(check.try_start_due(now.after(PAUSE), RECHECK), "{jitter}");
        }
    }
}
