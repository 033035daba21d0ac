//! Running operations under a lock.

use std::{pin::pin, sync::Arc, time::Duration};

use ludgate_ops::redis::StoreError;
use tokio::time::{sleep, timeout_at};
use tokio_util::sync::CancellationToken;

use super::Replica;
use crate::{
    events::LabEvent,
    service::{
        lab::Lab,
        lab_service::LabService,
        operation::{Operation, OperationKind},
        operation_end::OperationEnd,
        operation_store::{OperationStore, Renewal, held_lock::HeldLock},
        spawn_plan::SpawnWork,
    },
};

/// A lock is renewed after this time.
const RENEWED_AFTER: Duration = Duration::from_secs(3);
/// Pause after a command that failed.
const RETRY_PAUSE: Duration = Duration::from_millis(300);

/// This process no longer runs an operation, also if its task panics.
struct OwnerGuard(Arc<Operation>);

impl Drop for OwnerGuard {
    fn drop(&mut self) {
        self.0.log.discard_uncommitted();
        self.0.set_lock(None);
    }
}

impl LabService {
    /// Runs an operation in a task of its own, for as long as this process has the lock.
    pub(super) fn own(&self, lab: &Arc<Lab>, operation: &Arc<Operation>, lock: HeldLock) {
        let Some(replica) = &self.0.replica else {
            return;
        };
        let lock = Arc::new(lock);
        operation.set_lock(Some(lock.clone()));
        let counted = replica.count_owned();
        let (service, lab, operation) = (self.clone(), lab.clone(), operation.clone());
        tokio::spawn(async move {
            let _counted = counted;
            if let Some(replica) = &service.0.replica {
                service.run_owned(replica, &lab, &operation, &lock).await;
            }
        });
    }

    async fn run_owned(
        &self,
        replica: &Replica,
        lab: &Arc<Lab>,
        operation: &Arc<Operation>,
        lock: &HeldLock,
    ) {
        let owner = OwnerGuard(operation.clone());
        let mut kept = pin!(keep(&replica.store, lock, &operation.cancel));
        let end = tokio::select! {
            // Without the lock, no step of the work may follow.
            biased;
            () = replica.stopping.cancelled() => None,
            () = &mut kept => None,
            () = store_events(&replica.store, operation, lock) => None,
            end = self.run_operation(lab, operation) => Some(end),
        };
        let has_ended = match end {
            Some(end) => tokio::select! {
                biased;
                () = &mut kept => false,
                has_ended = self.end_owned(replica, lab, operation, lock, &end) => has_ended,
            },
            None => false,
        };
        drop(owner);
        if !has_ended {
            tracing::info!(user = lab.username, "another replica goes on with the lab");
            replica.store.release(lock).await;
        }
        replica.store.announce(&lab.username).await;
        // What the watches and other replicas have shown in the meantime.
        self.observe(lab);
        let _ = self.synchronize(lab).await;
    }

    /// Does what is left to do.
    async fn run_operation(&self, lab: &Lab, operation: &Arc<Operation>) -> OperationEnd {
        match operation.kind {
            OperationKind::Spawn => {
                let started = LabEvent::spawn_started(&lab.username, self.dialect());
                operation.log.push(started);
                let request = operation.request();
                let work = match (request.pod, request.plan) {
                    (None, Some(plan)) => SpawnWork::Make(Box::new(plan.to_plan())),
                    (pod, _) => SpawnWork::Await(pod),
                };
                self.run_spawn(lab, operation, work).await
            }
            OperationKind::Delete => self.run_delete(lab, operation, None).await,
        }
    }

    /// Stores the end, until that succeeds. Returns whether the lock was still held.
    async fn end_owned(
        &self,
        replica: &Replica,
        lab: &Lab,
        operation: &Arc<Operation>,
        lock: &HeldLock,
        end: &OperationEnd,
    ) -> bool {
        for event in &end.events {
            operation.log.push(event.clone());
        }
        loop {
            match store_end(&replica.store, operation, lock, end).await {
                Ok(true) => break,
                Ok(false) => return false,
                Err(_) => sleep(RETRY_PAUSE).await,
            }
        }
        lab.finish(operation, None, end.result(), |record| {
            self.apply_end(operation, record, end.lab);
            // Listeners that see the last event see what it changed.
            operation.log.commit(usize::MAX);
        });
        true
    }

    /// Notes the pod of a spawn for the next owner, which then does not make another one.
    pub(in crate::service) async fn share_pod(&self, operation: &Operation, uid: &str) {
        let (Some(replica), Some(lock)) = (&self.0.replica, operation.lock()) else {
            return;
        };
        operation.set_pod(Some(uid.to_owned()));
        loop {
            match replica.store.set_pod(&lock, uid).await {
                Ok(true) => return,
                Ok(false) => {
                    // The task ends at once.
                    lock.set_lost();
                    sleep(RETRY_PAUSE).await;
                }
                Err(_) => sleep(RETRY_PAUSE).await,
            }
        }
    }
}

/// Renews a lock until it is lost, or could not be renewed in time. `superseded` is cancelled if
/// another operation is to run.
async fn keep(store: &OperationStore, lock: &HeldLock, superseded: &CancellationToken) {
    let mut pause = RENEWED_AFTER;
    loop {
        let renewal = async {
            sleep(pause).await;
            store.renew(lock).await
        };
        let renewed = tokio::select! {
            biased;
            () = lock.lost() => return,
            renewed = timeout_at(lock.valid_until(), renewal) => renewed,
        };
        pause = match renewed {
            Ok(Ok(Renewal::Renewed)) => RENEWED_AFTER,
            Ok(Ok(Renewal::Superseded)) => {
                superseded.cancel();
                RENEWED_AFTER
            }
            Ok(Err(_)) => RETRY_PAUSE,
            Ok(Ok(Renewal::Lost)) => return,
            Err(_elapsed) => {
                let user = &lock.username;
                tracing::warn!(user, "the lock of a lab could not be renewed in time");
                return;
            }
        };
    }
}

/// Stores the events of an operation. Returns when the lock is lost.
async fn store_events(store: &OperationStore, operation: &Operation, lock: &HeldLock) {
    let mut pushed = operation.log.pushed();
    loop {
        pushed.borrow_and_update();
        let (from, events) = operation.log.uncommitted();
        if events.is_empty() {
            // The sender lives as long as the operation, which is borrowed here.
            let _ = pushed.changed().await;
            continue;
        }
        match store.append(lock, from, &events).await {
            Ok(true) => {
                operation.log.commit(from + events.len());
                store.announce(&lock.username).await;
            }
            Ok(false) => return,
            Err(_) => sleep(RETRY_PAUSE).await,
        }
    }
}

async fn store_end(
    store: &OperationStore,
    operation: &Operation,
    lock: &HeldLock,
    end: &OperationEnd,
) -> Result<bool, StoreError> {
    let (from, events) = operation.log.uncommitted();
    if !store.append(lock, from, &events).await? {
        return Ok(false);
    }
    store.end(lock, end).await
}
