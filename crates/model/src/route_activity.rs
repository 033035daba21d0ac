//! The time of the last activity of a hub's route, which the hub reads to stop idle servers.

use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering::Relaxed},
};

use super::clock::Clock;

/// When a route last answered a request successfully, or carried data of a WebSocket. Clones are of
/// the same route.
#[derive(Clone, Debug)]
pub struct RouteActivity(Arc<Recorded>);

#[derive(Debug)]
struct Recorded {
    clock: Clock,
    /// In milliseconds since 1970.
    millis: AtomicI64,
}

impl RouteActivity {
    /// Activity that begins now.
    pub fn new(clock: Clock) -> RouteActivity {
        let millis = AtomicI64::new(clock.wall_millis());
        RouteActivity(Arc::new(Recorded { clock, millis }))
    }

    /// Records activity now. Takes no lock.
    pub fn record(&self) {
        let now = self.0.clock.wall_millis();
        // A busy route leaves the cache line unchanged for most of a millisecond.
        if self.0.millis.load(Relaxed) != now {
            self.0.millis.store(now, Relaxed);
        }
    }

    /// The wall-clock time of the last activity, in milliseconds since 1970.
    pub fn millis(&self) -> i64 {
        self.0.millis.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn activity_begins_with_the_route_and_is_that_of_all_clones() {
        let (clock, manual_clock) = Clock::manual();
        let begin = clock.wall_millis();
        let activity = RouteActivity::new(clock);
        assert_eq!(activity.millis(), begin);
        manual_clock.advance(Duration::from_secs(7));
        assert_eq!(activity.millis(), begin);
        activity.clone().record();
        assert_eq!(activity.millis(), begin + 7000);
    }
}
