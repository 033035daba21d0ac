//! The clusters on which apps are installed: the home cluster, and the targets of labelled Secrets.
//!
//! Releases and namespaces of each cluster are watched. The kubeconfig of a Secret is read again
//! when the Secret changes. A refused kubeconfig is never used.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures_util::StreamExt;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client, Config, Resource, ResourceExt};
use ludgate_cluster::deadline::{ApiCallError, with_deadline};
use ludgate_controllers::{
    events::{EventPublisher, KubernetesEvent},
    metrics::ControllerMetrics,
    watched::{WatchSettings, Watched},
};
use tokio::{
    sync::broadcast,
    task::{AbortHandle, JoinSet},
};

use super::{
    annotations::{PAUSED_ANNOTATION, TARGET_LABEL},
    settings::HOME_TARGET,
    stores::SecretMeta,
    target_cluster::{
        ChangeReporter, NamespaceObject, NewCluster, TargetChange, TargetCluster, TargetWatches,
    },
};
use crate::{
    helm::kubeconfig::ApiEndpoint,
    placement::INSTALLS_FROM_ANNOTATION,
    releases::{watch::ReleaseStore, workloads::WorkloadStore},
    targets::{kubeconfig::TargetKubeconfig, namespace::keep_own_fields},
};

/// The key of the kubeconfig in the Secret.
const KUBECONFIG_KEY: &str = "kubeconfig";
/// Deadline of an API call.
const DEADLINE: Duration = Duration::from_secs(20);
/// Pause before a Secret that could not be read is read again.
const RETRY: Duration = Duration::from_secs(10);
/// Maximum of queued changes. A controller that lags further reconciles all installations.
const QUEUE: usize = 1024;

/// The cluster of the controller, as a target.
#[derive(Clone)]
pub struct HomeCluster {
    /// The client.
    pub client: Client,
    /// The configuration of the client.
    pub config: Config,
    /// The namespace of the Secrets of targets.
    pub namespace: String,
    /// How long a watch lasts.
    pub watch: Duration,
    /// Read timeout of calls to targets.
    pub silence: Duration,
}

/// All clusters by name. Clones share them.
#[derive(Clone)]
pub struct TargetClusters {
    shared: Arc<Shared>,
}

struct Shared {
    home: HomeCluster,
    targets: Mutex<BTreeMap<String, Target>>,
    reporter: ChangeReporter,
    events: EventPublisher,
}

/// A target of a Secret, or the home cluster.
#[derive(Clone)]
pub(super) enum Target {
    /// Apps can be installed.
    Usable(Arc<TargetCluster>),
    /// Its kubeconfig is refused, with the reason.
    Refused(String),
}

/// A Secret that was read.
struct FollowedSecret {
    version: Option<String>,
    state: FollowedState,
}

/// What a Secret that was read is used for.
enum FollowedState {
    /// It has the target of this name. The task watches the cluster; `None`: the kubeconfig is
    /// refused.
    Target {
        name: String,
        task: Option<AbortHandle>,
    },
    /// It waits for this name of a target, which another Secret has.
    NameTaken(String),
    /// Its name cannot be that of a target, or it was deleted meanwhile.
    Unused,
}

/// Labels and annotations of the Secret of a target.
struct TargetMeta<'a> {
    name: &'a str,
    is_paused: bool,
    installs_from: Option<String>,
}

impl FollowedSecret {
    fn is_waiting(&self) -> bool {
        matches!(self.state, FollowedState::NameTaken(_))
    }
}

impl TargetClusters {
    /// Without any target yet.
    pub fn new(
        home: HomeCluster,
        events: EventPublisher,
        metrics: ControllerMetrics,
    ) -> TargetClusters {
        let (sender, _) = broadcast::channel(QUEUE);
        TargetClusters {
            shared: Arc::new(Shared {
                home,
                targets: Mutex::default(),
                reporter: ChangeReporter::new(sender, metrics),
                events,
            }),
        }
    }

    /// The target of this name.
    pub(super) fn get(&self, name: &str) -> Option<Target> {
        self.targets().get(name).cloned()
    }

