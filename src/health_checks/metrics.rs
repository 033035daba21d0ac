//! The metrics of health checks.

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{family::Family, gauge::Gauge},
};

use crate::{
    model::{app::AppId, upstream_group::UpstreamGroup},
    ops::metrics::{AppLabels, Registry},
};

const PASSING: &str = "passing";
const FAILING: &str = "failing";

/// An app, and the health that its counted upstreams have.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct HealthLabels {
    app: String,
    health: &'static str,
}

/// The health of each app's upstreams. Only apps of the configuration file have checks, so the
/// operator decides the number of labels.
#[derive(Debug)]
pub(super) struct HealthMetrics {
    /// `None`: no label may name an app.
    upstreams: Option<Family<HealthLabels, Gauge>>,
}

impl HealthMetrics {
    pub(super) fn register(registry: &Registry, app_labels: AppLabels) -> HealthMetrics {
        let upstreams = match app_labels {
            AppLabels::Off => None,
            AppLabels::On => {
                let upstreams = Family::<HealthLabels, Gauge>::default();
                registry.register(
                    "upstreams",
                    "Upstreams with a health check, by app and health",
                    upstreams.clone(),
                );
                Some(upstreams)
            }
        };
        HealthMetrics { upstreams }
    }

    /// Sets the counts of an app.
    pub(super) fn set(&self, app: &AppId, group: &UpstreamGroup) {
        let Some(upstreams) = &self.upstreams else {
            return;
        };
        let (all, failing) = (group.members().len(), group.failing());
        for (health, count) in [(PASSING, all.saturating_sub(failing)), (FAILING, failing)] {
            let count = i64::try_from(count).unwrap_or(i64::MAX);
            upstreams.get_or_create(&labels(app, health)).set(count);
        }
    }

    /// Removes an app whose checks have ended.
    pub(super) fn remove(&self, app: &AppId) {
        if let Some(upstreams) = &self.upstreams {
            for health in [PASSING, FAILING] {
                upstreams.remove(&labels(app, health));
            }
        }
    }
}

fn labels(app: &AppId, health: &'static str) -> HealthLabels {
    HealthLabels {
        app: app.as_str().to_owned(),
        health,
    }
}
