//! A cluster on which apps are installed: its releases, its namespaces, and their changes.

use std::{
    collections::HashMap,
    hash::Hash,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use futures_util::{
    StreamExt, future,
    stream::{self, BoxStream},
};
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Client, Resource, ResourceExt,
    core::PartialObjectMeta,
    runtime::{
        reflector::{ObjectRef, Store},
        watcher,
    },
};
use ludgate_cluster::{deadline::ApiCallError, object::Object, writer::Writer};
use ludgate_controllers::{
    metrics::ControllerMetrics,
    watched::{Change, FirstLists, Watched},
};
use tokio::sync::{RwLock, broadcast};

use super::settings::HOME_TARGET;
use crate::{
    health::{WorkloadHealth, release_of},
    helm::kubeconfig::ApiEndpoint,
    release::{Release, ReleaseStatus},
    releases::{
        history::fetch_history,
        secret::RevisionLabels,
        watch::{ReleaseStore, RevisionMeta},
        workloads::WorkloadStore,
    },
    targets::namespace::MANAGER,
};

/// Labels and annotations of a namespace.
pub(super) type NamespaceObject = PartialObjectMeta<Namespace>;

/// A change on one of the clusters.
#[derive(Clone, Debug)]
pub(super) enum TargetChange {
    /// A release has another revision or state, or a workload of it changed.
    Release {
        target: String,
        namespace: String,
        release: String,
    },
    /// A namespace was created, changed or deleted.
    Namespace { target: String, namespace: String },
    /// The target itself, or all of its objects.
    Target(String),
}

/// A cluster whose releases are watched.
pub(super) struct TargetCluster {
    pub(super) name: String,
    pub(super) client: Client,
    pub(super) endpoint: ApiEndpoint,
    pub(super) writer: Writer,
    /// `ludgate.dev/paused`: no changes on this target.
    pub(super) is_paused: bool,
    /// The namespaces whose installations may use it, as its Secret lists them.
    pub(super) installs_from: Option<String>,
    pub(super) releases: ReleaseStore,
    workloads: WorkloadStore,
    namespaces: Store<NamespaceObject>,
    /// Write lock: an account loses its role. Read lock: an account gets it.
    pub(super) accounts: RwLock<()>,
    first_lists: FirstLists,
    histories: Mutex<HashMap<(String, String), CachedHistory>>,
}

/// The cached history of a release.
enum CachedHistory {
    /// Changed by this process; the watch may still report the old revisions.
    Outdated,
    /// Valid while the watch reports these revisions.
    Read {
        revisions: Vec<(i64, ReleaseStatus)>,
        history: Arc<[Release]>,
    },
}

/// The parts of a new [`TargetCluster`].
pub(super) struct NewCluster<'a> {
    pub(super) name: &'a str,
    pub(super) client: Client,
    pub(super) endpoint: ApiEndpoint,
    pub(super) is_paused: bool,
    pub(super) installs_from: Option<String>,
    pub(super) releases: ReleaseStore,
    pub(super) workloads: WorkloadStore,
    pub(super) namespaces: Store<NamespaceObject>,
}

impl TargetCluster {
    /// A cluster whose releases and namespaces have not been listed yet.
    pub(super) fn new(new: NewCluster<'_>) -> TargetCluster {
        let NewCluster {
            name,
            client,
            endpoint,
            is_paused,
            installs_from,
            releases,
            workloads,
            namespaces,
        } = new;
        TargetCluster {
            name: name.to_owned(),
            writer: Writer::new(client.clone(), MANAGER),
            client,
            endpoint,
            is_paused,
            installs_from,
            releases,
            workloads,
            namespaces,
            accounts: RwLock::default(),
            first_lists: FirstLists::default(),
            histories: Mutex::default(),
        }
    }

    /// Whether its releases and namespaces have been listed.
    pub(super) fn is_listed(&self) -> bool {
        self.first_lists.are_read()
    }

    /// Whether it is the cluster of the controller.
    pub(super) fn is_home(&self) -> bool {
        self.name == HOME_TARGET
    }

    /// The health of a release; `None`: the workloads are not listed, possibly for lack of rights
    /// on the target.
    pub(super) fn health(&self, namespace: &str, release: &str) -> Option<WorkloadHealth> {
        self.workloads.health(namespace, release)
    }

    /// The namespace of this name.
    pub(super) fn namespace(&self, name: &str) -> Option<Arc<NamespaceObject>> {
        self.namespaces.get(&ObjectRef::new(name))
    }

    /// All namespaces.
    pub(super) fn all_namespaces(&self) -> Vec<Arc<NamespaceObject>> {
        self.namespaces.state()
    }

