//! Every metric by name. Labels are enums or status codes, never an app or a person.
//!
//! The handles of what a warm request counts are looked up at start; it touches atomics, not maps or locks.

use std::{
    fmt,
    sync::{Arc, OnceLock, atomic::AtomicU64},
};

use prometheus_client::{
    encoding::{EncodeLabelSet, text::encode},
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram, info::Info},
    registry::Registry,
};

use super::optional_gauge::OptionalGauge;

/// `class` and `code` of a finished request.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    class: &'static str,
    code: u16,
}

/// `decision` and `reason` of a judged request.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DecisionLabels {
    decision: &'static str,
    reason: &'static str,
}

/// The outcome of looking for a session.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct LookupLabels {
    result: &'static str,
}

/// One call to the identity provider, or to the Arvados API server.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CallLabels {
    endpoint: &'static str,
    result: &'static str,
}

/// Why a connection was closed before its first request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
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

impl Refused {
    /// The word in the metric.
    pub fn as_str(self) -> &'static str {
        match self {
            Refused::Limit => "limit",
            Refused::LimitPerClient => "limit_per_client",
            Refused::ProxyHeaderMissing => "proxy_header_missing",
            Refused::ProxyHeaderMalformed => "proxy_header_malformed",
            Refused::ProxyHeaderTooLong => "proxy_header_too_long",
            Refused::ProxyHeaderUnfinished => "proxy_header_unfinished",
            Refused::ProxyHeaderSlow => "proxy_header_slow",
            Refused::Handshake => "handshake",
        }
    }
}

/// `reason` of a connection that was closed before its first request.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RefusedLabels {
    reason: &'static str,
}

/// `deadline` that passed.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct MissedLabels {
    deadline: &'static str,
}

/// The metrics of one process.
pub struct Metrics {
    registry: Registry,
    requests: Family<RequestLabels, Counter>,
    decisions: Family<DecisionLabels, Counter>,
    lookups: Family<LookupLabels, Counter>,
    oidc: Family<CallLabels, Counter>,
    arvados: Family<CallLabels, Counter>,
    store: Family<LookupLabels, Counter>,
    refused: Family<RefusedLabels, Counter>,
    missed: Family<MissedLabels, Counter>,
    /// Open connections of clients.
    pub connections: Gauge,
    /// Tries to accept connections that failed for want of file descriptors or memory.
    pub accept_failures: Counter,
    /// Request duration in seconds, head to last byte.
    pub duration: Histogram,
    /// Requests being answered now.
    pub in_flight: Gauge,
    /// Upgraded connections and responses that last.
    pub streams: Gauge,
    /// Streams that were cut because the person may no longer see them.
    pub streams_cut: Counter,
    /// Sign-ins and app sessions in memory.
    pub sessions: Gauge,
    /// Whether the session store that replicas share is connected.
    pub store_up: OptionalGauge,
    /// Clients that were let go because they took nothing of their answer.
    pub write_stalls: Counter,
    /// Apps in the catalogue.
    pub catalog_apps: Gauge,
    /// Apps that are not as their authors wrote them, or not there for it.
    pub catalog_problems: Gauge,
    /// Open connections to apps.
    pub upstream_connections: Gauge,
    /// Request log lines dropped because the sink stalled.
    pub log_dropped: Counter,
    /// Whether the files of our certificates could be used when they were last read.
    pub certificates_fine: OptionalGauge,
    /// Whether the last configuration that was read is in force.
    pub last_reload_success: Gauge,
    catalog_age: Gauge<f64, AtomicU64>,
    hot: HotCounters,
}

/// Counters of the labels that every request touches, looked up once.
struct HotCounters {
    requests: Vec<OnceLock<Counter>>,
    allowed: Vec<(&'static str, Counter)>,
    lookups: Vec<(&'static str, Counter)>,
}

const CLASSES: [&str; 5] = ["navigation", "frame", "websocket", "program", "malformed"];
const CODES: u16 = 600;
/// Reasons for letting in, and outcomes of a session look-up: the labels of a warm request.
const ALLOWED: [&str; 6] = ["public", "console", "user", "group", "owner", "admin"];
const LOOKUPS: [&str; 3] = ["app", "sign_in", "none"];

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Metrics")
    }
}

