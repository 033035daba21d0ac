//! Metrics of the REST service.

use std::time::Instant;

use ludgate_ops::{metrics::Registry, request_metrics::RequestMetrics};
use prometheus_client::metrics::gauge::Gauge;

/// Classes of requests; the last one stands for any other.
const CLASSES: &[&str] = &[
    "create", "delete", "events", FILES, "form", "images", "labs", "status", "other",
];
/// The class of requests about file servers.
pub(super) const FILES: &str = "files";

/// Metrics of the REST service. Clones share their values.
#[derive(Clone, Debug)]
pub struct LabRequestMetrics {
    requests: RequestMetrics,
    listeners: Gauge,
}

impl LabRequestMetrics {
    /// Registers the metrics.
    pub fn register(registry: &Registry) -> LabRequestMetrics {
        let metrics = LabRequestMetrics {
            requests: RequestMetrics::register(registry, CLASSES),
            listeners: Gauge::default(),
        };
        registry.register(
            "lab_event_listeners",
            "Open event streams of labs",
            metrics.listeners.clone(),
        );
        metrics
    }

    /// Counts a request until the guard is dropped.
    pub(super) fn begin(&self) -> RequestGuard {
        self.requests.in_flight.inc();
        RequestGuard {
            metrics: self.requests.clone(),
            started: Instant::now(),
        }
    }

    /// Counts a listener until the guard is dropped.
    pub(super) fn listen(&self) -> ListenerGuard {
        self.listeners.inc();
        ListenerGuard(self.listeners.clone())
    }
}

/// A request in progress.
pub(super) struct RequestGuard {
    metrics: RequestMetrics,
    started: Instant,
}

impl RequestGuard {
    /// Counts the answer. Event streams last as long as an operation and have no duration here.
    pub(super) fn finish(self, class: &'static str, code: u16) {
        self.metrics.count(class, code);
        if class != "events" {
            let seconds = self.started.elapsed().as_secs_f64();
            self.metrics.duration.observe(seconds);
        }
    }
}

impl Drop for RequestGuard {
    fn drop(&mut self) {
        self.metrics.in_flight.dec();
    }
}

/// An open event stream.
pub(super) struct ListenerGuard(Gauge);

impl Drop for ListenerGuard {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// The class of a request, by its path below the prefix and its method.
pub(super) fn class(method: &http::Method, path: &str) -> &'static str {
    let mut segments = path.split('/').filter(|segment| !segment.is_empty());
    match (segments.next(), segments.next(), segments.next()) {
        (Some("labs"), None, None) => "labs",
        (Some("labs"), Some(_), None) if method == http::Method::DELETE => "delete",
        (Some("labs"), Some(_), None) | (Some("user-status"), None, None) => "status",
        (Some("labs"), Some(_), Some("create")) => "create",
        (Some("labs"), Some(_), Some("events")) => "events",
        (Some("lab-form"), Some(_), None) => "form",
        (Some("images" | "prepulls"), None, None) => "images",
        (_, _, _) => "other",
    }
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;

    #[test]
    fn each_route_has_a_class() {
        for (path, expected) in [
            ("/labs", "labs"),
            ("/labs/rachel", "status"),
            ("/labs/rachel/create", "create"),
            ("/labs/rachel/events", "events"),
            ("/lab-form/rachel", "form"),
            ("/user-status", "status"),
            ("/prepulls", "images"),
            ("/labs/rachel/other", "other"),
            ("/", "other"),
        ] {
            assert_eq!(class(&Method::GET, path), expected, "{path}");
            assert!(CLASSES.contains(&expected));
        }
        assert_eq!(class(&Method::DELETE, "/labs/rachel"), "delete");
    }
}
