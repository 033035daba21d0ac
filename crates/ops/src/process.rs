//! The parts that every kind of process has: metrics, readiness, drain, the status of its
//! configuration, and the admin server that shows them.

use ludgate_model::secret::Secret;

use crate::{
    admin::AdminServer, configuration_status::ConfigurationStatus, drain::Drain, metrics::Registry,
    readiness::Readiness,
};

/// The diagnostics and lifecycle of one process.
#[derive(Debug)]
pub struct Process {
    /// The metrics registry; each room registers its own.
    pub registry: Registry,
    /// The readiness latches; each room adds its own.
    pub ready: Readiness,
    /// Notifies tasks and connections of a stop.
    pub drain: Drain,
    /// Whether the configuration that was read last is in force.
    pub configuration: ConfigurationStatus,
}

impl Process {
    /// A process without latches, in the phase of serving.
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

    /// The admin server of this process, with probes and metrics only. Other routes need the token.
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
