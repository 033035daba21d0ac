//! Bounds what guessing costs the API server: look-ups that find nothing come out of a small store that fills
//! up slowly; those that find something cost nothing.

use std::sync::{Mutex, PoisonError};

use tokio::sync::{Semaphore, SemaphorePermit};

use crate::model::clock::{Clock, Moment};

/// Look-ups that may find nothing in a row, and how many unknown addresses are looked up at once.
const STORE: usize = 32;
/// The store fills up by one in this many milliseconds.
const REFILL: u64 = 250;

/// The store.
#[derive(Debug)]
pub struct Misses {
    turns: Semaphore,
    spent: Mutex<Spent>,
    clock: Clock,
}

#[derive(Debug)]
struct Spent {
    count: usize,
    /// Until when refills were counted.
    since: Moment,
}

/// Leave to look up one address that nothing is known of.
pub struct Turn<'m> {
    permit: SemaphorePermit<'m>,
    misses: &'m Misses,
}

impl Misses {
    /// A full store.
    pub fn new(clock: Clock) -> Misses {
        let spent = Mutex::new(Spent { count: 0, since: clock.now() });
        Misses { turns: Semaphore::new(STORE), spent, clock }
    }

    /// Leave for one look-up; waits while others are under way. `None`: too many found nothing lately.
    ///
    /// Cancel safety: dropping the future takes nothing.
    pub async fn turn(&self) -> Option<Turn<'_>> {
        if self.refill() >= STORE {
            return None;
        }
        let permit = self.turns.acquire().await.ok()?;
        Some(Turn { permit, misses: self })
    }

    /// Gives back how many are spent now.
    fn refill(&self) -> usize {
        let now = self.clock.now();
        let mut spent = self.spent.lock().unwrap_or_else(PoisonError::into_inner);
        let due = now.0.saturating_sub(spent.since.0) / REFILL;
        let back = spent.count.min(usize::try_from(due).unwrap_or(usize::MAX));
        spent.count -= back;
        spent.since = if spent.count == 0 { now } else { Moment(spent.since.0 + due * REFILL) };
        self.turns.add_permits(back);
        spent.count
    }
}

impl Turn<'_> {
    /// The look-up found nothing: the turn does not come back at once.
    pub fn found_nothing(self) {
        let mut spent = self.misses.spent.lock().unwrap_or_else(PoisonError::into_inner);
        if spent.count == 0 {
            spent.since = self.misses.clock.now();
        }
        spent.count += 1;
        self.permit.forget();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn guessing_is_bounded_and_finding_is_not() {
        let (clock, hands) = Clock::by_hand();
        let misses = Misses::new(clock);
        for _ in 0..10 * STORE {
            drop(misses.turn().await.expect("what was found costs nothing"));
        }
        for _ in 0..STORE {
            misses.turn().await.expect("in store").found_nothing();
        }
        assert!(misses.turn().await.is_none());
        hands.advance(Duration::from_secs(1));
        for _ in 0..4 {
            misses.turn().await.expect("refilled").found_nothing();
        }
        assert!(misses.turn().await.is_none());
        hands.advance(Duration::from_secs(3600));
        for _ in 0..STORE {
            misses.turn().await.expect("full again").found_nothing();
        }
        assert!(misses.turn().await.is_none(), "and not fuller than that");
    }
}
