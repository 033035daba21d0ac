//! Rate limit for look-ups of unknown ids: each client has a token bucket for look-ups that find
//! nothing. Successful look-ups are free. Requests over the limit fail at once; clients do not
//! share tokens.

use std::{
    net::IpAddr,
    sync::{Arc, Mutex, PoisonError},
};

use moka::{policy::EvictionPolicy, sync::Cache};

use super::{
    client::limit_key,
    clock::{Clock, Moment},
};

/// Number of clients with a bucket; an evicted client starts with a full one.
const CLIENTS: u64 = 10_000;

/// The limits of one client.
#[derive(Clone, Copy, Debug)]
pub struct Quota {
    /// Size of the bucket: misses in a row.
    pub burst: u64,
    /// Milliseconds until one token is refilled.
    pub refill: u64,
    /// Look-ups at the same time.
    pub at_once: u64,
}

/// The buckets of all clients.
#[derive(Debug)]
pub struct LookupLimit {
    clients: Cache<IpAddr, Arc<Mutex<ClientBucket>>>,
    quota: Quota,
    clock: Clock,
}

#[derive(Debug)]
struct ClientBucket {
    under_way: u64,
    spent: u64,
    /// The log says that the client is limited.
    is_logged: bool,
    /// Refills are counted up to this moment.
    since: Moment,
}

/// Permits one look-up. Dropped without [`LookupPermit::found`], it spends a token: a client that
/// goes away before the answer has cost the server as much.
pub struct LookupPermit {
    client: Arc<Mutex<ClientBucket>>,
    found: bool,
}

impl LookupLimit {
    /// Every client starts with a full bucket.
    pub fn new(quota: Quota, clock: Clock) -> LookupLimit {
        let clients = Cache::builder()
            .max_capacity(CLIENTS)
            .eviction_policy(EvictionPolicy::lru())
            .build();
        LookupLimit {
            clients,
            quota,
            clock,
        }
    }

    /// A permit for one look-up. `None`: the client has too many under way, or no token left.
    pub fn acquire(&self, client: IpAddr) -> Option<LookupPermit> {
        let now = self.clock.now();
        let fresh = || {
            Arc::new(Mutex::new(ClientBucket {
                under_way: 0,
                spent: 0,
                is_logged: false,
                since: now,
            }))
        };
        let address = limit_key(client);
        let client = self.clients.get_with(address, fresh);
        {
            let mut client = client.lock().unwrap_or_else(PoisonError::into_inner);
            client.refill(now, self.quota.refill);
            if client.spent >= self.quota.burst || client.under_way >= self.quota.at_once {
                if !std::mem::replace(&mut client.is_logged, true) {
                    tracing::warn!(target: "audit", event = "lookups_limited", client = %address);
                }
                return None;
            }
            client.under_way += 1;
        }
        Some(LookupPermit {
            client,
            found: false,
        })
    }
}

impl ClientBucket {
    fn refill(&mut self, now: Moment, refill: u64) {
        let due = now.0.saturating_sub(self.since.0) / refill;
        self.spent = self.spent.saturating_sub(due);
        self.is_logged &= self.spent > 0;
        self.since = if self.spent == 0 {
            now
        } else {
            Moment(self.since.0 + due * refill)
        };
    }
}

impl LookupPermit {
    /// The look-up found something, so it costs no token.
    pub fn found(mut self) {
        self.found = true;
    }
}

impl Drop for LookupPermit {
    fn drop(&mut self) {
        let mut client = self.client.lock().unwrap_or_else(PoisonError::into_inner);
        client.under_way -= 1;
        if !self.found {
            client.spent += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const QUOTA: Quota = Quota {
        burst: 32,
        refill: 250,
        at_once: 128,
    };

    fn new_client() -> IpAddr {
        "192.0.2.1".parse().expect("an address")
    }

    #[test]
    fn guessing_is_bounded_and_finding_is_not() {
        let (clock, manual_clock) = Clock::manual();
        let limit = LookupLimit::new(QUOTA, clock);
        for _ in 0..10 * QUOTA.burst {
            limit
                .acquire(new_client())
                .expect("what was found costs nothing")
                .found();
        }
        for _ in 0..QUOTA.burst {
            drop(limit.acquire(new_client()).expect("in store"));
        }
        assert!(limit.acquire(new_client()).is_none());
        assert!(
            limit
                .acquire("192.0.2.2".parse().expect("an address"))
                .is_some(),
            "others have their own"
        );
        manual_clock.advance(Duration::from_secs(1));
        for _ in 0..4 {
            drop(limit.acquire(new_client()).expect("refilled"));
        }
        assert!(limit.acquire(new_client()).is_none());
        manual_clock.advance(Duration::from_secs(3600));
        for _ in 0..QUOTA.burst {
            drop(limit.acquire(new_client()).expect("full again"));
        }
        assert!(
            limit.acquire(new_client()).is_none(),
            "and not fuller than that"
        );
    }

    #[test]
    fn what_is_under_way_is_bounded_too() {
        let (clock, _hands) = Clock::manual();
        let limit = LookupLimit::new(QUOTA, clock);
        let all: Vec<_> = (0..200)
            .filter_map(|_| limit.acquire(new_client()))
            .collect();
        assert_eq!(all.len() as u64, QUOTA.at_once);
        all.into_iter().for_each(LookupPermit::found);
        assert!(limit.acquire(new_client()).is_some());
    }

    #[test]
    fn an_ipv6_client_is_its_network() {
        let (clock, _hands) = Clock::manual();
        let limit = LookupLimit::new(QUOTA, clock);
        for n in 0..QUOTA.burst {
            let address = format!("2001:db8::{n:x}").parse().expect("an address");
            drop(limit.acquire(address).expect("in store"));
        }
        assert!(
            limit
                .acquire("2001:db8::ffff".parse().expect("an address"))
                .is_none()
        );
        assert!(
            limit
                .acquire("2001:db8:0:1::1".parse().expect("an address"))
                .is_some()
        );
    }
}
