//! Following the operations of other replicas.

use std::{sync::Arc, time::Duration};

use ludgate_ops::redis::StoreError;
use tokio::time::timeout;

use super::Replica;
use crate::{
    service::{
        lab::Lab,
        lab_service::LabService,
        operation::{Operation, OperationKind, abandoned},
        operation_end::{LabEnd, OperationEnd},
        operation_request::{OperationRequest, StoredPlan},
        operation_store::{Begun, NewOperation, stored_operation::StoredOperation},
        stores::phase,
    },
    state::LabStatus,
    user::check_username,
};

/// How long a read waits for the store and for other tasks with this lab.
const READ_DEADLINE: Duration = Duration::from_secs(2);

impl LabService {
    /// Takes over what other replicas have begun with a lab, as far as that can be found out now.
    pub async fn refresh(&self, username: &str) {
        if self.0.replica.is_some() && check_username(username).is_ok() {
            let lab = self.lab(username);
            // Without the store, the watches have the rest.
            let _ = timeout(READ_DEADLINE, self.synchronize(&lab)).await;
        }
    }

    /// Whether replicas share operations, and their store cannot be reached.
    pub(in crate::service) fn is_store_away(&self) -> bool {
        let replica = self.0.replica.as_ref();
        replica.is_some_and(|replica| !replica.store.is_up())
    }

    /// Takes over what the store has of a lab.
    pub(in crate::service) async fn synchronize(&self, lab: &Arc<Lab>) -> Result<(), StoreError> {
        let Some(replica) = &self.0.replica else {
            return Ok(());
        };
        let _turn = lab.turn.lock().await;
        self.refresh_lab(replica, lab).await?;
        Ok(())
    }

    /// The same, for a caller that has the turn of the lab. Returns what the store has.
    pub(super) async fn refresh_lab(
        &self,
        replica: &Replica,
        lab: &Arc<Lab>,
    ) -> Result<Option<StoredOperation>, StoreError> {
        let stored = replica.store.load(&lab.username).await?;
        match &stored {
            Some(stored) => {
                self.follow_operation(replica, lab, stored).await?;
                self.follow_previous(replica, lab, stored).await?;
            }
            None => self.follow_nothing(replica, lab).await?,
        }
        Ok(stored)
    }

    /// The operation of a person that has just become known.
    pub(super) fn adopt(
        &self,
        lab: &Lab,
        kind: OperationKind,
        number: u64,
        request: OperationRequest,
    ) -> Arc<Operation> {
        let state = request.plan.as_ref().map(StoredPlan::state);
        let operation = Operation::shared(kind, number, request);
        lab.record().follow(operation.clone(), state);
        operation
    }

    async fn follow_operation(
        &self,
        replica: &Replica,
        lab: &Arc<Lab>,
        stored: &StoredOperation,
    ) -> Result<(), StoreError> {
        let known = lab.record().operation.clone();
        let operation = match known.filter(|known| known.number == stored.number) {
            Some(known) => known,
            None if stored.is_open => {
                self.adopt(lab, stored.kind, stored.number, stored.request.clone())
            }
            None => return self.follow_past(replica, lab, stored).await,
        };
        if let Some(lock) = operation.lock() {
            if stored.is_open && lock.token != stored.owner {
                lock.set_lost();
            }
            return Ok(());
        }
        operation.set_pod(stored.request.pod.clone());
        if !operation.is_running() {
            return Ok(());
        }
        let from = operation.log.committed();
        let events = replica
            .store
            .events(&lab.username, stored.number, from)
            .await?;
        if stored.is_open {
            operation.log.extend(from, events);
            return Ok(());
        }
        let end = end_of(stored);
        lab.finish(&operation, None, end.result(), |record| {
            self.apply_end(&operation, record, end.lab);
            // Listeners that see the last event see what it changed.
            operation.log.extend(from, events);
        });
        if end.lab != LabEnd::Running || !self.is_pod_behind(lab) {
            // What the watches have shown in the meantime.
            self.observe(lab);
        }
        Ok(())
    }

    /// Whether the watch of pods is behind that of the replica which has seen the pod run.
    fn is_pod_behind(&self, lab: &Lab) -> bool {
        let pod = self.found(lab).pod;
        let phase = pod.as_deref().and_then(phase);
        phase.is_none_or(|phase| phase == "Pending")
    }

    /// An operation that ended before this process knew of it. The watches know the lab better.
    async fn follow_past(
        &self,
        replica: &Replica,
        lab: &Arc<Lab>,
        stored: &StoredOperation,
    ) -> Result<(), StoreError> {
        let events = replica.store.events(&lab.username, stored.number, 0);
        let events = events.await?;
        let end = end_of(stored);
        let has_failed = matches!(
            end.lab,
            LabEnd::Stopped {
                status: LabStatus::Failed,
                ..
            }
        );
        let operation = Operation::shared(stored.kind, stored.number, stored.request.clone());
        operation.log.extend(0, events);
        operation.finish(end.result());
        let key = stored.request.key.clone();
        let mut record = lab.record();
        record.follow_past(operation, key, has_failed);
        self.observe_record(lab, &mut record);
        Ok(())
    }

    /// The last events of a spawn that a deletion cancels.
    async fn follow_previous(
        &self,
        replica: &Replica,
        lab: &Arc<Lab>,
        stored: &StoredOperation,
    ) -> Result<(), StoreError> {
        let Some(previous) = lab.record().previous.clone() else {
            return Ok(());
        };
        if previous.lock().is_some() {
            return Ok(());
        }
        if previous.is_running() {
            let from = previous.log.committed();
            let events = replica.store.events(&lab.username, previous.number, from);
            previous.log.extend(from, events.await?);
        }
        if previous.log.is_over() {
            previous.finish(Ok(()));
        } else if !stored.owner.is_empty() || !stored.is_open {
            // The next operation has its lock, so no more events come.
            previous.finish(Err(abandoned()));
        }
        if !previous.is_running() {
            lab.record().previous = None;
        }
        Ok(())
    }

    /// The store has no operation. If one runs, the store has lost it.
    async fn follow_nothing(&self, replica: &Replica, lab: &Arc<Lab>) -> Result<(), StoreError> {
        let running = lab.record().running().cloned();
        let Some(operation) = running else {
            return Ok(());
        };
        if let Some(lock) = operation.lock() {
            // It is restored when its work has stopped.
            lock.set_lost();
            return Ok(());
        }
        let request = operation.request();
        let is_known = request.plan.is_some() || request.pod.is_some();
        if operation.kind == OperationKind::Spawn && !is_known {
            lab.finish(&operation, None, Err(abandoned()), |record| {
                record.abandon(&operation);
                self.observe_record(lab, record);
            });
            return Ok(());
        }
        let lost = NewOperation {
            number: operation.number,
            kind: operation.kind,
            request,
        };
        let Begun::Held(lock) = replica.store.begin(&lab.username, "", &lost).await? else {
            return Ok(());
        };
        tracing::warn!(user = lab.username, "an operation was lost by the store");
        let events = operation.log.events();
        if replica.store.append(&lock, 0, &events).await? {
            operation.log.inherit();
            self.own(lab, &operation, lock);
            replica.store.announce(&lab.username).await;
        }
        Ok(())
    }
}

fn end_of(stored: &StoredOperation) -> OperationEnd {
    let unread = || OperationEnd::new(LabEnd::Cancelled, None);
    stored.end.clone().unwrap_or_else(unread)
}
