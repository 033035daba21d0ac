//! Rate limit for sign-ins of one client. Beginning one costs a sealed state; completing one costs
//! calls to the provider and a session record. Other anonymous requests leave no state behind.

use std::{net::IpAddr, num::NonZeroU32};

use governor::{
    Quota, RateLimiter, clock, middleware::NoOpMiddleware, nanos::Nanos,
    state::keyed::HashMapStateStore,
};

use crate::model::{client::Client, clock::Clock};

/// Sign-ins that a client at its limit regains each second.
const EACH_SECOND: NonZeroU32 = NonZeroU32::new(10).expect("ten is not zero");

/// The limits of all clients.
#[derive(Debug)]
pub struct SignInRate {
    limiter: RateLimiter<IpAddr, HashMapStateStore<IpAddr>, Ticks, NoOpMiddleware<Nanos>>,
}

/// Our clock, as the limiter reads one.
#[derive(Clone, Debug)]
struct Ticks(Clock);

impl clock::Clock for Ticks {
    type Instant = Nanos;

    fn now(&self) -> Nanos {
        Nanos::from(self.0.now().0.saturating_mul(1_000_000))
    }
}

impl SignInRate {
    /// Allows a client `at_once` sign-ins in a burst.
    pub fn new(at_once: NonZeroU32, clock: Clock) -> SignInRate {
        let quota = Quota::per_second(EACH_SECOND).allow_burst(at_once);
        SignInRate {
            limiter: RateLimiter::new(quota, HashMapStateStore::default(), Ticks(clock)),
        }
    }

    /// Whether this client may sign in now. Clients that a proxy does not name cannot be told
    /// apart, and are not limited.
    pub fn admits(&self, client: Client) -> bool {
        client
            .limit_key
            .is_none_or(|key| self.limiter.check_key(&key).is_ok())
    }

    /// Removes clients whose quota is full again.
    pub fn sweep(&self) {
        self.limiter.retain_recent();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_client_may_so_often_and_again_after_a_while_and_another_one_is_another() {
        let (clock, manual_clock) = Clock::manual();
        let rate = SignInRate::new(NonZeroU32::new(3).expect("three"), clock);
        let may = |client: &str| rate.admits(Client::at(client.parse().expect("an address")));
        for (client, same, other) in [
            ("192.0.2.1", "::ffff:192.0.2.1", "192.0.2.2"),
            ("2001:db8:1:2::1", "2001:db8:1:2:ffff::", "2001:db8:1:3::1"),
        ] {
            assert!(may(client) && may(same) && may(client), "{client}");
            assert!(!may(client) && !may(same), "{client}: a fourth");
            assert!(may(other), "{other}");
        }
        let unnamed = Client {
            address: "10.1.2.3".parse().expect("an address"),
            limit_key: None,
        };
        assert!(
            (0..100).all(|_| rate.admits(unnamed)),
            "behind a proxy that names no client"
        );
        manual_clock.advance(Duration::from_millis(99));
        assert!(!may("192.0.2.1"));
        manual_clock.advance(Duration::from_millis(1));
        assert!(
            may("192.0.2.1") && !may("192.0.2.1"),
            "one each tenth of a second"
        );
        manual_clock.advance(Duration::from_secs(10));
        rate.sweep();
        assert_eq!(rate.limiter.len(), 0, "nothing is kept of clients at rest");
        assert!(may("192.0.2.1") && may("192.0.2.1") && may("192.0.2.1") && !may("192.0.2.1"));
    }
}