    /// The revisions of a release, oldest first. Cached until the watch reports others.
    ///
    /// # Errors
    /// See [`ApiCallError`].
    pub(super) async fn history(
        &self,
        namespace: &str,
        release: &str,
    ) -> Result<Arc<[Release]>, ApiCallError> {
        let key = (namespace.to_owned(), release.to_owned());
        let seen = self.releases.history(namespace, release);
        let seen: Vec<_> = seen.iter().map(|it| (it.revision, it.status)).collect();
        match self.histories().get(&key) {
            Some(CachedHistory::Read { revisions, history }) if *revisions == seen => {
                return Ok(history.clone());
            }
            None if seen.is_empty() => return Ok(Arc::default()),
            Some(CachedHistory::Read { .. } | CachedHistory::Outdated) | None => {}
        }
        let history: Arc<[Release]> = fetch_history(&self.client, namespace, release)
            .await?
            .into();
        let revisions = history.iter().map(|it| (it.revision, it.status)).collect();
        let read = CachedHistory::Read {
            revisions,
            history: history.clone(),
        };
        self.histories().insert(key, read);
        Ok(history)
    }

    /// Invalidates the cached history after an operation, which the watch may report later.
    pub(super) fn outdate_history(&self, namespace: &str, release: &str) {
        let key = (namespace.to_owned(), release.to_owned());
        self.histories().insert(key, CachedHistory::Outdated);
    }

    fn histories(&self) -> MutexGuard<'_, HashMap<(String, String), CachedHistory>> {
        self.histories
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs the watches, and reports their changes.
    pub(super) async fn follow(self: Arc<Self>, watches: TargetWatches, reporter: ChangeReporter) {
        let target = || self.name.clone();
        let whole = TargetChange::Target(target());
        let of_release = {
            let target = target();
            move |revision: &RevisionMeta| {
                let labels = RevisionLabels::read(&revision.metadata)?;
                Some(TargetChange::Release {
                    target: target.clone(),
                    namespace: revision.namespace()?,
                    release: labels.name,
                })
            }
        };
        let of_namespace = {
            let target = target();
            move |namespace: &NamespaceObject| {
                Some(TargetChange::Namespace {
                    target: target.clone(),
                    namespace: namespace.name_any(),
                })
            }
        };
        let of_workload = {
            let target = target();
            move |workload: &Object| {
                let (namespace, release) = release_of(workload)?;
                Some(TargetChange::Release {
                    target: target.clone(),
                    namespace: namespace.to_owned(),
                    release: release.to_owned(),
                })
            }
        };
        let workloads = watches
            .workloads
            .map(|watched| changes(watched, whole.clone(), of_workload.clone()));
        let all = [
            changes(watches.releases, whole.clone(), of_release),
            changes(watches.namespaces, whole.clone(), of_namespace),
        ];
        let following = stream::select_all(all.into_iter().chain(workloads)).for_each(|change| {
            reporter.report(change);
            future::ready(())
        });
        let listing = async {
            let listed = async {
                self.releases.wait_until_ready().await?;
                self.namespaces.wait_until_ready().await
            };
            if self.first_lists.wait(listed).await.is_ok() {
                reporter.report(Ok(Some(whole.clone())));
            }
            // Workloads are needed for the health only, so nothing else waits for their list.
            if self.workloads.wait_until_ready().await.is_ok() {
                reporter.report(Ok(Some(whole.clone())));
            }
        };
        future::join(following, listing).await;
    }
}

/// What is watched on a cluster.
pub(super) struct TargetWatches {
    pub(super) releases: Watched<RevisionMeta>,
    pub(super) namespaces: Watched<NamespaceObject>,
    pub(super) workloads: [Watched<Object>; 3],
}

/// Changes of a watch.
type Changes = BoxStream<'static, Result<Option<TargetChange>, watcher::Error>>;

/// The changes of a watch; `whole` stands for a new list.
fn changes<K: Resource + 'static>(
    watched: Watched<K>,
    whole: TargetChange,
    read: impl Fn(&K) -> Option<TargetChange> + Send + 'static,
) -> Changes
where
    K::DynamicType: Hash + Eq,
{
    let changes = watched.changes.map(move |change| {
        change.map(|change| match change {
            Change::Object(object) => read(&object),
            Change::Listed => Some(whole.clone()),
        })
    });
    changes.boxed()
}

/// Reports changes of the clusters to all controllers.
#[derive(Clone)]
pub(super) struct ChangeReporter {
    sender: broadcast::Sender<TargetChange>,
    metrics: ControllerMetrics,
}

impl ChangeReporter {
    pub(super) fn new(
        sender: broadcast::Sender<TargetChange>,
        metrics: ControllerMetrics,
    ) -> ChangeReporter {
        ChangeReporter { sender, metrics }
    }

    /// Subscribes to changes.
    pub(super) fn subscribe(&self) -> broadcast::Receiver<TargetChange> {
        self.sender.subscribe()
    }

    pub(super) fn report(&self, change: Result<Option<TargetChange>, watcher::Error>) {
        match change {
            // An error means that no controller is subscribed: nothing to reconcile.
            Ok(Some(change)) => drop(self.sender.send(change)),
            Ok(None) => {}
            Err(error) => {
                self.metrics.watch_failed();
                tracing::warn!(%error, "cannot watch a target");
            }
        }
    }
}
