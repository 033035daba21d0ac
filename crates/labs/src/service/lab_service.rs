//! The labs of all people: what there is, and the operations that start and end them.
//!
//! The state is in memory and follows the watches, so reading it costs no call. Of several
//! processes the one with the Lease has operations; the others answer from their watches. Processes
//! that share operations in Redis have them all (`replicas`).

use std::{
    collections::{HashMap, HashSet},
    future,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use futures_util::{StreamExt, stream::BoxStream};
use kube::Client;
use ludgate_cluster::writer::Writer;
use ludgate_controllers::leader::LeaderElector;
use ludgate_model::clock::Clock;
use tokio::sync::{Semaphore, watch};
use tokio_util::sync::CancellationToken;

use super::{
    callers::LabCaller,
    lab::{DeleteStart, Lab, SpawnStart},
    leadership::Leadership,
    listeners::LabEventStream,
    operation::{Deletion, Operation, OperationKind},
    replicas::Replica,
    resolve_image::ResolveImage,
    settings::LabServiceSettings,
    spawn_plan::{SpawnPlan, SpawnWork},
    stores::{LabChange, LabStores},
};
use crate::{
    config::LabConfig,
    dialect::Dialect,
    error::LabError,
    events::{EventId, LabEvent},
    names::LabNames,
    options::LabSpecification,
    state::{LabState, LabStatus},
    user::{LabUser, check_username},
};

/// Owner of the fields that labs get.
const FIELD_MANAGER: &str = "ludgate-labs";

/// The labs of all people. Clones share them.
#[derive(Clone)]
pub struct LabService(pub(super) Arc<LabServiceInner>);

pub(super) struct LabServiceInner {
    pub(super) client: Client,
    pub(super) settings: LabServiceSettings,
    pub(super) images: Arc<dyn ResolveImage>,
    pub(super) writer: Writer,
    pub(super) stores: LabStores,
    pub(super) permits: Arc<Semaphore>,
    /// Who has had a lab before.
    pub(super) provisioned: Mutex<HashSet<String>>,
    /// What replicas share; `None`: the one with the Lease has all operations.
    pub(super) replica: Option<Replica>,
    pub(super) leadership: Leadership,
    clock: Clock,
    /// Taken by [`LabService::run`].
    changes: Mutex<Option<BoxStream<'static, LabChange>>>,
    labs: Mutex<HashMap<String, Arc<Lab>>>,
    last_operation: AtomicU64,
    /// Whether all labs of the cluster are known. Before that, an unknown lab may exist.
    is_listed: watch::Sender<bool>,
}

pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl LabService {
    /// The labs of a cluster, none of which is known before [`LabService::run`].
    pub fn new(
        client: Client,
        mut settings: LabServiceSettings,
        images: Arc<dyn ResolveImage>,
        clock: Clock,
    ) -> LabService {
        let scope = format!("{}/{}", settings.namespace, settings.lease);
        let store = settings.store.take();
        let (stores, changes) = LabStores::watch(&client, settings.watch);
        LabService(Arc::new(LabServiceInner {
            writer: Writer::new(client.clone(), FIELD_MANAGER),
            client,
            images,
            stores,
            permits: Arc::new(Semaphore::new(settings.max_calls.max(1))),
            settings,
            provisioned: Mutex::default(),
            replica: store.map(|store| Replica::new(store, &scope)),
            leadership: Leadership::default(),
            clock,
            changes: Mutex::new(Some(changes)),
            labs: Mutex::default(),
            last_operation: AtomicU64::new(0),
            is_listed: watch::Sender::new(false),
        }))
    }

    /// Starts a lab. Returns before its pod runs. A request with the key of an earlier one, whose
    /// lab is alive, does nothing.
    ///
    /// # Errors
    /// If the person may not have such a lab, or has one, or this process does not lead.
    pub async fn create(
        &self,
        caller: &LabCaller,
        specification: LabSpecification,
        key: Option<&str>,
    ) -> Result<(), LabError> {
        check_username(&caller.username)?;
        if let Some(replica) = &self.0.replica {
            return self
                .create_shared(replica, caller, specification, key)
                .await;
        }
        self.0.leadership.token()?;
        let user = permitted_user(caller)?;
        let lab = self.lab(&caller.username);
        if lab.record().is_repeated(key) {
            return Ok(());
        }
        let mut plan = self.plan(caller, user, specification).await?;
        // The registry may have taken its time.
        let leading = self.0.leadership.token()?;
        let number = self.next_operation();
        let start = lab.record().begin_spawn(plan.state(), key, number)?;
        let SpawnStart::Started {
            operation,
            is_replacement,
        } = start
        else {
            return Ok(());
        };
        let started = LabEvent::spawn_started(&caller.username, self.dialect());
        operation.log.push(started);
        plan.is_replacement = is_replacement;
        let work = SpawnWork::Make(Box::new(plan));
        self.start_spawn(leading, lab, operation, work);
        Ok(())
    }

    /// What a lab is to be made from, if there is none before.
    pub(super) async fn plan(
        &self,
        caller: &LabCaller,
        user: LabUser,
        specification: LabSpecification,
    ) -> Result<SpawnPlan, LabError> {
        let options = &specification.options;
        let image = self.0.images.resolve(&options.image).await?;
        let config = self.lab_config();
        let size = config.checked_size(options, user.quota.as_ref())?;
        Ok(SpawnPlan {
            user,
            token: caller.token.clone(),
            resources: size.resources,
            specification,
            image,
            is_replacement: false,
        })
    }

    /// Starts to delete a lab, or joins the deletion that runs. A spawn that runs is cancelled.
    /// The deletion goes on if the returned future is dropped.
    ///
    /// # Errors
    /// If there is no lab, or this process does not lead.
    pub async fn delete(&self, username: &str) -> Result<Deletion, LabError> {
        if let Some(replica) = &self.0.replica {
            return self.delete_shared(replica, username).await;
        }
        let leading = self.0.leadership.token()?;
        self.begin_delete(username, leading)
    }

    pub(super) fn begin_delete(
        &self,
        username: &str,
        leading: CancellationToken,
    ) -> Result<Deletion, LabError> {
        check_username(username).map_err(|_| LabError::unknown_user(username))?;
        let lab = self.lab(username);
        let is_found = self.found(&lab).namespace.is_some();
        let number = self.next_operation();
        let start = lab.record().begin_delete(username, is_found, number);
        Ok(self.join_delete(leading, lab, start?))
    }

    /// Runs a deletion that has begun, unless it runs already.
    pub(super) fn join_delete(
        &self,
        leading: CancellationToken,
        lab: Arc<Lab>,
        start: DeleteStart,
    ) -> Deletion {
        match start {
            DeleteStart::Joined(operation) => operation.ended(),
            DeleteStart::Started {
                operation,
                cancelled,
            } => {
                let ended = operation.ended();
                self.start_delete(leading, lab, operation, cancelled);
                ended
            }
        }
    }

    /// The state of a lab, from memory.
    ///
    /// # Errors
    /// [`LabError::UnknownUser`] if there is none, [`LabError::Unavailable`] until all labs are
    /// known: a hub takes an unknown lab for one that was stopped.
    pub fn get(&self, username: &str) -> Result<LabState, LabError> {
        self.check_listed()?;
        let state = self
            .known(username)
            .and_then(|lab| lab.record().state.clone());
        state.ok_or_else(|| LabError::unknown_user(username))
    }

    /// The events of the last operation so far.
    pub fn history(&self, username: &str) -> Vec<LabEvent> {
        let operation = self
            .known(username)
            .and_then(|lab| lab.record().operation.clone());
        operation.map_or_else(Vec::new, |operation| operation.log.events())
    }

    /// The persons whose labs run.
    ///
    /// # Errors
    /// [`LabError::Unavailable`] until all labs are known.
    pub fn running(&self) -> Result<Vec<String>, LabError> {
        self.check_listed()?;
        let is_running = |lab: &&Arc<Lab>| {
            let record = lab.record();
            let state = record.state.as_ref();
            state.is_some_and(|state| state.status == LabStatus::Running)
        };
        let labs = self.labs();
        let mut names: Vec<String> = labs
            .iter()
            .filter(is_running)
            .map(|lab| lab.username.clone())
            .collect();
        names.sort_unstable();
        Ok(names)
    }

    /// The events of the last operation on a lab: those after one that the listener has, then those
    /// to come.
    ///
    /// # Errors
    /// If there is no lab, not all labs are known yet, there are too many listeners, or another
    /// process has the operation.
    pub fn events(
        &self,
        username: &str,
        after: Option<EventId>,
    ) -> Result<LabEventStream, LabError> {
        self.check_listed()?;
        let unknown = || LabError::unknown_user(username);
        let lab = self.known(username).ok_or_else(unknown)?;
        let permit = lab
            .listeners
            .clone()
            .try_acquire_owned()
            .map_err(|_| LabError::Unavailable(format!("too many listeners for {username}")))?;
        let (operation, status) = {
            let record = lab.record();
            let status = record.state.as_ref().map(|state| state.status);
            (record.operation.clone(), status)
        };
        // Events in the store of the replicas expire.
        let operation = operation.filter(|it| it.is_running() || it.log.committed() > 0);
        let operation = match (operation, status) {
            (Some(operation), _) => operation,
            (None, Some(status)) => self.past(username, status)?,
            (None, None) => return Err(unknown()),
        };
        Ok(LabEventStream::new(operation, after, Some(permit)))
    }

    /// The events of a lab that another process started or deleted: how that ended.
    fn past(&self, username: &str, status: LabStatus) -> Result<Arc<Operation>, LabError> {
        let event = match status {
            LabStatus::Running => LabEvent::spawn_complete(username, self.dialect()),
            LabStatus::Terminated | LabStatus::Failed => LabEvent::spawn_failed(),
            LabStatus::Pending | LabStatus::Terminating => {
                let message = "this instance has no events of the operation";
                return Err(LabError::Unavailable(message.to_owned()));
            }
        };
        let operation = Operation::new(OperationKind::Spawn, self.next_operation());
        operation.log.push(event);
        Ok(operation)
    }

    /// Whether this process begins operations.
    pub fn is_leading(&self) -> bool {
        if let Some(replica) = &self.0.replica {
            return *self.0.is_listed.borrow() && replica.store.is_ready();
        }
        self.0.leadership.token().is_ok()
    }

    /// Waits until the state of all labs is known. [`LabService::run`] reads it.
    pub async fn wait_until_ready(&self) {
        let mut is_listed = self.0.is_listed.subscribe();
        // The sender is this struct's own, so it is never gone.
        let _ = is_listed.wait_for(|listed| *listed).await;
    }

    pub(super) fn check_listed(&self) -> Result<(), LabError> {
        if *self.0.is_listed.borrow() {
            return Ok(());
        }
        let message = "the lab controller has not read the labs of the cluster yet";
        Err(LabError::Unavailable(message.to_owned()))
    }

    /// Follows the cluster, and works while it has the Lease, until `shutdown`. Operations go on in
    /// the next process. `is_leader` follows. Runs once; a second call returns at once.
    pub async fn run(self, is_leader: watch::Sender<bool>, shutdown: CancellationToken) {
        let Some(mut changes) = locked(&self.0.changes).take() else {
            return;
        };
        let follow = async {
            while let Some(change) = changes.next().await {
                self.follow(&change);
            }
        };
        let publish = async {
            if self.0.stores.wait_until_ready().await.is_ok() {
                // The stores have the lists a moment before `follow` has seen them.
                self.follow(&LabChange::All);
                self.0.is_listed.send_replace(true);
            }
            future::pending::<()>().await;
        };
        let settings = &self.0.settings;
        let elector = LeaderElector::new(
            self.0.client.clone(),
            &settings.namespace,
            &settings.lease,
            settings.identity.clone(),
        );
        let lead = elector.run(is_leader, || self.lead(), shutdown.cancelled());
        let stops_with_this = self.0.replica.as_ref().map(Replica::stop_guard);
        tokio::select! {
            () = follow => tracing::error!("the watches of labs have ended"),
            () = publish => {}
            () = self.share() => {}
            () = lead => {}
        }
        drop(stops_with_this);
        if let Some(replica) = &self.0.replica {
            replica.wait_until_idle().await;
        }
    }

    pub(super) fn lab_config(&self) -> &LabConfig {
        &self.0.settings.config.lab
    }

    pub(super) fn dialect(&self) -> Dialect {
        self.0.settings.dialect
    }

    pub(super) fn names(&self, username: &str) -> LabNames {
        LabNames::new(username, self.lab_config(), self.dialect())
    }

    /// The number of a new operation. It grows over restarts, unless the clock goes back.
    pub(super) fn next_operation(&self) -> u64 {
        let seconds = u64::try_from(self.0.clock.wall_seconds()).unwrap_or(0);
        let next = |last: u64| Some((seconds * 1000).max(last + 1));
        let last = self
            .0
            .last_operation
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
        next(last.unwrap_or_else(|last| last)).unwrap_or(seconds)
    }

    /// The entry of a person, made if there is none.
    pub(super) fn lab(&self, username: &str) -> Arc<Lab> {
        let mut labs = locked(&self.0.labs);
        let new = || Arc::new(Lab::new(username));
        labs.entry(username.to_owned()).or_insert_with(new).clone()
    }

    fn known(&self, username: &str) -> Option<Arc<Lab>> {
        locked(&self.0.labs).get(username).cloned()
    }

    pub(super) fn is_known(&self, username: &str) -> bool {
        locked(&self.0.labs).contains_key(username)
    }

    pub(super) fn labs(&self) -> Vec<Arc<Lab>> {
        locked(&self.0.labs).values().cloned().collect()
    }

    /// Forgets people without a lab, so that the memory does not grow.
    pub(super) fn forget_gone(&self) {
        let is_needed = |_: &String, lab: &mut Arc<Lab>| {
            let record = lab.record();
            Arc::strong_count(lab) > 1 || record.state.is_some() || record.running().is_some()
        };
        locked(&self.0.labs).retain(is_needed);
    }
}

/// The person, if labs are permitted.
pub(super) fn permitted_user(caller: &LabCaller) -> Result<LabUser, LabError> {
    let no_identity = || LabError::NoPosixIdentity(caller.username.clone());
    let user = caller.user.clone().ok_or_else(no_identity)?;
    match user.quota.is_some_and(|quota| !quota.may_spawn) {
        true => Err(LabError::SpawnNotAllowed),
        false => Ok(user),
    }
}

#[cfg(test)]
mod tests;
