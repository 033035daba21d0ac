//! The lab of one person: its state, its operation, and how one leads to the other.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{
    sync::{Semaphore, watch},
    time::Instant,
};

use super::operation::{Operation, OperationKind, abandoned};
use crate::{
    error::LabError,
    events::LabEvent,
    state::{LabState, LabStatus},
};

/// Maximum number of listeners of one person's events.
const MAX_LISTENERS: usize = 32;

/// The lab of one person, whether or not there is one now.
#[derive(Debug)]
pub(super) struct Lab {
    pub(super) username: String,
    record: Mutex<LabRecord>,
    /// Its objects may have changed.
    touched: watch::Sender<()>,
    pub(super) listeners: Arc<Semaphore>,
    /// Held while what replicas share of it is compared with the record, so that of two tasks the
    /// one with the older view does not come last.
    pub(super) turn: tokio::sync::Mutex<()>,
}

impl Lab {
    pub(super) fn new(username: &str) -> Lab {
        Lab {
            username: username.to_owned(),
            record: Mutex::default(),
            touched: watch::Sender::new(()),
            listeners: Arc::new(Semaphore::new(MAX_LISTENERS)),
            turn: tokio::sync::Mutex::default(),
        }
    }

    pub(super) fn record(&self) -> MutexGuard<'_, LabRecord> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends an operation: all who see its last event, or its end, see what it changed.
    pub(super) fn finish(
        &self,
        operation: &Operation,
        last: impl IntoIterator<Item = LabEvent>,
        result: Result<(), LabError>,
        change: impl FnOnce(&mut LabRecord),
    ) {
        let mut record = self.record();
        change(&mut record);
        for event in last {
            operation.log.push(event);
        }
        operation.finish(result);
    }

    /// Wakes the operation.
    pub(super) fn touch(&self) {
        self.touched.send_replace(());
    }

    pub(super) fn touched(&self) -> watch::Receiver<()> {
        self.touched.subscribe()
    }
}

/// What is known about a lab.
#[derive(Debug, Default)]
pub(super) struct LabRecord {
    /// `None`: there is no lab.
    pub(super) state: Option<LabState>,
    /// The last operation: of this process, or of all replicas that share operations.
    pub(super) operation: Option<Arc<Operation>>,
    /// A spawn that a shared deletion cancels, until its end is known.
    pub(super) previous: Option<Arc<Operation>>,
    /// Whether the state is read from the objects, not from a request.
    is_rebuilt: bool,
    /// The key of the request that started the lab, or its digest where replicas share operations.
    key: Option<String>,
    /// Whether the watch has shown the namespace of this lab, not that of an earlier one.
    is_namespace_seen: bool,
    /// Whether an operation failed. What becomes of the pod then is no longer of interest.
    has_failed: bool,
    /// Since when the lab is dead.
    pub(super) dead_since: Option<Instant>,
}

/// What comes of a request to start a lab.
#[derive(Debug)]
pub(super) enum SpawnStart {
    /// It starts.
    Started {
        operation: Arc<Operation>,
        /// Whether a dead lab must be deleted before.
        is_replacement: bool,
    },
    /// The request came before.
    Repeated,
}

/// Whether a lab may be started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SpawnCheck {
    /// It may.
    New {
        /// Whether a dead lab must be deleted before.
        is_replacement: bool,
    },
    /// The request came before.
    Repeated,
}

/// What comes of a request to delete a lab.
#[derive(Debug)]
pub(super) enum DeleteStart {
    /// It starts, when this spawn has ended.
    Started {
        operation: Arc<Operation>,
        cancelled: Option<Arc<Operation>>,
    },
    /// It is being deleted already.
    Joined(Arc<Operation>),
}

/// What the watches show of a lab that has no operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seen {
    /// There is no namespace.
    Gone,
    /// There is one.
    Present {
        /// By the pod, or by the end of the namespace.
        status: LabStatus,
        has_pod: bool,
    },
}

impl LabRecord {
    pub(super) fn running(&self) -> Option<&Arc<Operation>> {
        let operation = self.operation.as_ref();
        operation.filter(|operation| operation.is_running())
    }

    /// Whether a request with this key was taken before, and its lab is there.
    pub(super) fn is_repeated(&self, key: Option<&str>) -> bool {
        let is_alive = |state: &LabState| !state.status.is_dead();
        let is_spawning = || {
            self.running()
                .is_none_or(|operation| operation.kind == OperationKind::Spawn)
        };
        key.is_some()
            && self.key.as_deref() == key
            && self.state.as_ref().is_some_and(is_alive)
            && is_spawning()
    }

