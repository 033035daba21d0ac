//! Pulls the wanted images to the nodes that lack them, one at a time per node, while this process
//! is the leader.

use std::{collections::BTreeSet, sync::Arc};

use futures_util::{StreamExt, future, stream::BoxStream, stream::FuturesUnordered};
use kube::{Api, Client, ResourceExt, runtime::watcher};
use ludgate_cluster::{object::DeepObject, writer::Writer};
use ludgate_controllers::watched::{Change, WatchSettings, Watched};
use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};

use super::{
    image_state::ImageState,
    metrics::LabImagesMetrics,
    pull_end::PullEnd,
    pull_pauses::PullPauses,
    pull_pod::{CATEGORY, PullPods, pod_kind},
};
use crate::{
    config::LabsConfig,
    images::{PodOwner, PrepullTask, prepull_pod, prepull_pod_name},
    metadata::CATEGORY_LABEL,
};

/// The owner of what the prepuller writes.
const FIELD_MANAGER: &str = "ludgate-labs";
/// Nodes to which images are pulled at the same time.
const MAX_PULLS: usize = 32;

/// Pulls images.
pub(super) struct Prepuller {
    pub(super) config: Arc<LabsConfig>,
    pub(super) state: Arc<ImageState>,
    pub(super) client: Client,
    /// With it, the pods go. They are in its namespace.
    pub(super) owner: PodOwner,
    pub(super) metrics: LabImagesMetrics,
}

impl Prepuller {
    /// Pulls whenever this process leads, until the election ends.
    pub(super) async fn run(&self, mut is_leader: watch::Receiver<bool>) {
        let mut lost = is_leader.clone();
        while is_leader.wait_for(|leads| *leads).await.is_ok() {
            let goes_on = tokio::select! {
                () = self.lead() => true,
                lost = lost.wait_for(|leads| !*leads) => lost.is_ok(),
            };
            self.metrics.pulling.set(0);
            if !goes_on {
                return;
            }
        }
    }

    /// Pulls for as long as it is polled. Dropped, it leaves pods behind, which the next leader
    /// removes.
    async fn lead(&self) {
        let kind = pod_kind();
        let api =
            Api::<DeepObject>::namespaced_with(self.client.clone(), &self.owner.namespace, &kind);
        let label = format!("{CATEGORY_LABEL}={CATEGORY}");
        let settings = WatchSettings {
            label: Some(&label),
            length: self.config.watch_reconnect,
        };
        let Watched { store, changes } = Watched::new(api, kind.clone(), settings);
        let (changed, receiver) = watch::channel(());
        let pods = PullPods {
            writer: Writer::new(self.client.clone(), FIELD_MANAGER),
            namespace: self.owner.namespace.clone(),
            kind,
            store,
            changed: receiver,
        };
        let work = async {
            // Fails only when the watch is dropped, and with it this future.
            if pods.store.wait_until_ready().await.is_ok() {
                remove_leftovers(&pods).await;
                self.pull_all(&pods).await;
            }
        };
        tokio::select! {
            () = follow(changes, changed) => {}
            () = work => {}
        }
    }

    async fn pull_all(&self, pods: &PullPods) {
        let mut catalogs = self.state.catalogs();
        let mut pauses = PullPauses::default();
        let mut busy = BTreeSet::new();
        let mut running = FuturesUnordered::new();
        loop {
            let plan = catalogs.borrow_and_update().prepull_plan();
            for task in plan {
                if busy.len() < MAX_PULLS && !busy.contains(&task.node) && pauses.allows(&task) {
                    busy.insert(task.node.clone());
                    running.push(self.pull(pods.clone(), task));
                }
            }
            self.metrics
                .pulling
                .set(i64::try_from(busy.len()).unwrap_or(i64::MAX));
            let pause_ends = pauses.next_end();
            tokio::select! {
                Some((task, end)) = running.next() => {
                    busy.remove(&task.node);
                    self.ended(&task, &end, &mut pauses);
                }
                changed = catalogs.changed() => {
                    if changed.is_err() {
                        return;
                    }
                }
                () = until(pause_ends) => {}
            }
        }
    }

    async fn pull(&self, pods: PullPods, task: PrepullTask) -> (PrepullTask, PullEnd) {
        let pod = prepull_pod(&task, &self.config.lab, &self.owner);
        let name = prepull_pod_name(&task.image.tag.tag, &task.node);
        let deadline = Instant::now() + self.config.images.prepull_timeout;
        let end = pods.pull(name, pod, deadline).await;
        (task, end)
    }

    fn ended(&self, task: &PrepullTask, end: &PullEnd, pauses: &mut PullPauses) {
        self.metrics.prepulled(end.as_str());
        let (node, image) = (&task.node, task.image.reference());
        match end {
            PullEnd::Pulled => {
                pauses.succeeded(task);
                self.state.mark_pulled(&task.image.digest, node);
                tracing::info!(node, image, "a node has an image");
            }
            PullEnd::Failed(reason) => {
                pauses.failed(task);
                tracing::warn!(node, image, reason, "cannot pull an image to a node");
            }
            PullEnd::TimedOut => {
                pauses.failed(task);
                tracing::warn!(node, image, "pulling an image to a node took too long");
            }
        }
    }
}

/// Follows the pods, so that the store has them, and tells of each change.
async fn follow(
    changes: BoxStream<'static, Result<Change<DeepObject>, watcher::Error>>,
    changed: watch::Sender<()>,
) {
    let each = changes.for_each(|change| {
        match change {
            Ok(_) => changed.send_replace(()),
            Err(error) => tracing::warn!(%error, "cannot watch the pods that pull images"),
        }
        future::ready(())
    });
    each.await;
}

/// Removes pods that an earlier leader left.
async fn remove_leftovers(pods: &PullPods) {
    for pod in pods.store.state() {
        let uid = pod.uid().unwrap_or_default();
        pods.remove(&pod.name_any(), &uid).await;
    }
}

async fn until(end: Option<Instant>) {
    match end {
        Some(end) => sleep_until(end).await,
        None => future::pending().await,
    }
}
