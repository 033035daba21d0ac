//! The controller of installations in one namespace, or in all.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use kube::{Client, ResourceExt};
use ludgate_cluster::{deadline::ApiCallError, writer::Writer};
use ludgate_controllers::{error::Backoffs, events::EventPublisher, metrics::ControllerMetrics};
use tokio::sync::{Notify, mpsc, watch};

use super::{
    annotations::target_name,
    attempts::Memory,
    context::{InstallationReconcile, TaskSlots},
    metrics::{InstallationCounts, InstallationMetrics},
    observe::target_namespace_of,
    operations::{ReleaseKey, RunningOperations},
    parsed,
    requests::{self, RequestSources},
    settings::{HOME_TARGET, InstallationSettings},
    stores::{InstallationStores, WatchScope},
    target_clusters::{Target, TargetClusters},
    tasks::task_runner,
};
use crate::{
    conditions::{HEALTHY, READY, VERSION_WITHDRAWN},
    helm::engine::Engine,
    release_name::release_name,
    targets::namespace::MANAGER,
};

/// Changes are gathered for this time before default and initial apps are looked at again.
const GATHER: Duration = Duration::from_millis(100);
/// Pause after a failure. It doubles with each further one.
const RETRY: Duration = Duration::from_secs(2);
/// They are looked at again after this time, in case an event was lost.
const RESYNC: Duration = Duration::from_secs(300);

/// The controller of installations in one namespace, or in all.
pub struct InstallationController {
    /// The client of this cluster.
    pub client: Client,
    /// The namespace of the installations; `None`: all.
    pub namespace: Option<String>,
    /// Whether it makes default and enforced apps. One of several controllers does.
    pub makes_defaults: bool,
    /// How long a watch lasts.
    pub watch: Duration,
    /// Runs Helm.
    pub engine: Engine,
    /// The clusters of the apps. They must be followed in a task of their own.
    pub clusters: TargetClusters,
    /// The Helm processes of all controllers.
    pub operations: RunningOperations,
    /// The settings; every installation is looked at again when they change.
    pub settings: watch::Receiver<Arc<InstallationSettings>>,
    /// Publishes Events.
    pub events: EventPublisher,
    /// The metrics of reconciles.
    pub metrics: ControllerMetrics,
    /// The metrics of installations.
    pub installation_metrics: InstallationMetrics,
}

impl InstallationController {
    /// Runs until it is dropped. Its downloads and Helm processes end with it.
    pub async fn run(self) {
        let home = self.settings.borrow().home_namespace.clone();
        let scope = WatchScope {
            namespace: self.namespace.as_deref(),
            home: &home,
            length: self.watch,
        };
        let (stores, watches) = InstallationStores::watch(&self.client, scope);
        let (tasks, runner) = task_runner();
        let (wake, ended) = mpsc::unbounded_channel();
        let sources = RequestSources {
            watches,
            targets: self.clusters.subscribe(),
            settings: self.settings.clone(),
            ended,
        };
        let context = Arc::new(InstallationReconcile {
            stores,
            clusters: self.clusters,
            operations: self.operations,
            memory: Memory::default(),
            tasks,
            wake,
            engine: self.engine,
            slots: TaskSlots::default(),
            writer: Writer::new(self.client.clone(), MANAGER),
            client: self.client,
            events: self.events,
            settings: self.settings,
            metrics: self.metrics,
            backoffs: Backoffs::default(),
            is_listed: AtomicBool::new(false),
            changed: Notify::new(),
        });
        let managed = ManagedApps {
            context: context.clone(),
            namespace: self.namespace,
            makes_defaults: self.makes_defaults,
            metrics: self.installation_metrics,
        };
        tokio::select! {
            () = requests::run(context, sources) => {}
            () = runner.run() => {}
            () = managed.run() => {}
        }
    }
}

/// Makes initial, default and enforced installations, and counts all.
struct ManagedApps {
    context: Arc<InstallationReconcile>,
    namespace: Option<String>,
    makes_defaults: bool,
    metrics: InstallationMetrics,
}

impl ManagedApps {
    async fn run(self) {
        let mut pause_after_failure = RETRY;
        loop {
            let pause = match self.reconcile().await {
                Ok(()) => {
                    pause_after_failure = RETRY;
                    RESYNC
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot make the installations of a target");
                    let pause = pause_after_failure;
                    // An installation that is refused stays so until a person changes something.
                    pause_after_failure = (pause * 2).min(RESYNC);
                    pause
                }
            };
            tokio::select! {
                () = self.context.changed.notified() => tokio::time::sleep(GATHER).await,
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    async fn reconcile(&self) -> Result<(), ApiCallError> {
        let context = &self.context;
        let is_home_listed = match context.clusters.get(HOME_TARGET) {
            Some(Target::Usable(home)) => home.is_listed(),
            Some(Target::Refused(_)) | None => false,
        };
        let is_listed = context.is_listed.load(Ordering::Acquire);
        // What has not been listed must not be made again.
        if !is_listed || !is_home_listed || context.stores.wait_until_ready().await.is_err() {
            return Ok(());
        }
        let scope = self.namespace.as_deref();
        self.metrics.set(scope.unwrap_or_default(), self.count());
        // A list of initial apps that fails must not keep enforced apps away.
        let initial = context.reconcile_initial(scope).await;
        if self.makes_defaults {
            context.reconcile_defaults(scope).await?;
        }
        initial
    }

    fn count(&self) -> InstallationCounts {
        let context = &self.context;
        let mut counts = InstallationCounts::default();
        for object in context.stores.installations.state() {
            let has_status =
                |kind: &str, status: &str| object.status["conditions"][kind]["status"] == status;
            match has_status(READY, "True") {
                true => counts.ready += 1,
                false => counts.not_ready += 1,
            }
            counts.unhealthy += i64::from(has_status(HEALTHY, "False"));
            counts.withdrawn += i64::from(has_status(VERSION_WITHDRAWN, "True"));
            counts.failures += object.status["failures"].as_i64().unwrap_or(0);
            let target = target_name(&*object);
            let Some(Target::Usable(cluster)) = context.clusters.get(target) else {
                continue;
            };
            let definition = parsed::definition_name(&object);
            let definition = definition.and_then(|name| context.stores.definition(name));
            let Some(namespace) = target_namespace_of(&object, definition.as_ref()) else {
                continue;
            };
            let own = object.namespace().unwrap_or_default();
            let release = ReleaseKey {
                target: target.to_owned(),
                release: release_name(&own, &object.name_any()),
                namespace,
            };
            let is_unfinished = cluster
                .releases
                .is_unfinished(&release.namespace, &release.release);
            let is_running = context.operations.get(&release).is_some();
            counts.stuck += i64::from(is_unfinished && !is_running);
        }
        counts
    }
}
