//! Metrics of images: calls to the registry, refreshes, and pods that pull.

use ludgate_ops::{http_client::CallCounter, metrics::Registry};
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge},
};

/// The label of a result.
#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
struct ResultLabel {
    result: &'static str,
}

/// The metrics of images. Clones share their values.
#[derive(Clone, Debug, Default)]
pub struct LabImagesMetrics {
    /// Calls to the registry.
    pub(super) calls: CallCounter,
    refreshes: Family<ResultLabel, Counter>,
    prepulls: Family<ResultLabel, Counter>,
    /// Pods that pull now.
    pub(super) pulling: Gauge,
}

impl LabImagesMetrics {
    /// Registers the metrics.
    pub fn register(registry: &Registry) -> LabImagesMetrics {
        let metrics = LabImagesMetrics {
            calls: CallCounter::register(
                registry,
                "lab_registry_requests",
                "Calls to the registry of lab images by endpoint and result",
            ),
            ..LabImagesMetrics::default()
        };
        registry.register(
            "lab_image_refreshes",
            "Refreshes of the list of lab images by result",
            metrics.refreshes.clone(),
        );
        registry.register(
            "lab_prepulls",
            "Lab images pulled to nodes by result",
            metrics.prepulls.clone(),
        );
        registry.register(
            "lab_prepulls_running",
            "Pods that pull lab images now",
            metrics.pulling.clone(),
        );
        metrics
    }

    pub(super) fn refreshed(&self, result: &'static str) {
        self.refreshes.get_or_create(&ResultLabel { result }).inc();
    }

    pub(super) fn prepulled(&self, result: &'static str) {
        self.prepulls.get_or_create(&ResultLabel { result }).inc();
    }
}
