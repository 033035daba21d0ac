//! Looking for operations without an owner, and taking them over.

use std::{collections::BTreeSet, future, sync::Arc, time::Duration};

use ludgate_ops::redis::StoreError;
use tokio::time::{MissedTickBehavior, interval, sleep};

use super::Replica;
use crate::{
    service::{
        lab::Lab,
        lab_service::LabService,
        operation::Operation,
        operation_store::{Claimed, held_lock::HeldLock},
    },
    user::check_username,
};

/// The interval of looks at open operations. With the time after which a lock lapses, and the work
/// of a replica, an operation goes on within 15 s.
const LOOK_INTERVAL: Duration = Duration::from_secs(2);
/// Pause between attempts to get a lock that its owner is about to release.
const CLAIM_PAUSE: Duration = Duration::from_millis(250);

/// The owner of the last operation of a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    /// No operation is open.
    None,
    /// The operation waits for the lock, which an earlier one has.
    Waiting,
    /// A replica runs it.
    Replica,
}

impl LabService {
    /// Shares operations with other replicas, as long as it is polled. Without a store it never
    /// ends.
    pub(in crate::service) async fn share(&self) {
        let Some(replica) = &self.0.replica else {
            return future::pending().await;
        };
        tokio::join!(
            replica.store.run(|event| replica.note(event)),
            self.follow_changes(replica),
            self.take_over(replica),
        );
    }

    async fn follow_changes(&self, replica: &Replica) {
        self.wait_until_ready().await;
        for lab in self.labs() {
            if lab.record().state.is_some() {
                self.mark_provisioned(&lab.username);
            }
        }
        loop {
            let mut changes = replica.next_changes().await;
            if changes.all {
                changes.usernames.extend(self.usernames());
                // What cannot be read now is found by the looks, or after the next connection.
                let _ = replica.store.settle().await;
            }
            for username in changes.usernames {
                self.refresh(&username).await;
            }
        }
    }

    async fn take_over(&self, replica: &Replica) {
        self.wait_until_ready().await;
        let mut looks = interval(LOOK_INTERVAL);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            looks.tick().await;
            if replica.store.settle().await.is_ok() {
                // The next look finds what this one does not.
                let _ = self.look_at_open(replica).await;
            }
            self.forget_gone();
        }
    }

    async fn look_at_open(&self, replica: &Replica) -> Result<(), StoreError> {
        let mut usernames: BTreeSet<String> = replica.store.open().await?.into_iter().collect();
        // Of these an end may have been missed.
        let running = |lab: &Arc<Lab>| lab.record().running().is_some();
        let followed = self.labs().into_iter().filter(running);
        usernames.extend(followed.map(|lab| lab.username.clone()));
        for username in usernames {
            if check_username(&username).is_ok() {
                self.look_at(replica, &self.lab(&username)).await?;
            }
        }
        Ok(())
    }

    async fn look_at(&self, replica: &Replica, lab: &Arc<Lab>) -> Result<(), StoreError> {
        let running = lab.record().running().cloned();
        if running.is_some_and(|running| running.lock().is_some()) {
            return Ok(());
        }
        if self.claim(replica, lab).await? == Owner::None {
            replica.store.remove_open(&lab.username).await;
        }
        Ok(())
    }

    /// Takes the operation of a person over, if it is open and has no owner.
    async fn claim(&self, replica: &Replica, lab: &Arc<Lab>) -> Result<Owner, StoreError> {
        let _turn = lab.turn.lock().await;
        if replica.stopping.is_cancelled() {
            return Ok(Owner::Replica);
        }
        let (token, began) = match replica.store.claim(&lab.username).await? {
            Claimed::Nothing => {
                self.refresh_lab(replica, lab).await?;
                return Ok(Owner::None);
            }
            Claimed::HeldElsewhere => {
                let stored = self.refresh_lab(replica, lab).await?;
                let is_waiting = stored.is_some_and(|stored| stored.owner.is_empty());
                return Ok(if is_waiting {
                    Owner::Waiting
                } else {
                    Owner::Replica
                });
            }
            Claimed::Held(token, began) => (token, began),
        };
        let stored = self.refresh_lab(replica, lab).await;
        let operation = lab.record().running().cloned();
        let number = operation.as_ref().map_or(0, |operation| operation.number);
        let lock = HeldLock::new(&lab.username, number, token, began);
        let is_own = matches!(&stored, Ok(Some(stored)) if stored.owner == lock.token);
        match operation.filter(|_| is_own) {
            Some(operation) => {
                tracing::info!(user = lab.username, "going on with an operation");
                operation.log.inherit();
                self.own(lab, &operation, lock);
                replica.store.announce(&lab.username).await;
            }
            None => replica.store.release(&lock).await,
        }
        stored.map(|_| Owner::Replica)
    }

    /// Runs an operation when the owner of the lock has released it, unless another replica does.
    pub(super) fn claim_when_free(&self, lab: &Arc<Lab>, operation: &Arc<Operation>) {
        let (service, lab, operation) = (self.clone(), lab.clone(), operation.clone());
        tokio::spawn(async move {
            let Some(replica) = &service.0.replica else {
                return;
            };
            while operation.is_running() && operation.lock().is_none() {
                sleep(CLAIM_PAUSE).await;
                // If the store is away, the looks find the operation later.
                if !matches!(service.claim(replica, &lab).await, Ok(Owner::Waiting)) {
                    return;
                }
            }
        });
    }
}
