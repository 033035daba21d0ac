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
pub struct ControllersMetrics {
    reconciles: Family<Labels, Counter>,
    watch_errors: Family<ControllerLabel, Counter>,
}

/// The label of a controller.
#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
struct ControllerLabel {
    controller: &'static str,
}

impl ControllersMetrics {
    /// Registers the metrics.
    pub fn register(registry: &Registry) -> ControllersMetrics {
        let metrics = ControllersMetrics::default();
        registry.register(
            "controller_reconciles",
            "Reconciles by controller and result",
            metrics.reconciles.clone(),
        );
        registry.register(
            "controller_watch_errors",
            "Failed watches by controller",
            metrics.watch_errors.clone(),
        );
        metrics
    }

    /// Those of one controller.
    pub fn of_controller(&self, controller: &'static str) -> ControllerMetrics {
        let count = |result| {
            let labels = Labels { controller, result };
            self.reconciles.get_or_create(&labels).clone()
        };
        ControllerMetrics {
            succeeded: count("success"),
            transient: count("transient_error"),
            refused: count("refused"),
            watch_errors: self
                .watch_errors
                .get_or_create(&ControllerLabel { controller })
                .clone(),
        }
    }
}

/// The metrics of one controller.
#[derive(Clone, Debug)]
pub struct ControllerMetrics {
    succeeded: Counter,
    transient: Counter,
    refused: Counter,
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
            ReconcileError::Refused(_) => self.refused.inc(),
        };
    }

    /// Counts a watch that failed.
    pub fn watch_failed(&self) {
        self.watch_errors.inc();
    }
}
