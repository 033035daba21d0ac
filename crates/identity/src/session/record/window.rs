//! How long a record counts: the deadline that use moves, the one that nothing moves, and what
//! others were told of the first.

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use crate::{
    model::clock::{Moment, millis},
    session::written::Remaining,
};

/// The sliding deadline is written at most this often, in milliseconds.
const SLIDE_EVERY: u64 = 1000;

/// Both deadlines of a record, in milliseconds of the clock.
#[derive(Debug)]
pub struct Deadlines {
    idle: u64,
    idle_deadline: AtomicU64,
    absolute_deadline: u64,
    /// The sliding deadline as the shared store has it; 0: it has none.
    told: AtomicU64,
    /// When the shared store was last told or asked.
    asked: AtomicU64,
}

impl Deadlines {
    /// Opens now.
    pub fn open(now: Moment, idle: Duration, absolute_deadline: u64) -> Deadlines {
        let left = Remaining {
            idle: millis(idle),
            absolute: absolute_deadline.saturating_sub(now.0),
        };
        Deadlines::restore(now, idle, left)
    }

    /// Goes on with what is left.
    pub fn restore(now: Moment, idle: Duration, left: Remaining) -> Deadlines {
        let absolute_deadline = now.0.saturating_add(left.absolute);
        let idle_deadline = AtomicU64::new(now.0.saturating_add(left.idle).min(absolute_deadline));
        Deadlines {
            idle: millis(idle),
            idle_deadline,
            absolute_deadline,
            told: AtomicU64::new(0),
            asked: AtomicU64::new(0),
        }
    }

    /// When it is over whatever happens.
    pub fn absolute_deadline(&self) -> u64 {
        self.absolute_deadline
    }

    /// When it is over, if it is not used until then.
    pub fn shuts(&self) -> u64 {
        self.idle_deadline.load(Relaxed).min(self.absolute_deadline)
    }

    /// What is left of it.
    pub fn left(&self, now: Moment) -> Remaining {
        let left = |deadline: u64| deadline.saturating_sub(now.0);
        Remaining {
            idle: left(self.idle_deadline.load(Relaxed)),
            absolute: left(self.absolute_deadline),
        }
    }

    /// Whether it is open.
    pub fn is_open(&self, now: Moment) -> bool {
        now.0 < self.idle_deadline.load(Relaxed) && now.0 < self.absolute_deadline
    }

    /// Whether only use is missing: somewhere else it may have been used.
    pub fn is_within_lifetime(&self, now: Moment) -> bool {
        now.0 < self.absolute_deadline
    }

    /// It is used: the deadline moves on. Gives back whether it did.
    pub fn slide(&self, now: Moment) -> bool {
        // What is over stays over: a byte that comes late does not bring a session back.
        if !self.is_open(now) {
            return false;
        }
        let next = now.0.saturating_add(self.idle).min(self.absolute_deadline);
        let current = self.idle_deadline.load(Relaxed);
        // Relaxed and unsynchronised on purpose: a lost race costs one slide of under a second.
        let due = next >= current.saturating_add(SLIDE_EVERY);
        if due {
            self.idle_deadline.store(next, Relaxed);
        }
        due
    }

    /// Another process has used it: so many milliseconds are left, says the shared store.
    pub fn extend(&self, now: Moment, idle: u64) {
        let deadline = now.0.saturating_add(idle).min(self.absolute_deadline);
        self.idle_deadline.fetch_max(deadline, Relaxed);
        self.told.store(deadline, Relaxed);
        self.asked.store(now.0, Relaxed);
    }

    /// Whether the shared store has it.
    pub fn is_told(&self) -> bool {
        self.told.load(Relaxed) != 0
    }

    /// It was told, or is being told now.
    pub fn tell(&self, now: Moment) {
        self.told.store(self.idle_deadline.load(Relaxed), Relaxed);
        self.asked.store(now.0, Relaxed);
    }

    /// The shared store does not have it, or could not be told.
    pub fn forget_told(&self) {
        self.told.store(0, Relaxed);
    }

    /// Whether the shared store is to be told of use here, or asked for use elsewhere: at most once
    /// in `pace` milliseconds, and at least once before the window would shut.
    pub fn is_due(&self, now: Moment, pace: u64) -> bool {
        if !self.is_open(now) {
            return false;
        }
        let (deadline, told) = (self.idle_deadline.load(Relaxed), self.told.load(Relaxed));
        // Used after a long rest: others believe that it is about to end.
        let lags = deadline > told.saturating_add(self.idle / 2);
        let rested = now.0 >= self.asked.load(Relaxed).saturating_add(pace);
        lags || (rested && (deadline > told || deadline < now.0.saturating_add(2 * pace)))
    }

    /// Whether there is use here that the shared store was not told of.
    pub fn is_ahead(&self) -> bool {
        self.idle_deadline.load(Relaxed) > self.told.load(Relaxed)
    }
}
