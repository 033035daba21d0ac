//! Replicas that share operations in Redis: each one answers all requests, and each one may have
//! operations.
//!
//! An operation begins with its entry in the store, which also takes the lock of the person. The
//! owner of the lock runs it, and stops when it can not renew the lock in time. The other replicas
//! follow the entry and its events. An open operation without a lock is taken over.

mod following;
mod owning;
mod requests;
mod takeover;
mod tidying;

use std::{
    collections::BTreeSet,
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{
    sync::{Notify, watch},
    time::timeout,
};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::operation_store::{OperationStore, OperationStoreSettings, StoreEvent};

/// Longest time to release locks when the process stops. Locks that are left lapse.
const STOP_DEADLINE: Duration = Duration::from_secs(3);

/// What this process needs to share operations with other replicas.
pub(super) struct Replica {
    pub(super) store: OperationStore,
    /// Cancelled when this process stops.
    stopping: CancellationToken,
    /// Operations that run here.
    owned: Arc<watch::Sender<usize>>,
    changes: Mutex<StoreChanges>,
    /// There are changes.
    changed: Notify,
    /// There is a new connection, for the leader.
    reconnected: Notify,
}

/// What has changed in the store.
#[derive(Debug, Default)]
struct StoreChanges {
    /// Whether all persons may have changed.
    all: bool,
    usernames: BTreeSet<String>,
}

/// An operation that runs here.
struct OwnedGuard(Arc<watch::Sender<usize>>);

impl Drop for OwnedGuard {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}

impl Replica {
    /// `scope` differs between lab controllers that use one Redis.
    pub(super) fn new(settings: OperationStoreSettings, scope: &str) -> Replica {
        Replica {
            store: OperationStore::new(settings, scope),
            stopping: CancellationToken::new(),
            owned: Arc::new(watch::Sender::new(0)),
            changes: Mutex::default(),
            changed: Notify::new(),
            reconnected: Notify::new(),
        }
    }

    /// Ends all operations here when it is dropped. Other replicas go on with them.
    pub(super) fn stop_guard(&self) -> DropGuard {
        self.stopping.clone().drop_guard()
    }

    /// Waits until no operation runs here.
    pub(super) async fn wait_until_idle(&self) {
        let mut owned = self.owned.subscribe();
        let idle = owned.wait_for(|count| *count == 0);
        if timeout(STOP_DEADLINE, idle).await.is_err() {
            tracing::warn!("locks of labs are left; they lapse");
        }
    }

    fn count_owned(&self) -> OwnedGuard {
        self.owned.send_modify(|count| *count += 1);
        OwnedGuard(self.owned.clone())
    }

    fn changes(&self) -> MutexGuard<'_, StoreChanges> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, event: StoreEvent) {
        match event {
            StoreEvent::Connected => {
                self.changes().all = true;
                self.reconnected.notify_one();
            }
            StoreEvent::Changed(username) => {
                self.changes().usernames.insert(username);
            }
        }
        self.changed.notify_one();
    }

    /// Waits for changes.
    async fn next_changes(&self) -> StoreChanges {
        self.changed.notified().await;
        mem::take(&mut *self.changes())
    }
}
