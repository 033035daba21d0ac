//! Metrics of installations: totals by state. No label names an app or a person.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use ludgate_ops::metrics::Registry;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{family::Family, gauge::Gauge},
};

/// The states of installations, as the label shows them.
const STATES: [&str; 5] = ["ready", "not_ready", "unhealthy", "stuck", "withdrawn"];

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
struct StateLabel {
    state: &'static str,
}

/// The metrics of all installations of a process. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct InstallationMetrics {
    installations: Family<StateLabel, Gauge>,
    failures: Gauge,
    running: Gauge,
    /// The numbers of each watched scope, by its name.
    counts: Arc<Mutex<BTreeMap<String, InstallationCounts>>>,
}

/// The numbers of one scope.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InstallationCounts {
    /// Installations that are ready.
    pub ready: i64,
    /// Installations that are not ready.
    pub not_ready: i64,
    /// Installations with a workload that is not available. They may be ready.
    pub unhealthy: i64,
    /// Installations whose release was interrupted. They are also counted as not ready.
    pub stuck: i64,
    /// Installations whose version is gone. They may be ready.
    pub withdrawn: i64,
    /// Failed attempts of all installations since their last success.
    pub failures: i64,
}

impl InstallationMetrics {
    /// Registers the metrics.
    pub fn register(registry: &Registry) -> InstallationMetrics {
        let metrics = InstallationMetrics::default();
        registry.register(
            "controller_installations",
            "Installations by state",
            metrics.installations.clone(),
        );
        registry.register(
            "controller_installation_failures",
            "Failed attempts of installations since their last success",
            metrics.failures.clone(),
        );
        registry.register(
            "controller_installation_operations",
            "Helm processes that run",
            metrics.running.clone(),
        );
        metrics
    }

    /// Sets the numbers of a scope.
    pub fn set(&self, scope: &str, counts: InstallationCounts) {
        let mut all = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(scope.to_owned(), counts);
        let sum = |number: fn(&InstallationCounts) -> i64| all.values().map(number).sum::<i64>();
        let sums = [
            sum(|counts| counts.ready),
            sum(|counts| counts.not_ready),
            sum(|counts| counts.unhealthy),
            sum(|counts| counts.stuck),
            sum(|counts| counts.withdrawn),
        ];
        for (state, count) in STATES.into_iter().zip(sums) {
            let label = StateLabel { state };
            self.installations.get_or_create(&label).set(count);
        }
        self.failures.set(sum(|counts| counts.failures));
    }

    /// Forgets all numbers, since another process is the leader.
    pub fn clear(&self) {
        let mut all = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        all.clear();
        self.installations.clear();
        self.failures.set(0);
        self.running.set(0);
    }

    /// Sets the number of Helm processes.
    pub fn set_running(&self, count: usize) {
        self.running.set(i64::try_from(count).unwrap_or(i64::MAX));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_of_all_scopes_are_added() {
        let registry = Registry::default();
        let metrics = InstallationMetrics::register(&registry);
        let counts = InstallationCounts {
            ready: 2,
            not_ready: 1,
            unhealthy: 1,
            failures: 3,
            ..InstallationCounts::default()
        };
        metrics.set("a", counts);
        metrics.set("b", counts);
        metrics.set("b", counts);
        let text = registry.render();
        for line in [
            "controller_installations{state=\"ready\"} 4",
            "controller_installations{state=\"not_ready\"} 2",
            "controller_installations{state=\"unhealthy\"} 2",
            "controller_installations{state=\"stuck\"} 0",
            "controller_installation_failures 6",
        ] {
            assert!(text.contains(line), "{line} in {text}");
        }
        metrics.clear();
        assert!(
            registry
                .render()
                .contains("controller_installation_failures 0")
        );
    }
}
