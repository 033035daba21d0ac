//! The metrics of sessions.

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge},
};

use crate::ops::{metrics::Registry, optional_gauge::OptionalGauge};

/// `result` of a look-up, or of a command to the shared store.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResultLabels {
    result: &'static str,
}

/// The frequent results of a look-up.
const LOOKUPS: [&str; 3] = ["app", "sign_in", "none"];

/// The metrics of sessions and of the store that replicas share.
#[derive(Debug)]
pub struct SessionMetrics {
    /// Sign-ins and app sessions in memory.
    pub records: Gauge,
    /// Whether the store that replicas share is connected.
    pub store_up: OptionalGauge,
    lookups: Family<ResultLabels, Counter>,
    /// Looked up once, so that a request touches atomics only.
    frequent_lookups: [(&'static str, Counter); LOOKUPS.len()],
    store: Family<ResultLabels, Counter>,
}

impl SessionMetrics {
    /// Registers the metrics.
    pub fn register(registry: &Registry) -> SessionMetrics {
        let lookups = Family::<ResultLabels, Counter>::default();
        let frequent_lookups = LOOKUPS.map(|result| {
            (
                result,
                lookups.get_or_create_owned(&ResultLabels { result }),
            )
        });
        let metrics = SessionMetrics {
            records: Gauge::default(),
            store_up: OptionalGauge::default(),
            lookups,
            frequent_lookups,
            store: Family::default(),
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
        registry.register(
            "session_store_commands",
            "Commands to the shared session store, by result",
            metrics.store.clone(),
        );
        registry.register(
            "session_store_up",
            "Whether the shared session store is connected (1: yes)",
            metrics.store_up.clone(),
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
            None => self.lookups.get_or_create(&ResultLabels { result }).inc(),
        };
    }

    /// Counts a command to the shared store.
    pub fn store(&self, result: &'static str) {
        self.store.get_or_create(&ResultLabels { result }).inc();
    }
}
