//! What the listeners count.

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge},
};

use crate::ops::{
    metrics::Registry,
    optional_gauge::OptionalGauge,
    request_metrics::{DeadlineMetrics, RequestMetrics},
};

/// Why a connection was closed before its first request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionRefusal {
    /// All seats are taken.
    Limit,
    /// Its client has as many as it may.
    LimitPerClient,
    /// A PROXY protocol header was due, and something else came.
    ProxyHeaderMissing,
    /// There was one, and it is not understood.
    ProxyHeaderMalformed,
    /// There was one, longer than may be.
    ProxyHeaderTooLong,
    /// The peer closed before its end.
    ProxyHeaderUnfinished,
    /// It did not come in time.
    ProxyHeaderSlow,
    /// TLS was not agreed on.
    Handshake,
}

impl ConnectionRefusal {
    /// The word in the metric.
    pub fn as_str(self) -> &'static str {
        match self {
            ConnectionRefusal::Limit => "limit",
            ConnectionRefusal::LimitPerClient => "limit_per_client",
            ConnectionRefusal::ProxyHeaderMissing => "proxy_header_missing",
            ConnectionRefusal::ProxyHeaderMalformed => "proxy_header_malformed",
            ConnectionRefusal::ProxyHeaderTooLong => "proxy_header_too_long",
            ConnectionRefusal::ProxyHeaderUnfinished => "proxy_header_unfinished",
            ConnectionRefusal::ProxyHeaderSlow => "proxy_header_slow",
            ConnectionRefusal::Handshake => "handshake",
        }
    }
}

/// `reason` of a connection that was closed before its first request.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RefusedLabels {
    reason: &'static str,
}

/// The metrics of all listeners.
#[derive(Debug)]
pub struct ListenerMetrics {
    /// Open connections of clients.
    pub connections: Gauge,
    /// Tries to accept connections that failed for want of file descriptors or memory.
    pub accept_failures: Counter,
    /// Clients that were let go because they took nothing of their answer.
    pub write_stalls: Counter,
    /// Whether the files of our certificates could be used when they were last read.
    pub certificates_fine: OptionalGauge,
    /// Requests, for those that hyper refuses by itself.
    pub requests: RequestMetrics,
    /// Deadlines that clients missed.
    pub deadlines: DeadlineMetrics,
    refused: Family<RefusedLabels, Counter>,
}

impl ListenerMetrics {
    /// Registers the metrics. `requests` and `deadlines` are counted by others too.
    pub fn register(
        registry: &Registry,
        requests: RequestMetrics,
        deadlines: DeadlineMetrics,
    ) -> ListenerMetrics {
        let metrics = ListenerMetrics {
            connections: Gauge::default(),
            accept_failures: Counter::default(),
            write_stalls: Counter::default(),
            certificates_fine: OptionalGauge::default(),
            requests,
            deadlines,
            refused: Family::default(),
        };
        registry.register(
            "connections",
            "Open connections of clients",
            metrics.connections.clone(),
        );
        registry.register(
            "connections_refused",
            "Connections closed before their first request",
            metrics.refused.clone(),
        );
        registry.register(
            "accept_failures",
            "Failed attempts to accept a connection, for lack of file descriptors or memory",
            metrics.accept_failures.clone(),
        );
        registry.register(
            "certificates_last_read_success",
            "Whether the certificate files were valid at the last read",
            metrics.certificates_fine.clone(),
        );
        registry.register(
            "write_stalls",
            "Connections closed because the client read nothing",
            metrics.write_stalls.clone(),
        );
        metrics
    }

    /// Counts a connection that was closed before its first request.
    pub fn refused(&self, reason: ConnectionRefusal) {
        self.refused
            .get_or_create(&RefusedLabels {
                reason: reason.as_str(),
            })
            .inc();
    }
}