impl Metrics {
    /// Registers everything.
    pub fn new() -> Arc<Metrics> {
        let mut registry = Registry::with_prefix("ludgate");
        let decisions = Family::<DecisionLabels, Counter>::default();
        let lookups = Family::<LookupLabels, Counter>::default();
        let allowed =
            |reason| (reason, decisions.get_or_create_owned(&DecisionLabels { decision: "allow", reason }));
        let looked_up = |result| (result, lookups.get_or_create_owned(&LookupLabels { result }));
        let (allowed, looked_up) = (ALLOWED.map(allowed).to_vec(), LOOKUPS.map(looked_up).to_vec());
        let metrics = Metrics {
            requests: Family::default(),
            decisions,
            lookups,
            oidc: Family::default(),
            arvados: Family::default(),
            store: Family::default(),
            store_up: OptionalGauge::default(),
            refused: Family::default(),
            missed: Family::default(),
            connections: Gauge::default(),
            accept_failures: Counter::default(),
            duration: Histogram::new([0.001, 0.005, 0.025, 0.1, 0.25, 1.0, 5.0, 30.0, 300.0]),
            in_flight: Gauge::default(),
            streams: Gauge::default(),
            streams_cut: Counter::default(),
            sessions: Gauge::default(),
            write_stalls: Counter::default(),
            catalog_apps: Gauge::default(),
            catalog_problems: Gauge::default(),
            upstream_connections: Gauge::default(),
            log_dropped: Counter::default(),
            certificates_fine: OptionalGauge::default(),
            last_reload_success: Gauge::default(),
            catalog_age: Gauge::default(),
            hot: HotCounters {
                requests: (0..CLASSES.len() * usize::from(CODES)).map(|_| OnceLock::new()).collect(),
                allowed,
                lookups: looked_up,
            },
            registry: Registry::default(),
        };
        registry.register("requests", "Requests answered", metrics.requests.clone());
        registry.register("request_duration_seconds", "Time to the last byte", metrics.duration.clone());
        registry.register("requests_in_flight", "Requests being answered", metrics.in_flight.clone());
        registry.register("streams", "Upgrades and lasting responses", metrics.streams.clone());
        registry.register("streams_cut", "Streams ended with their session", metrics.streams_cut.clone());
        registry.register("sessions", "Session records in memory", metrics.sessions.clone());
        registry.register("session_lookups", "Session look-ups", metrics.lookups.clone());
        registry.register("decisions", "Decisions taken", metrics.decisions.clone());
        registry.register("oidc_requests", "Calls to the identity provider", metrics.oidc.clone());
        registry.register("arvados_requests", "Calls to the Arvados API server", metrics.arvados.clone());
        registry.register(
            "session_store_commands",
            "Commands to the shared session store, by what came of them",
            metrics.store.clone(),
        );
        registry.register(
            "session_store_up",
            "1 while the shared session store is connected",
            metrics.store_up.clone(),
        );
        registry.register("connections", "Open connections of clients", metrics.connections.clone());
        registry.register(
            "connections_refused",
            "Connections closed before their first request",
            metrics.refused.clone(),
        );
        registry.register(
            "deadlines",
            "Clients that did not do in time what was due",
            metrics.missed.clone(),
        );
        registry.register(
            "accept_failures",
            "Tries to accept connections that failed for want of descriptors",
            metrics.accept_failures.clone(),
        );
        registry.register("catalog_apps", "Apps in the catalogue", metrics.catalog_apps.clone());
        registry.register(
            "certificates_last_read_success",
            "Whether the files of our certificates could be used when they last changed",
            metrics.certificates_fine.clone(),
        );
        registry.register(
            "write_stalls",
            "Clients let go because they took nothing of their answer",
            metrics.write_stalls.clone(),
        );
        registry.register(
            "catalog_problems",
            "Apps that are not as their authors wrote them",
            metrics.catalog_problems.clone(),
        );
        registry.register(
            "catalog_age_seconds",
            "Time since the source of the catalogue was heard from; 0 for a file",
            metrics.catalog_age.clone(),
        );
        registry.register(
            "upstream_connections",
            "Connections to apps",
            metrics.upstream_connections.clone(),
        );
        registry.register("log_lines_dropped", "Log lines dropped", metrics.log_dropped.clone());
        registry.register(
            "config_last_reload_success",
            "1 when the last configuration read is in force",
            metrics.last_reload_success.clone(),
        );
        registry.register("build", "Version", Info::new(vec![("version", env!("CARGO_PKG_VERSION"))]));
        Arc::new(Metrics { registry, ..metrics })
    }

    /// Counts a finished request.
    pub fn request(&self, class: &'static str, code: u16) {
        let index = CLASSES.iter().position(|c| *c == class).unwrap_or(CLASSES.len() - 1);
        let slot = index * usize::from(CODES) + usize::from(code.min(CODES - 1));
        let make = || self.requests.get_or_create_owned(&RequestLabels { class: CLASSES[index], code });
        match self.hot.requests.get(slot) {
            Some(counter) => counter.get_or_init(make).inc(),
            None => make().inc(),
        };
    }

    /// Counts a decision.
    pub fn decision(&self, decision: &'static str, reason: &'static str) {
        let hot = if decision == "allow" {
            self.hot.allowed.iter().find(|(name, _)| *name == reason)
        } else {
            None
        };
        match hot {
            Some((_, counter)) => counter.inc(),
            None => self.decisions.get_or_create(&DecisionLabels { decision, reason }).inc(),
        };
    }

    /// Counts a session look-up.
    pub fn lookup(&self, result: &'static str) {
        match self.hot.lookups.iter().find(|(name, _)| *name == result) {
            Some((_, counter)) => counter.inc(),
            None => self.lookups.get_or_create(&LookupLabels { result }).inc(),
        };
    }

    /// Counts a call to the identity provider.
    pub fn oidc(&self, endpoint: &'static str, result: &'static str) {
        self.oidc.get_or_create(&CallLabels { endpoint, result }).inc();
    }

    /// Counts a call to the Arvados API server.
    pub fn arvados(&self, endpoint: &'static str, result: &'static str) {
        self.arvados.get_or_create(&CallLabels { endpoint, result }).inc();
    }

    /// Counts a command to the shared session store.
    pub fn store(&self, result: &'static str) {
        self.store.get_or_create(&LookupLabels { result }).inc();
    }

    /// Counts a connection that was closed before its first request.
    pub fn connection_refused(&self, reason: Refused) {
        self.refused.get_or_create(&RefusedLabels { reason: reason.as_str() }).inc();
    }

    /// Counts a client that did not do in time what was due.
    pub fn missed(&self, deadline: &'static str) {
        self.missed.get_or_create(&MissedLabels { deadline }).inc();
    }

    /// Sets how long the source of the catalogue was not heard from, in seconds.
    pub fn set_catalog_age(&self, seconds: f64) {
        self.catalog_age.set(seconds);
    }

    /// The exposition text (OpenMetrics).
    pub fn render(&self) -> String {
        let mut text = String::new();
        match encode(&mut text, &self.registry) {
            Ok(()) => text,
            Err(fmt::Error) => String::new(),
        }
    }
}
