//! One pull of an image to a node: a pod is made, watched to its end and removed.

use std::{sync::Arc, time::Duration};

use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    ResourceExt,
    api::ApiResource,
    runtime::reflector::{ObjectRef, Store},
};
use ludgate_cluster::{
    deadline::ApiCallError,
    object::DeepObject,
    writer::{NamespacedName, Writer},
};
use ludgate_controllers::error::ReconcileError;
use serde_json::Value;
use tokio::{
    sync::watch,
    time::{Instant, sleep, timeout_at},
};

use super::pull_end::{PullEnd, end_of_pull};
use crate::metadata::CATEGORY_LABEL;

/// Category of the pods that pull images.
pub(super) const CATEGORY: &str = "prepuller";
/// The first pause after a call that failed, before jitter doubles it at most.
const MIN_BACKOFF: Duration = Duration::from_millis(200);
/// The longest one, before jitter.
const MAX_BACKOFF: Duration = Duration::from_secs(10);
/// How often a pod is tried to be removed. The next leader removes what is left.
const REMOVALS: usize = 5;

/// Pods, as resources of the API.
pub(super) fn pod_kind() -> ApiResource {
    ApiResource::erase::<Pod>(&())
}

/// The pods that pull images, in one namespace.
#[derive(Clone)]
pub(super) struct PullPods {
    pub(super) writer: Writer,
    pub(super) namespace: String,
    pub(super) kind: ApiResource,
    /// The pods as of the last change.
    pub(super) store: Store<DeepObject>,
    /// Changes with each change of them.
    pub(super) changed: watch::Receiver<()>,
}

impl PullPods {
    /// Makes a pod, waits for its end and removes it.
    pub(super) async fn pull(mut self, name: String, pod: Value, deadline: Instant) -> PullEnd {
        let uid = match timeout_at(deadline, self.make(&name, &pod)).await {
            Ok(Ok(uid)) => uid,
            Ok(Err(reason)) => return PullEnd::Failed(reason),
            Err(_elapsed) => return PullEnd::TimedOut,
        };
        let end = timeout_at(deadline, self.end(&name, &uid)).await;
        self.remove(&name, &uid).await;
        end.unwrap_or(PullEnd::TimedOut)
    }

    /// Makes a pod in place of an old one, and returns its UID; or why that is refused.
    async fn make(&mut self, name: &str, pod: &Value) -> Result<String, String> {
        let mut pauses = pauses();
        loop {
            let made = self
                .writer
                .create(&self.kind, &self.namespace, pod.clone())
                .await;
            match made {
                Ok(pod) => return Ok(pod.uid().unwrap_or_default()),
                Err(error) if is_conflict(&error) => self.remove_old(name).await?,
                Err(error) => passing(name, error)?,
            }
            sleep(pauses.next().unwrap_or(MAX_BACKOFF)).await;
        }
    }

    /// Removes a pod of this name, if it is one that pulls images, and waits until it is gone.
    async fn remove_old(&mut self, name: &str) -> Result<(), String> {
        let old = match self.writer.get(&self.kind, self.named(name)).await {
            Ok(Some(old)) => old,
            Ok(None) => return Ok(()),
            Err(error) => return passing(name, error),
        };
        if old.labels().get(CATEGORY_LABEL).map(String::as_str) != Some(CATEGORY) {
            return Err(format!("the pod {name} is none that pulls images"));
        }
        let uid = old.uid().unwrap_or_default();
        if old.metadata.deletion_timestamp.is_none()
            && let Err(error) = self.delete(name, &uid).await
        {
            return passing(name, error);
        }
        while self.find(name, &uid).is_some() {
            self.change().await?;
        }
        Ok(())
    }

    /// How the pod ends.
    async fn end(&mut self, name: &str, uid: &str) -> PullEnd {
        let mut was_seen = false;
        loop {
            match self.find(name, uid) {
                Some(pod) => {
                    was_seen = true;
                    if let Some(end) = end_of_pull(&pod.status) {
                        return end;
                    }
                }
                None if was_seen => return PullEnd::Failed("the pod was deleted".to_owned()),
                // The watch is a moment behind.
                None => {}
            }
            if let Err(reason) = self.change().await {
                return PullEnd::Failed(reason);
            }
        }
    }

    /// Removes a pod of ours; failures are logged.
    pub(super) async fn remove(&self, name: &str, uid: &str) {
        let mut pauses = pauses();
        for left in (0..REMOVALS).rev() {
            match self.delete(name, uid).await {
                Ok(()) => return,
                // Another pod has the name by now.
                Err(error) if is_conflict(&error) => return,
                Err(error) if left == 0 => {
                    tracing::warn!(pod = name, %error, "cannot remove a pod that pulled an image");
                }
                Err(_) => sleep(pauses.next().unwrap_or(MAX_BACKOFF)).await,
            }
        }
    }

    async fn delete(&self, name: &str, uid: &str) -> Result<(), ApiCallError> {
        self.writer.delete(&self.kind, self.named(name), uid).await
    }

    fn named<'a>(&'a self, name: &'a str) -> NamespacedName<'a> {
        NamespacedName {
            namespace: &self.namespace,
            name,
        }
    }

    /// The pod with this UID. Changes after this are seen by [`PullPods::change`].
    fn find(&mut self, name: &str, uid: &str) -> Option<Arc<DeepObject>> {
        self.changed.mark_unchanged();
        let key = ObjectRef::new_with(name, self.kind.clone()).within(&self.namespace);
        let pod = self.store.get(&key)?;
        (pod.uid().as_deref() == Some(uid)).then_some(pod)
    }

    async fn change(&mut self) -> Result<(), String> {
        let changed = self.changed.changed().await;
        changed.map_err(|_| "the pods are not watched any more".to_owned())
    }
}

/// Logs an error that may pass; others are the reason for a failure.
fn passing(name: &str, error: ApiCallError) -> Result<(), String> {
    match ReconcileError::from(error) {
        ReconcileError::Transient(error) => {
            tracing::debug!(pod = name, %error, "a pod that pulls an image has to wait");
            Ok(())
        }
        ReconcileError::Rejected(reason) => Err(reason),
    }
}

fn is_conflict(error: &ApiCallError) -> bool {
    matches!(error, ApiCallError::Api(kube::Error::Api(status)) if status.code == 409)
}

fn pauses() -> ExponentialBackoff {
    ExponentialBuilder::default()
        .with_min_delay(MIN_BACKOFF)
        .with_max_delay(MAX_BACKOFF)
        .without_max_times()
        .with_jitter()
        .build()
}
