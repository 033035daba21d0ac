//! The file servers of people: created on demand, and deleted when their pods have ended.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use futures_util::future::BoxFuture;
use serde_json::Value;
use tokio::{
    sync::OwnedMutexGuard,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use super::{
    calls::OwnedCalls,
    operations::FileServerOperations,
    owned::{OwnedObject, OwnedStores},
    server_phase::{ServerPhase, server_phase},
    shared::{FileShared, locked},
};
use crate::{
    config::{ContainerImage, FileServers, LabsConfig},
    error::LabError,
    objects::{FileServerContext, file_server},
    service::{operation::abandoned, outcome::Stopped, retry::Limits},
    user::{LabUser, check_username},
};

/// Pause after a server could not be deleted.
const RETRY_PAUSE: Duration = Duration::from_secs(10);
/// Shortest interval between two checks of all servers. A shorter configured one is raised to this.
const MIN_INTERVAL: Duration = Duration::from_secs(1);

/// The file servers of people. Clones share them.
#[derive(Clone)]
pub(super) struct FileServerService(Arc<ServersInner>);

struct ServersInner {
    shared: FileShared,
    stores: OwnedStores,
    config: Arc<LabsConfig>,
    servers: FileServers,
    image: ContainerImage,
    peers: Vec<Value>,
    slots: Mutex<HashMap<String, Arc<ServerSlot>>>,
}

/// Operations on the server of one person.
#[derive(Default)]
struct ServerSlot {
    /// Held by an operation.
    lock: Arc<tokio::sync::Mutex<()>>,
    /// Cancels the creation that runs.
    creation: Mutex<Option<CancellationToken>>,
}

fn failed(kind: &'static str, what: &str, reason: &str) -> LabError {
    LabError::ServerFailed {
        kind,
        message: format!("Failed to {what} file server: {reason}"),
    }
}

fn create_failed(reason: &str) -> LabError {
    failed("file_server_create_failed", "create", reason)
}

fn delete_failed(reason: &str) -> LabError {
    failed("file_server_delete_failed", "delete", reason)
}

impl FileServerService {
    /// Servers that the stores do not show yet.
    pub(super) fn new(
        shared: FileShared,
        stores: OwnedStores,
        config: Arc<LabsConfig>,
        servers: FileServers,
        image: ContainerImage,
        peers: Vec<Value>,
    ) -> FileServerService {
        FileServerService(Arc::new(ServersInner {
            shared,
            stores,
            config,
            servers,
            image,
            peers,
            slots: Mutex::default(),
        }))
    }

    pub(super) fn stores(&self) -> &OwnedStores {
        &self.0.stores
    }

    /// Deletes servers that have ended, until `leading` is over.
    pub(super) async fn lead(&self, leading: &CancellationToken) {
        // Requests that waited for these in another process have ended, and may come again.
        self.remove_those(leading, &[ServerPhase::Starting, ServerPhase::Over]);
        let interval = self.0.servers.reconcile_interval.max(MIN_INTERVAL);
        let mut touched = self.0.shared.touched.subscribe();
        loop {
            touched.borrow_and_update();
            self.remove_those(leading, &[ServerPhase::Over]);
            // Slots without an operation have no state.
            locked(&self.0.slots).retain(|_, slot| Arc::strong_count(slot) > 1);
            let _ = timeout(interval, touched.changed()).await;
        }
    }

    /// Starts to delete the servers in these phases, except those that have an operation.
    fn remove_those(&self, leading: &CancellationToken, phases: &'static [ServerPhase]) {
        for (username, objects) in self.0.stores.by_user() {
            if !phases.contains(&server_phase(&objects)) {
                continue;
            }
            let slot = self.slot(&username);
            // The end of an operation leads to another look.
            let Ok(guard) = slot.lock.clone().try_lock_owned() else {
                continue;
            };
            if !phases.contains(&self.phase(&username)) {
                continue;
            }
            let (service, leading) = (self.clone(), leading.clone());
            tokio::spawn(async move {
                tracing::info!(user = username, "deleting what is left of the file server");
                let removed = service.remove(&username, Vec::new(), &leading).await;
                if let Err(stopped) = removed {
                    let reason = stopped.text();
                    tracing::warn!(user = username, reason, "cannot delete the file server");
                    // With the lock: until it is free, no other attempt begins.
                    sleep(RETRY_PAUSE).await;
                }
                drop((guard, slot));
                service.touch();
            });
        }
    }

    /// Makes sure that the server runs, with the lock of its slot.
    async fn ensure(
        &self,
        user: LabUser,
        leading: CancellationToken,
        slot: Arc<ServerSlot>,
        guard: OwnedMutexGuard<()>,
    ) -> Result<(), LabError> {
        let username = user.username.as_str();
        let creation = leading.child_token();
        *locked(&slot.creation) = Some(creation.clone());
        let mut made = Vec::new();
        let created = self.make(&user, &mut made, creation).await;
        *locked(&slot.creation) = None;
        let created = match created {
            Ok(()) => Ok(()),
            Err(stopped) => {
                let reason = stopped.text();
                tracing::warn!(user = username, reason, "cannot create the file server");
                if let Err(stopped) = self.remove(username, made, &leading).await {
                    let reason = stopped.text();
                    tracing::warn!(user = username, reason, "cannot delete the file server");
                }
                Err(match leading.is_cancelled() {
                    true => abandoned(),
                    false => create_failed(&reason),
                })
            }
        };
        drop(guard);
        self.touch();
        created
    }

    /// Makes what is missing, and waits until the server runs.
    async fn make(
        &self,
        user: &LabUser,
        made: &mut Vec<OwnedObject>,
        creation: CancellationToken,
    ) -> Result<(), Stopped> {
        let username = user.username.as_str();
        let limits = self.limits(self.0.servers.creation_timeout, creation);
        let calls = self.calls(&limits);
        let stored = || self.0.stores.of_user(username);
        let has = |kind: &str| stored().iter().any(|owned| owned.is(kind));
        match self.phase(username) {
            ServerPhase::Running if has("Service") && has("NetworkPolicy") => return Ok(()),
            ServerPhase::Over => calls.remove(Vec::new(), stored).await?,
            ServerPhase::Absent | ServerPhase::Starting | ServerPhase::Running => {}
        }
        tracing::info!(user = username, "creating the file server");
        let context = FileServerContext {
            config: &self.0.servers,
            lab: &self.0.config.lab,
            base_url: &self.0.config.base_url,
            // Only in the object of a proxy, which is not made here.
            host: "",
            image: &self.0.image,
            peers: &self.0.peers,
        };
        let desired = file_server(context, user);
        let before = [&desired.policy, &desired.service];
        for object in desired.claims.iter().chain(before) {
            made.push(calls.apply(object).await?);
        }
        let job = stored().into_iter().find(|owned| owned.is("Job"));
        let uid = match job {
            Some(job) => job.uid(),
            None => {
                let job = calls.apply(&desired.job).await?;
                let uid = job.uid();
                made.push(job);
                uid
            }
        };
        self.until_running(username, &uid, &limits).await
    }

    async fn until_running(
        &self,
        username: &str,
        uid: &str,
        limits: &Limits,
    ) -> Result<(), Stopped> {
        let mut touched = self.0.shared.touched.subscribe();
        let mut is_seen = false;
        loop {
            touched.borrow_and_update();
            let objects = self.0.stores.of_user(username);
            let has_job = objects.iter().any(|owned| owned.uid() == uid);
            if is_seen && !has_job {
                return Err(Stopped::Impossible("it was deleted".to_owned()));
            }
            is_seen = has_job;
            match server_phase(&objects) {
                ServerPhase::Running if has_job => return Ok(()),
                ServerPhase::Over if has_job => {
                    return Err(Stopped::Impossible("its pod has ended".to_owned()));
                }
                // The watch may not have shown the Job yet.
                ServerPhase::Absent
                | ServerPhase::Starting
                | ServerPhase::Running
                | ServerPhase::Over => {}
            }
            let what = "waiting for the file server to start";
            // The sender is borrowed here, so it lives.
            let _ = limits.wait(what, touched.changed()).await?;
        }
    }

    async fn finish_delete(
        &self,
        username: &str,
        leading: &CancellationToken,
    ) -> Result<(), LabError> {
        let slot = self.slot(username);
        let guard = slot.lock.lock().await;
        let removed = self.remove(username, Vec::new(), leading).await;
        drop(guard);
        self.touch();
        removed.map_err(|stopped| {
            let reason = stopped.text();
            tracing::warn!(user = username, reason, "cannot delete the file server");
            match leading.is_cancelled() {
                true => abandoned(),
                false => delete_failed(&reason),
            }
        })
    }

    async fn remove(
        &self,
        username: &str,
        made: Vec<OwnedObject>,
        leading: &CancellationToken,
    ) -> Result<(), Stopped> {
        let limits = self.limits(self.0.servers.delete_timeout, leading.clone());
        let stored = || self.0.stores.of_user(username);
        self.calls(&limits).remove(made, stored).await
    }

    fn limits(&self, limit: Duration, cancel: CancellationToken) -> Limits {
        Limits::new(limit, cancel, self.0.shared.permits.clone())
    }

    fn calls<'c>(&'c self, limits: &'c Limits) -> OwnedCalls<'c> {
        OwnedCalls {
            writer: &self.0.shared.writer,
            touched: &self.0.shared.touched,
            limits,
        }
    }

    fn phase(&self, username: &str) -> ServerPhase {
        server_phase(&self.0.stores.of_user(username))
    }

    fn touch(&self) {
        self.0.shared.touched.send_replace(());
    }

    /// The slot of a person, made if there is none.
    fn slot(&self, username: &str) -> Arc<ServerSlot> {
        let mut slots = locked(&self.0.slots);
        slots.entry(username.to_owned()).or_default().clone()
    }

    /// Cancels a creation that runs. Whether there was one.
    fn cancel_creation(&self, username: &str) -> bool {
        let slots = locked(&self.0.slots);
        let Some(slot) = slots.get(username) else {
            return false;
        };
        let creation = locked(&slot.creation);
        if let Some(creation) = &*creation {
            creation.cancel();
        }
        creation.is_some()
    }
}

impl FileServerOperations for FileServerService {
    fn create<'a>(&'a self, user: &'a LabUser) -> BoxFuture<'a, Result<(), LabError>> {
        Box::pin(async move {
            check_username(&user.username)?;
            self.0.shared.leadership.token()?;
            let slot = self.slot(&user.username);
            // Not in the task: a client that has left must not be in the queue.
            let guard = slot.lock.clone().lock_owned().await;
            let leading = self.0.shared.leadership.token()?;
            let (service, user) = (self.clone(), user.clone());
            // In a task of its own, it goes on if the client leaves.
            let task =
                tokio::spawn(async move { service.ensure(user, leading, slot, guard).await });
            task.await
                .unwrap_or_else(|_| Err(create_failed("it was aborted")))
        })
    }

    fn delete<'a>(&'a self, username: &'a str) -> BoxFuture<'a, Result<(), LabError>> {
        Box::pin(async move {
            let leading = self.0.shared.leadership.token()?;
            let was_starting = self.cancel_creation(username);
            if !was_starting && self.phase(username) == ServerPhase::Absent {
                return Err(LabError::unknown_user(username));
            }
            let (service, username) = (self.clone(), username.to_owned());
            let task =
                tokio::spawn(async move { service.finish_delete(&username, &leading).await });
            task.await
                .unwrap_or_else(|_| Err(delete_failed("it was aborted")))
        })
    }

    fn is_running(&self, username: &str) -> Result<bool, LabError> {
        self.0.shared.check_listed()?;
        Ok(self.phase(username) == ServerPhase::Running)
    }

    fn running(&self) -> Result<Vec<String>, LabError> {
        self.0.shared.check_listed()?;
        let servers = self.0.stores.by_user().into_iter();
        let running = servers.filter(|(_, objects)| server_phase(objects) == ServerPhase::Running);
        Ok(running.map(|(username, _)| username).collect())
    }
}
