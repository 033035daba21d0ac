//! Deleting a lab: its pod, then its namespace with all the rest.

use std::sync::Arc;

use ludgate_cluster::writer::NamespacedName;
use tokio_util::sync::CancellationToken;

use super::{
    lab::Lab,
    lab_service::LabService,
    operation::Operation,
    operation_end::{LabEnd, OperationEnd},
    outcome::Stopped,
    retry::Limits,
    writes::LabWrites,
};
use crate::{events::LabEvent, state::LabStatus};

impl LabService {
    /// Runs a deletion in a task of its own, for as long as this process leads.
    pub(super) fn start_delete(
        &self,
        leading: CancellationToken,
        lab: Arc<Lab>,
        operation: Arc<Operation>,
        cancelled: Option<Arc<Operation>>,
    ) {
        let (service, lab_of, running) = (self.clone(), lab.clone(), operation.clone());
        let work = async move { service.run_delete(&lab_of, &running, cancelled).await };
        self.run_while_leading(leading, lab, operation, work);
    }

    /// Deletes a lab, when the spawn that it cancels has ended.
    pub(super) async fn run_delete(
        &self,
        lab: &Lab,
        operation: &Arc<Operation>,
        cancelled: Option<Arc<Operation>>,
    ) -> OperationEnd {
        if let Some(spawn) = cancelled {
            // Its last call may still make an object.
            let _ = spawn.ended().await;
        }
        let limits = self.limits(operation, self.lab_config().delete_timeout);
        let [begin, pod, namespace, done] = LabEvent::delete_steps(&lab.username);
        operation.log.push(begin);
        let deleted = self
            .delete_objects(lab, operation, &limits, [pod, namespace])
            .await;
        match deleted {
            Ok(()) => {
                tracing::info!(user = lab.username, "the lab is deleted");
                OperationEnd::new(LabEnd::Deleted, [done])
            }
            Err(stopped) => {
                let reason = stopped.text();
                tracing::warn!(user = lab.username, reason, "cannot delete the lab");
                let end = LabEnd::Stopped {
                    status: LabStatus::Failed,
                    has_pod: false,
                };
                let last = [LabEvent::error(reason.clone()), LabEvent::delete_failed()];
                OperationEnd {
                    failure: Some(reason),
                    ..OperationEnd::new(end, last)
                }
            }
        }
    }

    /// Deletes pod and namespace, each with its event before. A namespace that is not of this lab
    /// is left alone.
    pub(super) async fn delete_objects(
        &self,
        lab: &Lab,
        operation: &Operation,
        limits: &Limits,
        steps: [LabEvent; 2],
    ) -> Result<(), Stopped> {
        let names = self.names(&lab.username);
        let writes = LabWrites {
            writer: &self.0.writer,
            stores: &self.0.stores,
            lab,
            limits,
        };
        let found = writes.own_namespace(&names.namespace).await?;
        let [pod, namespace] = steps;
        operation.log.push(pod);
        if found.is_some() {
            let name = NamespacedName {
                namespace: &names.namespace,
                name: &names.lab,
            };
            writes.delete_pod(name).await?;
        }
        operation.log.push(namespace);
        if let Some(found) = found {
            writes.delete_namespace(&names.namespace, &found).await?;
        }
        Ok(())
    }
}
