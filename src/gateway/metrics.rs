//! Metrics of requests, decisions and streams.

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge},
};

use crate::decide::labels::{DecisionLabel, LogReason};
use crate::ops::{metrics::Registry, request_metrics::RequestMetrics};

/// The classes of requests.
pub const CLASSES: &[&str] = &["navigation", "frame", "websocket", "program", "malformed"];
/// Reasons for permitting a request.
const ALLOWED: [&str; 6] = ["public", "console", "user", "group", "owner", "admin"];

/// `decision` and `reason` of a request.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DecisionLabels {
    decision: &'static str,
    reason: &'static str,
}

/// The metrics of the gateway.
#[derive(Debug)]
pub struct GatewayMetrics {
    /// Requests.
    pub requests: RequestMetrics,
    /// Open WebSockets and long-lived responses.
    pub streams: Gauge,
    /// Streams closed because access was revoked or the session ended.
    pub streams_cut: Counter,
    decisions: Family<DecisionLabels, Counter>,
    /// Looked up once, so that a request touches atomics only.
    allowed: [(&'static str, Counter); ALLOWED.len()],
}

impl GatewayMetrics {
    /// Registers the metrics. `requests` are counted by the listener too.
    pub fn register(registry: &Registry, requests: RequestMetrics) -> GatewayMetrics {
        let decisions = Family::<DecisionLabels, Counter>::default();
        let allowed = ALLOWED.map(|reason| {
            (
                reason,
                decisions.get_or_create_owned(&DecisionLabels {
                    decision: "allow",
                    reason,
                }),
            )
        });
        let metrics = GatewayMetrics {
            requests,
            streams: Gauge::default(),
            streams_cut: Counter::default(),
            decisions,
            allowed,
        };
        registry.register(
            "decisions",
            "Access decisions, by decision and reason",
            metrics.decisions.clone(),
        );
        registry.register(
            "streams",
            "Open WebSockets and long-lived responses",
            metrics.streams.clone(),
        );
        registry.register(
            "streams_cut",
            "Streams closed because access was revoked or the session ended",
            metrics.streams_cut.clone(),
        );
        metrics
    }

    /// Counts a decision.
    pub fn decision(&self, decision: DecisionLabel, reason: LogReason) {
        let is_allowed = decision == DecisionLabel::Allow;
        let (decision, reason) = (decision.as_str(), reason.as_str());
        let mut known = self.allowed.iter();
        let known = known.find(|(name, _)| is_allowed && *name == reason);
        match known {
            Some((_, counter)) => counter.inc(),
            None => self
                .decisions
                .get_or_create(&DecisionLabels { decision, reason })
                .inc(),
        };
    }
}
