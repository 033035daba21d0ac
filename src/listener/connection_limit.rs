//! Limits of open connections: all together, and per client. Dropping a permit releases it.
//!
//! All data threads share the counters. They change when a connection is accepted and when it ends;
//! requests do not touch them.

use std::{
    collections::{HashMap, hash_map::Entry},
    hash::{BuildHasher, RandomState},
    net::IpAddr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use ipnet::IpNet;

use super::{
    metrics::{ConnectionRefusal, ListenerMetrics},
    settings::ListenerSettings,
};
use crate::model::client::limit_key;

/// Clients are counted in this many tables, so that data threads seldom contend for a lock.
const SHARDS: usize = 16;

/// The connections of one listener.
#[derive(Debug)]
pub struct ConnectionLimit {
    limit: usize,
    limit_per_client: usize,
    /// Proxies: one address stands for many clients.
    unlimited: Vec<IpNet>,
    open: AtomicUsize,
    /// Connections of each client; never zero. The hasher has random keys, so clients cannot choose
    /// their table.
    clients: [Mutex<HashMap<IpAddr, usize>>; SHARDS],
    hasher: RandomState,
    has_warned: AtomicBool,
    metrics: Arc<ListenerMetrics>,
}

impl ConnectionLimit {
    /// The limit of the settings, or `room` if that is lower: the file descriptors that are left.
    pub fn new(
        settings: &ListenerSettings,
        room: usize,
        metrics: Arc<ListenerMetrics>,
    ) -> Arc<ConnectionLimit> {
        if room < settings.connections {
            let wanted = settings.connections;
            tracing::info!(
                wanted,
                room,
                "the limit of open files is too low for limits.connections"
            );
        }
        Arc::new(ConnectionLimit {
            limit: settings.connections.min(room),
            limit_per_client: settings.connections_per_client,
            unlimited: settings.trusted_proxies.clone(),
            open: AtomicUsize::new(0),
            clients: Default::default(),
            hasher: RandomState::new(),
            has_warned: AtomicBool::new(false),
            metrics,
        })
    }

    /// A permit for a connection whose client is not known yet.
    pub fn acquire(self: &Arc<Self>) -> Option<ConnectionPermit> {
        let permit = ConnectionPermit {
            limit: self.clone(),
            client: None,
        };
        self.metrics.connections.inc();
        // Counted before the check: the drop of `permit` releases it either way.
        if self.open.fetch_add(1, Ordering::Relaxed) < self.limit {
            return Some(permit);
        }
        self.metrics.refused(ConnectionRefusal::Limit);
        None
    }

    fn table(&self, client: &IpAddr) -> MutexGuard<'_, HashMap<IpAddr, usize>> {
        let shard = usize::try_from(self.hasher.hash_one(client) % SHARDS as u64).unwrap_or(0);
        // No code under the lock can panic, and the counts are valid after each step.
        self.clients[shard]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Logs once that the client may be a proxy, which the operator should configure as one.
    fn warn_once(&self, client: IpAddr) {
        if !self.has_warned.swap(true, Ordering::Relaxed) {
            let limit = self.limit_per_client;
            tracing::warn!(
                %client, limit,
                "a client has more connections than limits.connections_per_client; if it is a proxy, name it in \
                 listen.trusted_proxies. Said once, counted in ludgate_connections_refused_total"
            );
        }
    }
}

/// The right to keep one connection open.
#[derive(Debug)]
pub struct ConnectionPermit {
    limit: Arc<ConnectionLimit>,
    client: Option<IpAddr>,
}

impl ConnectionPermit {
    /// The same permit, counted for its client; `None` when the client is at its limit.
    pub fn for_client(mut self, address: IpAddr) -> Option<ConnectionPermit> {
        let address = address.to_canonical();
        if self
            .limit
            .unlimited
            .iter()
            .any(|net| net.contains(&address))
        {
            return Some(self);
        }
        let client = limit_key(address);
        let free = {
            let mut table = self.limit.table(&client);
            let count = table.entry(client).or_default();
            let free = *count < self.limit.limit_per_client;
            // At the limit means at least one, so no entry of zero stays.
            *count += usize::from(free);
            free
        };
        if free {
            self.client = Some(client);
            return Some(self);
        }
        self.limit
            .metrics
            .refused(ConnectionRefusal::LimitPerClient);
        self.limit.warn_once(client);
        None
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        self.limit.open.fetch_sub(1, Ordering::Relaxed);
        self.limit.metrics.connections.dec();
        let Some(client) = self.client else { return };
        if let Entry::Occupied(mut count) = self.limit.table(&client).entry(client) {
            match *count.get() {
                0 | 1 => {
                    count.remove();
                }
                more => *count.get_mut() = more - 1,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::listener::settings::tests::settings;
    use crate::ops::{
        metrics::Registry,
        request_metrics::{DeadlineMetrics, RequestMetrics},
    };

    fn limited(limit: usize, per_client: usize) -> Arc<ConnectionLimit> {
        limited_with(limit, per_client, &Registry::new())
    }

    fn limited_with(limit: usize, per_client: usize, registry: &Registry) -> Arc<ConnectionLimit> {
        let settings = ListenerSettings {
            connections: limit,
            connections_per_client: per_client,
            trusted_proxies: vec!["10.0.0.0/8".parse().expect("a network")],
            ..settings()
        };
        let (requests, deadlines) = (
            RequestMetrics::register(registry, &["x"]),
            DeadlineMetrics::register(registry),
        );
        let metrics = ListenerMetrics::register(registry, requests, deadlines);
        ConnectionLimit::new(&settings, usize::MAX, metrics.into())
    }

    fn permit(limit: &Arc<ConnectionLimit>, address: &str) -> Option<ConnectionPermit> {
        limit
            .acquire()?
            .for_client(address.parse().expect("an address"))
    }

    fn is_empty(limit: &ConnectionLimit) -> bool {
        limit.open.load(Ordering::Relaxed) == 0
            && limit
                .clients
                .iter()
                .all(|table| table.lock().expect("no panic").is_empty())
    }

    #[test]
    fn a_client_has_as_many_as_it_may_and_another_one_when_one_is_given_back() {
        for (first, same, other) in [
            ("192.0.2.1", "192.0.2.1", "192.0.2.2"),
            ("192.0.2.1", "::ffff:192.0.2.1", "::ffff:192.0.2.2"),
            (
                "2001:db8:1:2::1",
                "2001:db8:1:2:ffff:ffff:ffff:ffff",
                "2001:db8:1:3::1",
            ),
        ] {
            let limit = limited(100, 2);
            let held = (
                permit(&limit, first).expect("one"),
                permit(&limit, same).expect("two"),
            );
            assert!(
                permit(&limit, same).is_none() && permit(&limit, first).is_none(),
                "{first}: a third"
            );
            assert!(permit(&limit, other).is_some(), "{other} is another client");
            drop(held.0);
            let again = permit(&limit, same).expect("one was given back");
            assert!(permit(&limit, first).is_none(), "{first}: full again");
            drop((held.1, again));
            assert!(is_empty(&limit), "nothing is kept of {first}");
        }
    }

    #[test]
    fn a_trusted_proxy_is_bounded_by_the_limit_for_all_only() {
        let limit = limited(3, 1);
        let held: Vec<_> = (0..3)
            .map(|_| permit(&limit, "10.1.2.3").expect("a permit"))
            .collect();
        assert!(
            permit(&limit, "10.1.2.3").is_none() && limit.acquire().is_none(),
            "the limit for all"
        );
        drop(held);
        assert!(is_empty(&limit));
    }

    #[test]
    fn a_refusal_is_counted_and_takes_no_permit() {
        let registry = Registry::new();
        let limit = limited_with(2, 1, &registry);
        let held = permit(&limit, "192.0.2.1").expect("one");
        assert!(permit(&limit, "192.0.2.1").is_none());
        let second = permit(&limit, "192.0.2.2").expect("the refused one took none");
        assert!(permit(&limit, "192.0.2.3").is_none());
        let metrics = registry.render();
        for line in [
            "ludgate_connections 2",
            "ludgate_connections_refused_total{reason=\"limit\"} 1",
            "ludgate_connections_refused_total{reason=\"limit_per_client\"} 1",
        ] {
            assert!(metrics.contains(line), "{line}\n{metrics}");
        }
        drop((held, second));
        assert!(is_empty(&limit));
    }

    #[test]
    fn the_count_holds_across_threads() {
        let limit = limited(1000, 50);
        let all_at_once = || -> Vec<Vec<ConnectionPermit>> {
            std::thread::scope(|scope| {
                let take = || {
                    (0..100)
                        .filter_map(|_| permit(&limit, "192.0.2.1"))
                        .collect()
                };
                let threads: Vec<_> = (0..8).map(|_| scope.spawn(take)).collect();
                threads
                    .into_iter()
                    .map(|thread| thread.join().expect("no panic"))
                    .collect()
            })
        };
        for _ in 0..20 {
            let granted = all_at_once();
            assert_eq!(granted.iter().map(Vec::len).sum::<usize>(), 50);
            std::thread::scope(|scope| {
                granted
                    .into_iter()
                    .for_each(|part| drop(scope.spawn(|| drop(part))))
            });
            assert!(is_empty(&limit));
        }
    }
}
