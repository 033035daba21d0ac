//! What one replica does for all, while it has the Lease: dead labs are deleted, and what no
//! operation of the store explains goes on or is deleted.

use std::{sync::Arc, time::Duration};

use kube::ResourceExt;
use ludgate_cluster::writer::NamespacedName;
use ludgate_ops::redis::StoreError;
use tokio::time::sleep;

use super::Replica;
use crate::{
    service::{
        lab::Lab,
        lab_service::LabService,
        operation::OperationKind,
        operation_request::OperationRequest,
        stores::{FoundLab, is_ending},
        writes::pods,
    },
    user::check_username,
};

/// Pause until the store is looked at again.
const STORE_PAUSE: Duration = Duration::from_secs(1);

impl LabService {
    /// Works as the leader of replicas that share operations, until it is dropped.
    pub(in crate::service) async fn lead_replicas(&self, replica: &Replica) {
        self.wait_until_ready().await;
        loop {
            if !replica.store.is_ready() {
                sleep(STORE_PAUSE).await;
                continue;
            }
            self.tidy_all(replica).await;
            tokio::select! {
                () = sleep(self.reconcile_interval()) => {}
                () = replica.reconnected.notified() => {}
            }
        }
    }

    async fn tidy_all(&self, replica: &Replica) {
        for username in self.usernames() {
            if check_username(&username).is_err() {
                continue;
            }
            if self.tidy(replica, &self.lab(&username)).await.is_err() {
                // It is done after the next connection.
                return;
            }
        }
        self.forget_gone();
    }

    async fn tidy(&self, replica: &Replica, lab: &Arc<Lab>) -> Result<(), StoreError> {
        let _turn = lab.turn.lock().await;
        let before = self.refresh_lab(replica, lab).await?;
        let found = self.found(lab);
        let Some(kind) = self.due(lab, &found) else {
            return Ok(());
        };
        let is_orphan = lab.record().state.is_none();
        if kind == OperationKind::Delete && is_orphan && self.may_have_pod(lab).await {
            return Ok(());
        }
        let pod = match kind {
            OperationKind::Spawn => found.pod.as_ref().and_then(|pod| pod.uid()),
            OperationKind::Delete => None,
        };
        tracing::info!(user = lab.username, operation = ?kind, "tidying up a lab");
        let request = OperationRequest {
            pod,
            ..OperationRequest::default()
        };
        let begun = self.begin_shared(replica, lab, before.as_ref(), kind, request);
        begun.await.map(|_| ())
    }

    /// What must be done with a lab that has no operation.
    fn due(&self, lab: &Lab, found: &FoundLab) -> Option<OperationKind> {
        let namespace = found.namespace.as_ref();
        let is_ending = namespace.is_some_and(|namespace| is_ending(namespace));
        let record = lab.record();
        if record.running().is_some() {
            return None;
        }
        let is_left_over = record.is_left_over(namespace.is_some(), self.reconcile_interval());
        if is_ending || record.is_ending() || is_left_over {
            return Some(OperationKind::Delete);
        }
        let is_unfinished = record.is_unfinished() && found.pod.is_some();
        is_unfinished.then_some(OperationKind::Spawn)
    }

    /// Whether there may be a pod that the watch has not shown yet: another replica may have made
    /// it just now.
    async fn may_have_pod(&self, lab: &Lab) -> bool {
        let names = self.names(&lab.username);
        let name = NamespacedName {
            namespace: &names.namespace,
            name: &names.lab,
        };
        !matches!(self.0.writer.get(&pods(), name).await, Ok(None))
    }
}