    /// Starts a spawn of the lab in `state`. `number` is that of a new operation.
    ///
    /// # Errors
    /// [`LabError::OperationInProgress`] or [`LabError::LabExists`].
    pub(super) fn begin_spawn(
        &mut self,
        state: LabState,
        key: Option<&str>,
        number: u64,
    ) -> Result<SpawnStart, LabError> {
        let is_replacement = match self.check_spawn(&state.user.username, key)? {
            SpawnCheck::New { is_replacement } => is_replacement,
            SpawnCheck::Repeated => return Ok(SpawnStart::Repeated),
        };
        let operation = Operation::new(OperationKind::Spawn, number);
        self.set_spawn(operation.clone(), Some(state), key);
        Ok(SpawnStart::Started {
            operation,
            is_replacement,
        })
    }

    /// Whether a spawn may begin.
    ///
    /// # Errors
    /// [`LabError::OperationInProgress`] or [`LabError::LabExists`].
    pub(super) fn check_spawn(
        &self,
        username: &str,
        key: Option<&str>,
    ) -> Result<SpawnCheck, LabError> {
        if self.is_repeated(key) {
            return Ok(SpawnCheck::Repeated);
        }
        if self.running().is_some() {
            return Err(LabError::OperationInProgress(username.to_owned()));
        }
        let before = self.state.as_ref();
        if before.is_some_and(|before| !before.status.is_dead()) {
            return Err(LabError::LabExists(username.to_owned()));
        }
        let is_replacement = before.is_some();
        Ok(SpawnCheck::New { is_replacement })
    }

    /// A spawn has begun. Without a state, that of the cluster's objects stays.
    pub(super) fn set_spawn(
        &mut self,
        operation: Arc<Operation>,
        state: Option<LabState>,
        key: Option<&str>,
    ) {
        let is_rebuilt = state.is_none() && self.is_rebuilt;
        let kept = self.state.take().filter(|_| state.is_none());
        *self = LabRecord {
            state: state.or(kept),
            operation: Some(operation),
            key: key.map(str::to_owned),
            is_rebuilt,
            ..LabRecord::default()
        };
    }

    /// Follows an operation that replicas share and that has just become known.
    pub(super) fn follow(&mut self, operation: Arc<Operation>, state: Option<LabState>) {
        let previous = self.replaced();
        if let Some(previous) = &previous {
            previous.cancel.cancel();
        }
        let key = operation.request().key;
        match operation.kind {
            OperationKind::Spawn => self.set_spawn(operation, state, key.as_deref()),
            OperationKind::Delete => self.set_delete(operation),
        }
        self.previous = previous;
    }

    /// The operation that another one replaces, if it goes on.
    fn replaced(&mut self) -> Option<Arc<Operation>> {
        if let Some(forgotten) = self.previous.take() {
            // The first end counts.
            forgotten.finish(Err(abandoned()));
        }
        self.running().cloned()
    }

    /// Follows an operation that ended before it became known. What the watches show stays.
    pub(super) fn follow_past(
        &mut self,
        operation: Arc<Operation>,
        key: Option<String>,
        has_failed: bool,
    ) {
        self.previous = self.replaced();
        self.operation = Some(operation);
        self.key = key;
        self.has_failed = has_failed;
        if let Some(state) = self.state.as_mut().filter(|_| has_failed) {
            state.status = LabStatus::Failed;
        }
        self.note_death();
    }

    /// While the store of the replicas is away, a spawn of another one may have succeeded.
    pub(super) fn observe_unowned(&mut self, seen: Seen) {
        let is_unowned = |operation: &Arc<Operation>| {
            operation.kind == OperationKind::Spawn && operation.lock().is_none()
        };
        let is_running = matches!(
            seen,
            Seen::Present {
                status: LabStatus::Running,
                ..
            }
        );
        if is_running
            && self.running().is_some_and(is_unowned)
            && let Some(state) = &mut self.state
        {
            state.status = LabStatus::Running;
            state.has_pod = true;
        }
    }

    /// Goes on with the spawn of another process.
    pub(super) fn resume_spawn(&mut self, number: u64) -> Option<Arc<Operation>> {
        if !self.is_unfinished() {
            return None;
        }
        let operation = Operation::new(OperationKind::Spawn, number);
        self.operation = Some(operation.clone());
        Some(operation)
    }

    /// Starts a deletion, or joins the one that runs. `is_found`: the cluster has the namespace.
    ///
    /// # Errors
    /// [`LabError::UnknownUser`] if there is nothing to delete.
    pub(super) fn begin_delete(
        &mut self,
        username: &str,
        is_found: bool,
        number: u64,
    ) -> Result<DeleteStart, LabError> {
        if let Some(joined) = self.check_delete(username, is_found)? {
            return Ok(DeleteStart::Joined(joined));
        }
        let cancelled = self.running().cloned();
        if let Some(spawn) = &cancelled {
            spawn.cancel.cancel();
        }
        let operation = Operation::new(OperationKind::Delete, number);
        self.set_delete(operation.clone());
        Ok(DeleteStart::Started {
            operation,
            cancelled,
        })
    }

