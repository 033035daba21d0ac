//! The parts that every kind of process has beside its own work: metrics, readiness, drain, the
//! status of its configuration, and the admin server that shows them.

use ludgate_model::secret::Secret;

use crate::{
    admin::AdminServer, configuration_status::ConfigurationStatus, drain::Drain, metrics::Registry,
    readiness::Readiness,
};

/// One process.
#[derive(Debug)]
pub struct Process {
    /// Metrics; each room registers its own.
    pub registry: Registry,
    /// Conditions for being ready; each room adds a latch.
    pub ready: Readiness,
    /// Tells every task that the process stops.
    pub drain: Drain,
    /// Whether the configuration that was read last is in force.
    pub configuration: ConfigurationStatus,
}

impl Process {
    /// A process that serves nothing yet and waits for nothing.
    pub fn new() -> Process {
        let registry = Registry::new();
        let configuration = ConfigurationStatus::register(&registry);
        Process {
            registry,
            ready: Readiness::default(),
            drain: Drain::new(),
            configuration,
        }
    }

    /// The admin server of this process, with probes and metrics. Other routes need the token.
    pub fn admin(&self, token: Option<Secret>) -> AdminServer {
        AdminServer::new(
            self.registry.clone(),
            self.ready.clone(),
            self.drain.subscribe(),
            token,
        )
    }
}

impl Default for Process {
    fn default() -> Self {
        Process::new()
    }
}
