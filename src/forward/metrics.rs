//! The metrics of the forwarder.

use prometheus_client::metrics::gauge::Gauge;

use crate::ops::{metrics::Registry, request_metrics::DeadlineMetrics};

/// The metrics of connections to apps.
#[derive(Debug)]
pub struct ForwardMetrics {
    /// Open connections to apps.
    pub upstream_connections: Gauge,
    /// Missed deadlines of clients and apps.
    pub deadlines: DeadlineMetrics,
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
        ForwardMetrics {
            upstream_connections,
            deadlines,
        }
    }
}
