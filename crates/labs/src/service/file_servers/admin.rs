//! The pod for administrators of file systems, which they start and stop.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use kube::ResourceExt;
use tokio::sync::OwnedMutexGuard;
use tokio_util::sync::CancellationToken;

use super::{
    calls::OwnedCalls,
    operations::FilesystemAdminOperations,
    owned::{OwnedObject, OwnedStores},
    shared::FileShared,
};
use crate::{
    config::{ContainerImage, LabsConfig},
    error::LabError,
    objects::{FilesystemAdminObjects, filesystem_admin},
    service::{
        operation::abandoned,
        outcome::Stopped,
        retry::Limits,
        stores::{is_ending, json, phase},
    },
};

/// The pod for administrators. Clones share it.
#[derive(Clone)]
pub(super) struct FilesystemAdminService(Arc<AdminInner>);

struct AdminInner {
    shared: FileShared,
    stores: OwnedStores,
    config: Arc<LabsConfig>,
    desired: FilesystemAdminObjects,
    /// Held by an operation.
    lock: Arc<tokio::sync::Mutex<()>>,
}

fn failed(what: &str, reason: &str) -> LabError {
    LabError::ServerFailed {
        kind: "fsadmin_failed",
        message: format!("Failed to {what} the file system admin instance: {reason}"),
    }
}

impl FilesystemAdminService {
    /// The pod in this namespace.
    pub(super) fn new(
        shared: FileShared,
        stores: OwnedStores,
        config: Arc<LabsConfig>,
        image: &ContainerImage,
        namespace: &str,
    ) -> FilesystemAdminService {
        let desired = filesystem_admin(&config.fsadmin, &config.lab, image, namespace);
        FilesystemAdminService(Arc::new(AdminInner {
            shared,
            stores,
            config,
            desired,
            lock: Arc::default(),
        }))
    }

    pub(super) fn stores(&self) -> &OwnedStores {
        &self.0.stores
    }

    /// Makes sure that the pod runs, with the lock.
    async fn ensure(
        &self,
        leading: CancellationToken,
        guard: OwnedMutexGuard<()>,
    ) -> Result<String, LabError> {
        let mut made = Vec::new();
        let started = match self.make(&mut made, &leading).await {
            Ok(started) => Ok(started),
            Err(stopped) => {
                let reason = stopped.text();
                tracing::warn!(reason, "cannot start the file system admin instance");
                if let Err(stopped) = self.remove(made, &leading).await {
                    let reason = stopped.text();
                    tracing::warn!(reason, "cannot delete the file system admin instance");
                }
                Err(match leading.is_cancelled() {
                    true => abandoned(),
                    false => failed("start", &reason),
                })
            }
        };
        drop(guard);
        started
    }

    /// Makes what is missing, and waits until the pod runs.
    async fn make(
        &self,
        made: &mut Vec<OwnedObject>,
        leading: &CancellationToken,
    ) -> Result<String, Stopped> {
        if let Some(started) = self.running_since() {
            return Ok(started);
        }
        let limits = self.limits(leading);
        let calls = self.calls(&limits);
        let old = self.pods();
        let is_alive = |pod: &OwnedObject| {
            let phase = phase(&pod.object);
            !is_ending(&pod.object) && !matches!(phase, Some("Succeeded" | "Failed"))
        };
        if !old.iter().all(is_alive) {
            calls.remove(Vec::new(), || self.pods()).await?;
        }
        let desired = &self.0.desired;
        for claim in &desired.claims {
            made.push(calls.apply(claim).await?);
        }
        let pod = calls.apply(&desired.pod).await?;
        let uid = pod.uid();
        made.push(pod);
        let mut touched = self.0.shared.touched.subscribe();
        let mut is_seen = false;
        loop {
            touched.borrow_and_update();
            let pod = self.pods().into_iter().find(|pod| pod.uid() == uid);
            if let Some(pod) = &pod
                && !is_alive(pod)
            {
                return Err(Stopped::Impossible("its pod has ended".to_owned()));
            }
            if is_seen && pod.is_none() {
                return Err(Stopped::Impossible("its pod was deleted".to_owned()));
            }
            is_seen = pod.is_some();
            if let Some(started) = self.running_since() {
                return Ok(started);
            }
            let what = "waiting for the pod to start";
            // The sender is borrowed here, so it lives.
            let _ = limits.wait(what, touched.changed()).await?;
        }
    }

    async fn finish_stop(&self, leading: CancellationToken) -> Result<(), LabError> {
        let guard = self.0.lock.lock().await;
        let removed = self.remove(Vec::new(), &leading).await;
        drop(guard);
        removed.map_err(|stopped| match leading.is_cancelled() {
            true => abandoned(),
            false => failed("delete", &stopped.text()),
        })
    }

    async fn remove(
        &self,
        made: Vec<OwnedObject>,
        leading: &CancellationToken,
    ) -> Result<(), Stopped> {
        let limits = self.limits(leading);
        let calls = self.calls(&limits);
        calls.remove(made, || self.0.stores.all()).await
    }

    fn limits(&self, leading: &CancellationToken) -> Limits {
        let limit = self.0.config.fsadmin.timeout;
        Limits::new(limit, leading.clone(), self.0.shared.permits.clone())
    }

    fn calls<'c>(&'c self, limits: &'c Limits) -> OwnedCalls<'c> {
        OwnedCalls {
            writer: &self.0.shared.writer,
            touched: &self.0.shared.touched,
            limits,
        }
    }

    /// Its pod, if there is one.
    fn pods(&self) -> Vec<OwnedObject> {
        let name = &self.0.config.fsadmin.pod_name;
        let mut objects = self.0.stores.all();
        objects.retain(|owned| owned.is("Pod") && owned.object.name_any() == *name);
        objects
    }

    /// When the pod started, if it runs.
    fn running_since(&self) -> Option<String> {
        let pod = self.pods().into_iter().find(|pod| {
            let phase = phase(&pod.object);
            phase == Some("Running") && !is_ending(&pod.object)
        })?;
        let pod = json(&pod.object);
        let started = pod["status"]["startTime"].as_str();
        let started = started.or(pod["metadata"]["creationTimestamp"].as_str());
        Some(started.unwrap_or_default().to_owned())
    }
}

impl FilesystemAdminOperations for FilesystemAdminService {
    fn start(&self) -> BoxFuture<'_, Result<String, LabError>> {
        Box::pin(async move {
            self.0.shared.leadership.token()?;
            // Not in the task: a client that has left must not be in the queue.
            let guard = self.0.lock.clone().lock_owned().await;
            let leading = self.0.shared.leadership.token()?;
            let service = self.clone();
            // In a task of its own, it goes on if the client leaves.
            let task = tokio::spawn(async move { service.ensure(leading, guard).await });
            task.await
                .unwrap_or_else(|_| Err(failed("start", "it was aborted")))
        })
    }

    fn stop(&self) -> BoxFuture<'_, Result<(), LabError>> {
        Box::pin(async move {
            let leading = self.0.shared.leadership.token()?;
            let service = self.clone();
            let task = tokio::spawn(async move { service.finish_stop(leading).await });
            task.await
                .unwrap_or_else(|_| Err(failed("delete", "it was aborted")))
        })
    }

    fn started_at(&self) -> Result<String, LabError> {
        self.0.shared.check_listed()?;
        let not_running =
            || LabError::NotFound("The file system admin instance is not running".to_owned());
        self.running_since().ok_or_else(not_running)
    }
}
