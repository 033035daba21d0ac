//! The metrics of the listeners.

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge},
};

use crate::ops::{
    metrics::Registry,
    optional_gauge::OptionalGauge,
    request_metrics::{DeadlineMetrics, RequestMetrics},
};

/// The reason for closing a connection before its first request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionRefusal {
    /// The limit of all connections.
    Limit,
    /// The limit per client.
    LimitPerClient,
    /// Other bytes came instead of a PROXY protocol header.
    ProxyHeaderMissing,
    /// The PROXY protocol header is malformed.
    ProxyHeaderMalformed,
    /// The PROXY protocol header is too long.
    ProxyHeaderTooLong,
    /// The peer closed before the end of its PROXY protocol header.
    ProxyHeaderUnfinished,
    /// The deadline for the PROXY protocol header.
    ProxyHeaderSlow,
    /// The TLS handshake failed.
    Handshake,
}

impl ConnectionRefusal {
    /// The label in the metric.
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
    /// Failed `accept` calls: no file descriptors or memory left.
    pub accept_failures: Counter,
    /// Clients disconnected because they read nothing of their response.
    pub write_stalls: Counter,
    /// Whether the certificate files of all listeners were valid at the last read.
    pub certificates_fine: OptionalGauge,
    /// When the first served certificate expires, in seconds since 1970.
    pub certificate_expires: OptionalGauge,
    /// Requests that hyper refuses itself.
    pub requests: RequestMetrics,
    /// Deadlines that clients missed.
    pub deadlines: DeadlineMetrics,
    refused: Family<RefusedLabels, Counter>,
}

impl ListenerMetrics {
    /// Registers the metrics. Other rooms share `requests` and `deadlines`.
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
            certificate_expires: OptionalGauge::default(),
            requests,
            deadlines,
            refused: Family::default(),
        };
        registry.register(
            "connections",
            "Open client connections",
            metrics.connections.clone(),
        );
        registry.register(
            "connections_refused",
            "Client connections closed before their first request, by reason",
            metrics.refused.clone(),
        );
        registry.register(
            "accept_failures",
            "Failed attempts to accept a connection, for lack of file descriptors or memory",
            metrics.accept_failures.clone(),
        );
        registry.register(
            "certificates_last_read_success",
            "Whether the certificate files of all listeners were valid at the last read (1: yes)",
            metrics.certificates_fine.clone(),
        );
        registry.register(
            "certificate_expires_seconds",
            "Time at which the first served certificate expires, in seconds since 1970",
            metrics.certificate_expires.clone(),
        );
        registry.register(
            "write_stalls",
            "Client connections closed because the client read nothing",
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
