//! The deadlines of a record: one that slides with use, one that never moves, and the sliding one
//! as Redis last had it.

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use super::remaining::Remaining;
use crate::model::clock::{Moment, millis};

/// The sliding deadline is written at most this often, in milliseconds.
const SLIDE_INTERVAL: u64 = 1000;

/// Both deadlines of a record, in milliseconds of the clock.
#[derive(Debug)]
pub struct Deadlines {
    idle: u64,
    idle_deadline: AtomicU64,
    absolute_deadline: u64,
    /// The sliding deadline as Redis has it; 0: Redis does not have the record.
    stored_deadline: AtomicU64,
    /// When the sliding deadline was last exchanged with Redis.
    exchanged_at: AtomicU64,
}

impl Deadlines {
    /// Deadlines that start now.
    pub(crate) fn new(now: Moment, idle: Duration, absolute_deadline: u64) -> Deadlines {
        let remaining = Remaining {
            idle: millis(idle),
            absolute: absolute_deadline.saturating_sub(now.0),
        };
        Deadlines::restore(now, idle, remaining)
    }

    /// Deadlines with the given time left.
    pub(crate) fn restore(now: Moment, idle: Duration, remaining: Remaining) -> Deadlines {
        let absolute_deadline = now.0.saturating_add(remaining.absolute);
        let idle_deadline = now.0.saturating_add(remaining.idle).min(absolute_deadline);
        Deadlines {
            idle: millis(idle),
            idle_deadline: AtomicU64::new(idle_deadline),
            absolute_deadline,
            stored_deadline: AtomicU64::new(0),
            exchanged_at: AtomicU64::new(0),
        }
    }

    /// It expires after this long without use.
    pub(crate) fn idle(&self) -> Duration {
        Duration::from_millis(self.idle)
    }

    /// The deadline that never moves.
    pub(crate) fn absolute_deadline(&self) -> u64 {
        self.absolute_deadline
    }

    /// When the record expires without further use.
    pub(crate) fn expires_at(&self) -> u64 {
        self.idle_deadline.load(Relaxed).min(self.absolute_deadline)
    }

    /// The time left.
    pub(crate) fn remaining(&self, now: Moment) -> Remaining {
        Remaining {
            idle: self.idle_deadline.load(Relaxed).saturating_sub(now.0),
            absolute: self.absolute_deadline.saturating_sub(now.0),
        }
    }

    /// Whether neither deadline has passed.
    pub(crate) fn is_live(&self, now: Moment) -> bool {
        now.0 < self.idle_deadline.load(Relaxed) && now.0 < self.absolute_deadline
    }

    /// Slides with use. Returns whether the deadline moved.
    pub(crate) fn slide(&self, now: Moment) -> bool {
        // An expired session stays expired: a late byte must not revive it.
        if !self.is_live(now) {
            return false;
        }
        let next = now.0.saturating_add(self.idle).min(self.absolute_deadline);
        let current = self.idle_deadline.load(Relaxed);
        // Relaxed and unsynchronised on purpose: a lost race costs one slide of under a second.
        let is_due = next >= current.saturating_add(SLIDE_INTERVAL);
        if is_due {
            self.idle_deadline.store(next, Relaxed);
        }
        is_due
    }

    /// Merges the remaining milliseconds from Redis: another replica may have used the record.
    pub(crate) fn merge_stored(&self, now: Moment, idle: u64) {
        let deadline = now.0.saturating_add(idle).min(self.absolute_deadline);
        self.idle_deadline.fetch_max(deadline, Relaxed);
        self.stored_deadline.store(deadline, Relaxed);
        self.exchanged_at.store(now.0, Relaxed);
    }

    /// Whether Redis has the record.
    pub(crate) fn is_stored(&self) -> bool {
        self.stored_deadline.load(Relaxed) != 0
    }

    /// Redis lost the record, or the write failed.
    pub fn mark_unstored(&self) {
        self.stored_deadline.store(0, Relaxed);
    }

    /// Whether the deadline is to be exchanged with Redis: at most once in `interval` milliseconds,
    /// and at least once before the record would expire.
    pub(crate) fn is_exchange_due(&self, now: Moment, interval: u64) -> bool {
        if !self.is_live(now) {
            return false;
        }
        let deadline = self.idle_deadline.load(Relaxed);
        let stored = self.stored_deadline.load(Relaxed);
        // Used after a long pause: on the other replicas the record is about to expire.
        let lags = deadline > stored.saturating_add(self.idle / 2);
        let has_paused = now.0 >= self.exchanged_at.load(Relaxed).saturating_add(interval);
        lags || (has_paused && (deadline > stored || deadline < now.0.saturating_add(2 * interval)))
    }

    /// Whether there is use that is not written to Redis.
    pub(crate) fn is_ahead_of_store(&self) -> bool {
        self.idle_deadline.load(Relaxed) > self.stored_deadline.load(Relaxed)
    }
}