    /// The deletion that runs; `None` if one may begin.
    ///
    /// # Errors
    /// [`LabError::UnknownUser`] if there is nothing to delete.
    pub(super) fn check_delete(
        &self,
        username: &str,
        is_found: bool,
    ) -> Result<Option<Arc<Operation>>, LabError> {
        let running = self.running();
        let deletion = running.filter(|running| running.kind == OperationKind::Delete);
        if deletion.is_none() && self.state.is_none() && !is_found {
            return Err(LabError::unknown_user(username));
        }
        Ok(deletion.cloned())
    }

    fn set_delete(&mut self, operation: Arc<Operation>) {
        self.operation = Some(operation);
        self.key = None;
        self.dead_since = None;
        if let Some(state) = &mut self.state {
            state.status = LabStatus::Terminating;
        }
    }

    /// The end of an operation, unless another one has begun.
    pub(super) fn end(&mut self, operation: &Arc<Operation>, status: LabStatus, has_pod: bool) {
        if !self.is_current(operation) {
            return;
        }
        self.has_failed = status == LabStatus::Failed;
        if let Some(state) = &mut self.state {
            state.status = status;
            state.has_pod = has_pod;
        }
        self.note_death();
    }

    /// The lab is deleted. Its last events stay.
    pub(super) fn end_deleted(&mut self, operation: &Arc<Operation>) {
        if self.is_current(operation) {
            *self = LabRecord {
                operation: Some(operation.clone()),
                ..LabRecord::default()
            };
        }
    }

    /// Another process goes on with the operation. All that is known is in the cluster.
    pub(super) fn abandon(&mut self, operation: &Arc<Operation>) {
        if self.is_current(operation) {
            *self = LabRecord::default();
        }
    }

    /// Follows the watches.
    pub(super) fn observe(&mut self, seen: Seen) {
        self.is_namespace_seen |= seen != Seen::Gone;
        if self.running().is_some() {
            // Of the lab that is replaced.
            self.is_namespace_seen &= seen != Seen::Gone;
            return;
        }
        let Some(state) = &mut self.state else {
            return;
        };
        match seen {
            // The watch of namespaces may be behind that of pods.
            Seen::Gone if !self.is_namespace_seen => {}
            Seen::Gone => *self = LabRecord::default(),
            Seen::Present { status, has_pod } => {
                state.has_pod = has_pod;
                if !self.has_failed || status == LabStatus::Terminating {
                    state.status = status;
                }
            }
        }
        self.note_death();
    }

    /// The namespace is deleted, and the watch shows that. Another one may be made.
    pub(super) fn forget_namespace(&mut self) {
        self.is_namespace_seen = false;
    }

    /// Whether there is something to delete without a request: a lab that is dead for this time,
    /// or a namespace without a lab.
    pub(super) fn is_left_over(&self, has_namespace: bool, interval: Duration) -> bool {
        if self.running().is_some() {
            return false;
        }
        match self.state {
            Some(_) => self
                .dead_since
                .is_some_and(|since| since.elapsed() >= interval),
            None => has_namespace,
        }
    }

    /// Takes over what the objects say, if the state does not come from a request.
    pub(super) fn rebuild(&mut self, mut state: LabState) {
        if self.has_failed && state.status != LabStatus::Terminating {
            state.status = LabStatus::Failed;
        }
        if self.running().is_none() && (self.state.is_none() || self.is_rebuilt) {
            self.state = Some(state);
            self.is_rebuilt = true;
            self.is_namespace_seen = true;
        }
    }

    /// Whether a spawn of an earlier process may have to go on.
    pub(super) fn is_unfinished(&self) -> bool {
        let is_pending = |state: &LabState| state.status == LabStatus::Pending;
        let is_pending = self.state.as_ref().is_some_and(is_pending);
        is_pending && self.running().is_none() && !self.has_failed
    }

    /// Whether the pod or the namespace ends although no operation runs: an earlier process may
    /// have begun a deletion.
    pub(super) fn is_ending(&self) -> bool {
        let status = self.state.as_ref().map(|state| state.status);
        self.running().is_none() && status == Some(LabStatus::Terminating)
    }

    /// Whether the state comes from a request.
    pub(super) fn is_requested(&self) -> bool {
        self.state.is_some() && !self.is_rebuilt
    }

    fn is_current(&self, operation: &Arc<Operation>) -> bool {
        let current = self.operation.as_ref();
        current.is_some_and(|current| Arc::ptr_eq(current, operation))
    }

    fn note_death(&mut self) {
        let is_dead = self.state.as_ref().is_some_and(|lab| lab.status.is_dead());
        self.dead_since = match (is_dead, self.dead_since) {
            (true, None) => Some(Instant::now()),
            (true, since) => since,
            (false, _) => None,
        };
    }
}

#[cfg(test)]
mod tests;
