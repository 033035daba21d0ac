//! Bounds what guessing costs a server: of each client, look-ups that find nothing come out of a small store that
//! fills up slowly; those that find something cost nothing. Nobody waits here, and no client spends another's.

use std::{
    net::IpAddr,
    sync::{Arc, Mutex, PoisonError},
};

use ipnet::{IpNet, Ipv6Net};
use moka::{policy::EvictionPolicy, sync::Cache};

use crate::model::clock::{Clock, Moment};

/// Look-ups of one client that may find nothing in a row.
const STORE: u64 = 32;
/// Look-ups of one client that may be under way at once.
const AT_ONCE: u64 = 128;
/// The store fills up by one in this many milliseconds.
const REFILL: u64 = 250;
/// Clients that are remembered; a forgotten one has a full store.
const CLIENTS: u64 = 10_000;

/// The stores of all clients.
#[derive(Debug)]
pub struct Misses {
    clients: Cache<IpNet, Arc<Mutex<Client>>>,
    clock: Clock,
}

#[derive(Debug)]
struct Client {
    under_way: u64,
    spent: u64,
    /// The log was told that it is bounded now.
    told: bool,
    /// Until when refills were counted.
    since: Moment,
}

/// Leave to look up one thing that nothing is known of. Dropped, it counts as one that found nothing: whoever
/// goes away before the answer has cost the server as much.
pub struct Turn {
    client: Arc<Mutex<Client>>,
    found: bool,
}

impl Misses {
    /// Full stores.
    pub fn new(clock: Clock) -> Misses {
        let clients = Cache::builder().max_capacity(CLIENTS).eviction_policy(EvictionPolicy::lru()).build();
        Misses { clients, clock }
    }

    /// Leave for one look-up; `None`: this client has too many under way, or too many that found nothing.
    pub fn turn(&self, client: IpAddr) -> Option<Turn> {
        let now = self.clock.now();
        let fresh = || Arc::new(Mutex::new(Client { under_way: 0, spent: 0, told: false, since: now }));
        let address = network(client);
        let client = self.clients.get_with(address, fresh);
        {
            let mut client = client.lock().unwrap_or_else(PoisonError::into_inner);
            client.refill(now);
            if client.spent >= STORE || client.under_way >= AT_ONCE {
                if !std::mem::replace(&mut client.told, true) {
                    tracing::warn!(target: "audit", event = "guessing_bounded", client = %address);
                }
                return None;
            }
            client.under_way += 1;
        }
        Some(Turn { client, found: false })
    }
}

/// A person's machine: with IPv6 it has a whole network to itself.
fn network(client: IpAddr) -> IpNet {
    match client {
        IpAddr::V4(_) => client.into(),
        IpAddr::V6(address) => Ipv6Net::new(address, 64).map_or(client.into(), |net| net.trunc().into()),
    }
}

impl Client {
    fn refill(&mut self, now: Moment) {
        let due = now.0.saturating_sub(self.since.0) / REFILL;
        self.spent = self.spent.saturating_sub(due);
        self.told &= self.spent > 0;
        self.since = if self.spent == 0 { now } else { Moment(self.since.0 + due * REFILL) };
    }
}

impl Turn {
    /// The look-up found something: it cost nothing.
    pub fn found(mut self) {
        self.found = true;
    }
}

impl Drop for Turn {
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

    fn somebody() -> IpAddr {
        "192.0.2.1".parse().expect("an address")
    }

    #[test]
    fn guessing_is_bounded_and_finding_is_not() {
        let (clock, hands) = Clock::by_hand();
        let misses = Misses::new(clock);
        for _ in 0..10 * STORE {
            misses.turn(somebody()).expect("what was found costs nothing").found();
        }
        for _ in 0..STORE {
            drop(misses.turn(somebody()).expect("in store"));
        }
        assert!(misses.turn(somebody()).is_none());
        assert!(misses.turn("192.0.2.2".parse().expect("an address")).is_some(), "others have their own");
        hands.advance(Duration::from_secs(1));
        for _ in 0..4 {
            drop(misses.turn(somebody()).expect("refilled"));
        }
        assert!(misses.turn(somebody()).is_none());
        hands.advance(Duration::from_secs(3600));
        for _ in 0..STORE {
            drop(misses.turn(somebody()).expect("full again"));
        }
        assert!(misses.turn(somebody()).is_none(), "and not fuller than that");
    }

    #[test]
    fn what_is_under_way_is_bounded_too() {
        let (clock, _hands) = Clock::by_hand();
        let misses = Misses::new(clock);
        let all: Vec<_> = (0..200).filter_map(|_| misses.turn(somebody())).collect();
        assert_eq!(all.len() as u64, AT_ONCE);
        all.into_iter().for_each(Turn::found);
        assert!(misses.turn(somebody()).is_some());
    }

    #[test]
    fn an_ipv6_client_is_its_network() {
        let (clock, _hands) = Clock::by_hand();
        let misses = Misses::new(clock);
        for n in 0..STORE {
            let address = format!("2001:db8::{n:x}").parse().expect("an address");
            drop(misses.turn(address).expect("in store"));
        }
        assert!(misses.turn("2001:db8::ffff".parse().expect("an address")).is_none());
        assert!(misses.turn("2001:db8:0:1::1".parse().expect("an address")).is_some());
    }
}
