//! The metrics registry of a process. Each room owns a struct of its metrics and registers it here.
//!
//! Labels are enums or status codes, never a person, and an app only with [`AppLabels::On`]: a
//! label value costs memory for as long as the process runs.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use prometheus_client::{encoding::text::encode, metrics::info::Info, registry::Metric};

/// Whether labels of metrics may name apps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AppLabels {
    /// No label names an app.
    #[default]
    Off,
    /// The metrics of upstreams are counted per app.
    On,
}

/// The registry. Clones share their state.
#[derive(Clone)]
pub struct Registry(Arc<Mutex<prometheus_client::registry::Registry>>);

impl Registry {
    /// A registry with the metric `build`, which holds the version.
    pub fn new() -> Registry {
        let registry = Registry(Arc::new(Mutex::new(
            prometheus_client::registry::Registry::with_prefix("ludgate"),
        )));
        registry.register(
            "build",
            "Version of the program",
            Info::new(vec![("version", env!("CARGO_PKG_VERSION"))]),
        );
        registry
    }

    /// Adds a metric; its name has neither the prefix `ludgate_` nor the suffix of its type.
    pub fn register(&self, name: &'static str, help: &'static str, metric: impl Metric) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .register(name, help, metric);
    }

    /// The exposition text (OpenMetrics).
    pub fn render(&self) -> String {
        let mut text = String::new();
        match encode(
            &mut text,
            &self.0.lock().unwrap_or_else(PoisonError::into_inner),
        ) {
            Ok(()) => text,
            Err(fmt::Error) => String::new(),
        }
    }
}

impl Default for Registry {
    fn default() -> Self {
        Registry::new()
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Registry")
    }
}