    /// The names of all targets that can be used.
    pub(super) fn usable(&self) -> Vec<String> {
        let targets = self.targets();
        let usable = targets
            .iter()
            .filter(|(_, target)| matches!(target, Target::Usable(_)));
        usable.map(|(name, _)| name.clone()).collect()
    }

    /// Subscribes to changes.
    pub(super) fn subscribe(&self) -> broadcast::Receiver<TargetChange> {
        self.shared.reporter.subscribe()
    }

    fn targets(&self) -> MutexGuard<'_, BTreeMap<String, Target>> {
        let targets = self.shared.targets.lock();
        targets.unwrap_or_else(PoisonError::into_inner)
    }

    /// Follows this cluster and all targets until it is dropped.
    pub async fn run(self) {
        let mut tasks = JoinSet::new();
        let home = &self.shared.home;
        let endpoint = ApiEndpoint::from_config(&home.config);
        self.follow(
            &mut tasks,
            home.client.clone(),
            endpoint,
            TargetMeta {
                name: HOME_TARGET,
                is_paused: false,
                installs_from: None,
            },
        );
        let secrets: Api<Secret> = Api::namespaced(home.client.clone(), &home.namespace);
        let settings = WatchSettings {
            label: Some(TARGET_LABEL),
            length: home.watch,
        };
        let listed: Api<SecretMeta> = Api::namespaced(home.client.clone(), &home.namespace);
        let Watched { store, mut changes } = Watched::new(listed, (), settings);
        let mut followed: BTreeMap<String, FollowedSecret> = BTreeMap::new();
        let mut has_failed = false;
        loop {
            tokio::select! {
                change = changes.next() => match change {
                    Some(Ok(_)) => {}
                    Some(Err(error)) => {
                        self.shared.reporter.report(Err(error));
                        continue;
                    }
                    None => return,
                },
                () = tokio::time::sleep(RETRY), if has_failed => {}
                Some(_) = tasks.join_next(), if !tasks.is_empty() => continue,
            }
            let mut live = store.state();
            followed.retain(|name, secret| {
                let is_live = live.iter().any(|it| it.name_any() == *name);
                if !is_live {
                    self.forget(secret);
                }
                is_live
            });
            has_failed = false;
            // Secrets that wait for a name come last, since the others may free it. While a Secret
            // cannot be read, none of them gets a name: it may be the name of that Secret.
            live.sort_by_key(|meta| {
                let secret = followed.get(&meta.name_any());
                secret.is_some_and(FollowedSecret::is_waiting)
            });
            for meta in live {
                let name = meta.name_any();
                let version = meta.resource_version();
                let is_same = followed.get(&name).is_some_and(|secret| {
                    secret.version == version && (has_failed || !self.is_name_free(secret))
                });
                if is_same {
                    continue;
                }
                if let Some(earlier) = followed.remove(&name) {
                    self.forget(&earlier);
                }
                match self.read(&mut tasks, &secrets, &meta).await {
                    Ok(state) => drop(followed.insert(name, FollowedSecret { version, state })),
                    Err(error) => {
                        has_failed = true;
                        tracing::warn!(secret = name, %error, "cannot read a target");
                    }
                }
            }
        }
    }

    /// Whether a Secret waits for a name that no other Secret has any more.
    fn is_name_free(&self, secret: &FollowedSecret) -> bool {
        match &secret.state {
            FollowedState::NameTaken(name) => !self.targets().contains_key(name),
            FollowedState::Target { .. } | FollowedState::Unused => false,
        }
    }

    /// Removes the target of a Secret that was deleted or changed.
    fn forget(&self, secret: &FollowedSecret) {
        let FollowedState::Target { name, task } = &secret.state else {
            return;
        };
        if let Some(task) = task {
            task.abort();
        }
        self.targets().remove(name);
        let change = TargetChange::Target(name.clone());
        self.shared.reporter.report(Ok(Some(change)));
    }

    /// Reads the kubeconfig of a Secret, and starts to watch its cluster.
    async fn read(
        &self,
        tasks: &mut JoinSet<()>,
        secrets: &Api<Secret>,
        meta: &SecretMeta,
    ) -> Result<FollowedState, ApiCallError> {
        let name = meta.labels().get(TARGET_LABEL).cloned();
        let name = name.unwrap_or_default();
        let is_never_free = name.is_empty() || name == HOME_TARGET;
        if is_never_free || self.targets().contains_key(&name) {
            self.refuse(meta, &format!("the name {name:?} of the target is taken"));
            return Ok(match is_never_free {
                true => FollowedState::Unused,
                false => FollowedState::NameTaken(name),
            });
        }
        let Some(secret) = with_deadline(DEADLINE, secrets.get_opt(&meta.name_any())).await? else {
            return Ok(FollowedState::Unused);
        };
        let data = secret.data.unwrap_or_default();
        let text = data.get(KUBECONFIG_KEY);
        let text = text.map(|bytes| String::from_utf8_lossy(&bytes.0).into_owned());
        let task = match self.client(text.as_deref().unwrap_or_default()).await {
            Ok((client, endpoint)) => {
                let paused = meta.annotations().get(PAUSED_ANNOTATION);
                let installs_from = meta.annotations().get(INSTALLS_FROM_ANNOTATION);
                let described = TargetMeta {
                    name: &name,
                    is_paused: paused.is_some_and(|value| value == "true"),
                    installs_from: installs_from.cloned(),
                };
                Some(self.follow(tasks, client, endpoint, described))
            }
            Err(reason) => {
                self.refuse(meta, &reason);
                let refused = Target::Refused(reason);
                self.targets().insert(name.clone(), refused);
                let change = TargetChange::Target(name.clone());
                self.shared.reporter.report(Ok(Some(change)));
                None
            }
        };
        Ok(FollowedState::Target { name, task })
    }

    async fn client(&self, text: &str) -> Result<(Client, ApiEndpoint), String> {
        let kubeconfig = TargetKubeconfig::parse(text).map_err(|error| error.to_string())?;
        let config = kubeconfig.config(self.shared.home.silence).await;
        let config = config.map_err(|error| error.to_string())?;
        let endpoint = ApiEndpoint::from_config(&config);
        let client = Client::try_from(config).map_err(|error| error.to_string())?;
        Ok((client, endpoint))
    }

    fn refuse(&self, meta: &SecretMeta, reason: &str) {
        tracing::warn!(secret = meta.name_any(), reason, "a target is refused");
        self.shared.events.publish(KubernetesEvent {
            object: meta.object_ref(&()),
            is_warning: true,
            reason: "TargetRefused".to_owned(),
            note: reason.to_owned(),
            generation: None,
        });
    }

    /// Starts the watches of a cluster.
    fn follow(
        &self,
        tasks: &mut JoinSet<()>,
        client: Client,
        endpoint: ApiEndpoint,
        described: TargetMeta<'_>,
    ) -> AbortHandle {
        let TargetMeta {
            name,
            is_paused,
            installs_from,
        } = described;
        let length = self.shared.home.watch;
        let settings = WatchSettings {
            label: None,
            length,
        };
        let (releases, watched) = ReleaseStore::watch(&client, None, length);
        let (workloads, watched_workloads) = WorkloadStore::watch(&client, length);
        let api: Api<NamespaceObject> = Api::all(client.clone());
        // The managed fields tell which labels of a namespace an installation has set.
        let namespaces = Watched::trimmed(api, (), settings, |namespace: &mut NamespaceObject| {
            keep_own_fields(&mut namespace.metadata);
        });
        let cluster = TargetCluster::new(NewCluster {
            name,
            client,
            endpoint,
            is_paused,
            installs_from,
            releases,
            workloads,
            namespaces: namespaces.store.clone(),
        });
        let cluster = Arc::new(cluster);
        let usable = Target::Usable(cluster.clone());
        self.targets().insert(name.to_owned(), usable);
        let reporter = self.shared.reporter.clone();
        let watches = TargetWatches {
            releases: watched,
            namespaces,
            workloads: watched_workloads,
        };
        tasks.spawn(cluster.follow(watches, reporter))
    }
}
