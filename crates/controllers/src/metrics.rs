//! Metrics that every controller has.

use ludgate_ops::metrics::Registry;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family},
};

use crate::error::ReconcileError;

/// The labels of a reconcile.
#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
struct Labels {
    controller: &'static str,
    result: &'static str,
}

/// The metrics of all controllers of a process.
#[derive(Clone, Debug, Default)]
pub struct ReconcileMetrics {
    reconciles: Family<Labels, Counter>,
    writes: Family<ControllerLabel, Counter>,
    watch_errors: Family<ControllerLabel, Counter>,
}

/// The label of a controller.
#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
struct ControllerLabel {
    controller: &'static str,
}

impl ReconcileMetrics {
    /// Registers the metrics.
    pub fn register(registry: &Registry) -> ReconcileMetrics {
        let metrics = ReconcileMetrics::default();
        registry.register(
            "controller_reconciles",
            "Reconciles by controller and result",
            metrics.reconciles.clone(),
        );
        registry.register(
            "controller_writes",
            "Writes to the Kubernetes API by controller",
            metrics.writes.clone(),
        );
        registry.register(
            "controller_watch_errors",
            "Failed watches by controller",
            metrics.watch_errors.clone(),
        );
        metrics
    }

    /// Those of one controller.
    pub fn for_controller(&self, controller: &'static str) -> ControllerMetrics {
        let count = |result| {
            let labels = Labels { controller, result };
            self.reconciles.get_or_create(&labels).clone()
        };
        let label = ControllerLabel { controller };
        ControllerMetrics {
            succeeded: count("success"),
            transient: count("transient_error"),
            rejected: count("rejected"),
            writes: self.writes.get_or_create(&label).clone(),
            watch_errors: self.watch_errors.get_or_create(&label).clone(),
        }
    }
}

/// The metrics of one controller.
#[derive(Clone, Debug)]
pub struct ControllerMetrics {
    succeeded: Counter,
    transient: Counter,
    rejected: Counter,
    writes: Counter,
    watch_errors: Counter,
}

impl ControllerMetrics {
    /// Counts a reconcile that finished.
    pub fn succeeded(&self) {
        self.succeeded.inc();
    }

    /// Counts a reconcile that failed.
    pub fn failed(&self, error: &ReconcileError) {
        match error {
            ReconcileError::Transient(_) => self.transient.inc(),
            ReconcileError::Rejected(_) => self.rejected.inc(),
        };
    }

    /// Counts a write to the API.
    pub fn wrote(&self) {
        self.writes.inc();
    }

    /// Counts a watch that failed.
    pub fn watch_failed(&self) {
        self.watch_errors.inc();
    }
}
