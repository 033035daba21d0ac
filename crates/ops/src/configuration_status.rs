//! Whether the configuration that was read last is in force, as a metric and on the verbose
//! readiness probe.

use std::sync::{Arc, Mutex, PoisonError};

use prometheus_client::metrics::gauge::Gauge;

use crate::{dependency::DependencyStatus, metrics::Registry};

/// The status. Clones share their state.
#[derive(Clone, Debug)]
pub struct ConfigurationStatus {
    text: Arc<Mutex<String>>,
    is_in_force: Gauge,
}

impl ConfigurationStatus {
    /// The status of a process that has just read its configuration.
    pub fn register(registry: &Registry) -> ConfigurationStatus {
        let status = ConfigurationStatus {
            text: Arc::new(Mutex::new("as at the start".to_owned())),
            is_in_force: Gauge::default(),
        };
        status.is_in_force.set(1);
        registry.register(
            "config_last_reload_success",
            "Whether the configuration that was read last is in force",
            status.is_in_force.clone(),
        );
        status
    }

    /// Records that a new configuration is in force, or was refused.
    pub fn set(&self, is_in_force: bool, text: String) {
        self.is_in_force.set(i64::from(is_in_force));
        *self.text.lock().unwrap_or_else(PoisonError::into_inner) = text;
    }

    /// Whether the file that was read last is in force.
    pub fn status(&self) -> DependencyStatus {
        if self.is_in_force.get() == 1 {
            DependencyStatus::Fine(self.text())
        } else {
            DependencyStatus::Degraded(self.text())
        }
    }

    /// The status in words.
    fn text(&self) -> String {
        self.text
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}
