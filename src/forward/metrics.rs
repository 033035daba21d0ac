//! The metrics of the forwarder.

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge},
};

use super::fault::Fault;
use crate::ops::{metrics::Registry, request_metrics::DeadlineMetrics};

/// `outcome` of a request that got no response from its app.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct FaultLabels {
    outcome: &'static str,
}

/// The metrics of connections to apps.
#[derive(Debug)]
pub struct ForwardMetrics {
    /// Open connections to apps.
    pub upstream_connections: Gauge,
    /// Missed deadlines of clients and apps.
    pub deadlines: DeadlineMetrics,
    faults: Family<FaultLabels, Counter>,
}

impl ForwardMetrics {
    /// Registers the metrics. The listener shares `deadlines`.
    pub fn register(registry: &Registry, deadlines: DeadlineMetrics) -> ForwardMetrics {
        let upstream_connections = Gauge::default();
        registry.register(
            "upstream_connections",
            "Open connections to apps",
            upstream_connections.clone(),
        );
        let faults = Family::<FaultLabels, Counter>::default();
        registry.register(
            "upstream_faults",
            "Requests that got no response from their app, by outcome",
            faults.clone(),
        );
        ForwardMetrics {
            upstream_connections,
            deadlines,
            faults,
        }
    }

    /// Counts a request that got no response from its app.
    pub(super) fn count_fault(&self, fault: Fault) {
        let outcome = fault.reason();
        self.faults.get_or_create(&FaultLabels { outcome }).inc();
    }
}
