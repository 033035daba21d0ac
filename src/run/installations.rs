//! Starts the controller of installations: Helm, its targets, and one controller for each watched
//! namespace.

use std::{fs, io, path::Path, sync::Arc};

use futures_util::future::{join, join_all};
use tokio::sync::watch;

use super::error::StartError;
use crate::{
    cluster::Cluster,
    controllers::{events::EventPublisher, metrics::ReconcileMetrics},
    installs::{
        controller::{
            FOLDER_PREFIXES, HomeCluster, InstallationController, RunningOperations,
            TargetClusters, metrics::InstallationMetrics, settings::InstallationSettings,
        },
        helm::engine::{Engine, EngineSettings},
    },
    ops::metrics::Registry,
};

/// The controller of installations, which runs while this process leads.
pub(super) struct InstallationTasks {
    settings: watch::Receiver<Arc<InstallationSettings>>,
    engine: Engine,
    metrics: InstallationMetrics,
}

impl InstallationTasks {
    /// Asks Helm for its version, and removes what an earlier process left in the folder.
    ///
    /// # Errors
    /// Helm cannot be run, or the folder cannot be used.
    pub(super) async fn new(
        settings: watch::Receiver<Arc<InstallationSettings>>,
        registry: &Registry,
    ) -> Result<InstallationTasks, StartError> {
        let now = settings.borrow().clone();
        if let Some(folder) = &now.folder {
            remove_leftovers(folder)?;
        }
        let engine = Engine::new(EngineSettings {
            helm: now.helm.clone(),
            path: now.path.clone().into(),
            folders: now.work_folder(),
        });
        let engine = engine.await?;
        tracing::info!(version = %engine.version(), "found helm");
        Ok(InstallationTasks {
            settings,
            engine,
            metrics: InstallationMetrics::register(registry),
        })
    }

    /// Runs until it is dropped. All downloads and Helm processes end with it.
    pub(super) async fn run(&self, cluster: &Cluster, metrics: &ReconcileMetrics) {
        self.metrics.clear();
        let settings = self.settings.borrow().clone();
        let metrics = metrics.for_controller("installations");
        let client = cluster.client().clone();
        let events = EventPublisher::start(client.clone());
        let home = HomeCluster {
            client: client.clone(),
            config: cluster.config().clone(),
            namespace: settings.home_namespace.clone(),
            watch: cluster.settings().watch,
            silence: cluster.settings().call_timeout(),
        };
        let clusters = TargetClusters::new(home, events.clone(), metrics.clone());
        let operations = RunningOperations::new(self.metrics.clone());
        let namespaces: Vec<Option<String>> = match settings.all_namespaces {
            true => vec![None],
            false => {
                let namespaces = cluster.settings().namespaces.iter();
                namespaces.cloned().map(Some).collect()
            }
        };
        let controllers = namespaces
            .into_iter()
            .enumerate()
            .map(|(index, namespace)| {
                let controller = InstallationController {
                    client: client.clone(),
                    namespace,
                    makes_defaults: index == 0,
                    watch: cluster.settings().watch,
                    engine: self.engine.clone(),
                    clusters: clusters.clone(),
                    operations: operations.clone(),
                    settings: self.settings.clone(),
                    events: events.clone(),
                    metrics: metrics.clone(),
                    installation_metrics: self.metrics.clone(),
                };
                controller.run()
            });
        join(clusters.clone().run(), join_all(controllers)).await;
    }
}

/// Removes the folders of charts and operations that a killed process left. What cannot be removed
/// stays: a Helm process that is ending may still write there, or remove it itself.
fn remove_leftovers(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let mut prefixes = FOLDER_PREFIXES.iter();
        if !prefixes.any(|prefix| name.starts_with(prefix)) {
            continue;
        }
        match fs::remove_dir_all(entry.path()) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                tracing::warn!(%error, folder = %name, "cannot remove what an earlier process left");
            }
        }
    }
    Ok(())
}
