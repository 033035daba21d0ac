//! Metrics of the requests that a server answers, and of the deadlines that its clients miss.
//!
//! A request touches atomics only: the counters of its labels are looked up once and kept.

use std::{
    fmt,
    sync::{Arc, OnceLock},
};

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
};

use crate::metrics::Registry;

/// `class` and `code` of a finished request.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    class: &'static str,
    code: u16,
}

/// `deadline` that passed.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DeadlineLabels {
    deadline: &'static str,
}

/// Status codes from here on share one counter slot.
const CODES: u16 = 600;

/// Requests of one server. Clones share their counts.
#[derive(Clone)]
pub struct RequestMetrics {
    requests: Family<RequestLabels, Counter>,
    /// By class and code.
    counters: Arc<[OnceLock<Counter>]>,
    classes: &'static [&'static str],
    /// Seconds from the head of a request to the last byte of its response.
    pub duration: Histogram,
    /// Requests in progress.
    pub in_flight: Gauge,
}

impl RequestMetrics {
    /// Registers the metrics of a server whose requests have these classes. The last class stands
    /// for any other.
    pub fn register(registry: &Registry, classes: &'static [&'static str]) -> RequestMetrics {
        let metrics = RequestMetrics {
            requests: Family::default(),
            counters: (0..classes.len() * usize::from(CODES))
                .map(|_| OnceLock::new())
                .collect(),
            classes,
            duration: Histogram::new([0.001, 0.005, 0.025, 0.1, 0.25, 1.0, 5.0, 30.0, 300.0]),
            in_flight: Gauge::default(),
        };
        registry.register("requests", "Requests answered", metrics.requests.clone());
        registry.register(
            "request_duration_seconds",
            "Time to the last byte",
            metrics.duration.clone(),
        );
        registry.register(
            "requests_in_flight",
            "Requests being answered",
            metrics.in_flight.clone(),
        );
        metrics
    }

    /// Counts a finished request.
    pub fn count(&self, class: &'static str, code: u16) {
        let last = self.classes.len().saturating_sub(1);
        let index = self
            .classes
            .iter()
            .position(|known| *known == class)
            .unwrap_or(last);
        let class = self.classes.get(index).copied().unwrap_or(class);
        let make = || {
            self.requests
                .get_or_create_owned(&RequestLabels { class, code })
        };
        match self
            .counters
            .get(index * usize::from(CODES) + usize::from(code.min(CODES - 1)))
        {
            Some(counter) => counter.get_or_init(make).inc(),
            None => make().inc(),
        };
    }
}

impl fmt::Debug for RequestMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RequestMetrics")
    }
}

/// Deadlines that clients or apps missed. Clones share their counts.
#[derive(Clone, Debug, Default)]
pub struct DeadlineMetrics(Family<DeadlineLabels, Counter>);

impl DeadlineMetrics {
    /// Registers `ludgate_deadlines`, with one counter per deadline.
    pub fn register(registry: &Registry) -> DeadlineMetrics {
        let metrics = DeadlineMetrics::default();
        registry.register(
            "deadlines",
            "Deadlines reached by clients, apps and connections",
            metrics.0.clone(),
        );
        metrics
    }

    /// Counts a missed deadline.
    pub fn missed(&self, deadline: &'static str) {
        self.0.get_or_create(&DeadlineLabels { deadline }).inc();
    }
}
