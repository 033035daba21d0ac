//! Metrics about the catalogue.

use std::sync::atomic::AtomicU64;

use prometheus_client::metrics::gauge::Gauge;

use crate::ops::metrics::Registry;

/// The metrics of the catalogue.
#[derive(Debug)]
pub struct CatalogMetrics {
    /// Apps that are published.
    pub apps: Gauge,
    /// Apps with an invalid definition.
    pub problems: Gauge,
    /// Seconds since the source was last heard from; 0 for a file.
    pub age: Gauge<f64, AtomicU64>,
}

impl CatalogMetrics {
    /// Registers the metrics.
    pub fn register(registry: &Registry) -> CatalogMetrics {
        let (apps, problems, age) = (Gauge::default(), Gauge::default(), Gauge::default());
        let metrics = CatalogMetrics {
            apps,
            problems,
            age,
        };
        registry.register("catalog_apps", "Published apps", metrics.apps.clone());
        registry.register(
            "catalog_problems",
            "Apps with an invalid definition",
            metrics.problems.clone(),
        );
        registry.register(
            "catalog_age_seconds",
            "Seconds since the source of the apps last responded; 0 for a file",
            metrics.age.clone(),
        );
        metrics
    }
}
