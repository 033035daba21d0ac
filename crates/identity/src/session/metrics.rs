//! The metrics of sessions.

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge},
};

use crate::ops::{metrics::Registry, redis::StoreMetrics};

/// `result` of a look-up.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct LookupLabels {
    result: &'static str,
}

/// The frequent results of a look-up.
const LOOKUPS: [&str; 3] = ["app", "sign_in", "none"];

/// The metrics of sessions and of the store that replicas share.
#[derive(Debug)]
pub struct SessionMetrics {
    /// Sign-ins and app sessions in memory.
    pub records: Gauge,
    /// The store that replicas share.
    pub store: StoreMetrics,
    lookups: Family<LookupLabels, Counter>,
    /// Looked up once, so that a request touches atomics only.
    frequent_lookups: [(&'static str, Counter); LOOKUPS.len()],
}

impl SessionMetrics {
    /// Registers the metrics.
    pub fn register(registry: &Registry) -> SessionMetrics {
        let lookups = Family::<LookupLabels, Counter>::default();
        let frequent_lookups = LOOKUPS.map(|result| {
            (
                result,
                lookups.get_or_create_owned(&LookupLabels { result }),
            )
        });
        let metrics = SessionMetrics {
            records: Gauge::default(),
            store: StoreMetrics::register(
                registry,
                (
                    "session_store_commands",
                    "Commands to the shared session store, by result",
                ),
                (
                    "session_store_up",
                    "Whether the shared session store is connected (1: yes)",
                ),
            ),
            lookups,
            frequent_lookups,
        };
        registry.register(
            "sessions",
            "Session records in memory",
            metrics.records.clone(),
        );
        registry.register(
            "session_lookups",
            "Session look-ups, by result",
            metrics.lookups.clone(),
        );
        metrics
    }

    /// Counts a session look-up.
    pub fn lookup(&self, result: &'static str) {
        match self
            .frequent_lookups
            .iter()
            .find(|(name, _)| *name == result)
        {
            Some((_, counter)) => counter.inc(),
            None => self.lookups.get_or_create(&LookupLabels { result }).inc(),
        };
    }
}
