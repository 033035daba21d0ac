//! What the reconciles of one scope share.

use std::sync::{Arc, atomic::AtomicBool};

use kube::{Client, runtime::reflector::ObjectRef};
use ludgate_cluster::{object::DeepObject, writer::Writer};
use ludgate_controllers::{error::Backoffs, events::EventPublisher, metrics::ControllerMetrics};
use tokio::sync::{Notify, Semaphore, mpsc, watch};

use super::{
    attempts::Memory, operations::RunningOperations, settings::InstallationSettings,
    stores::InstallationStores, target_clusters::TargetClusters, tasks::TaskSpawner,
};
use crate::helm::engine::Engine;

/// What the reconciles of one scope share.
pub(super) struct InstallationReconcile {
    /// The objects.
    pub(super) stores: InstallationStores,
    /// The clusters of the apps.
    pub(super) clusters: TargetClusters,
    /// The Helm processes.
    pub(super) operations: RunningOperations,
    /// What is remembered of each installation.
    pub(super) memory: Memory,
    /// Starts downloads and Helm.
    pub(super) tasks: TaskSpawner,
    /// Asks for a reconcile, when a task ends.
    pub(super) wake: mpsc::UnboundedSender<ObjectRef<DeepObject>>,
    /// Runs Helm.
    pub(super) engine: Engine,
    /// Limits what runs at the same time.
    pub(super) slots: TaskSlots,
    /// Reads Secrets.
    pub(super) client: Client,
    /// Writes installations.
    pub(super) writer: Writer,
    /// Publishes what failed.
    pub(super) events: EventPublisher,
    /// The settings in force.
    pub(super) settings: watch::Receiver<Arc<InstallationSettings>>,
    /// The controller's metrics.
    pub(super) metrics: ControllerMetrics,
    /// Pauses after failed calls, by installation.
    pub(super) backoffs: Backoffs<String>,
    /// Whether installations have been listed.
    pub(super) is_listed: AtomicBool,
    /// Notified when an object of a watch changed.
    pub(super) changed: Notify,
}

/// Downloads at the same time. An index of a repository is in memory as a whole.
const DOWNLOADS: usize = 8;
/// Helm processes that install, upgrade or repair at the same time, and those that uninstall: they
/// free what others wait for.
const UPGRADES: usize = 16;
const UNINSTALLS: usize = 4;

/// How many downloads and Helm processes may run. The others wait in order.
pub(super) struct TaskSlots {
    pub(super) downloads: Semaphore,
    pub(super) upgrades: Semaphore,
    pub(super) uninstalls: Semaphore,
}

impl Default for TaskSlots {
    fn default() -> TaskSlots {
        TaskSlots {
            downloads: Semaphore::new(DOWNLOADS),
            upgrades: Semaphore::new(UPGRADES),
            uninstalls: Semaphore::new(UNINSTALLS),
        }
    }
}

impl InstallationReconcile {
    /// The settings in force.
    pub(super) fn settings(&self) -> Arc<InstallationSettings> {
        self.settings.borrow().clone()
    }

    /// Forgets an installation that is gone.
    pub(super) fn forget(&self, key: &str) {
        self.backoffs.reset(&key.to_owned());
        self.memory.forget(key);
    }
}
