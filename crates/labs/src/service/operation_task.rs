//! Operations run while this process leads.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::{
    lab::{Lab, LabRecord},
    lab_service::LabService,
    operation::{EndGuard, Operation, abandoned},
    operation_end::{LabEnd, OperationEnd},
};
use crate::{options::SERVICE_PREFIX, state::LabStatus};

impl LabService {
    /// Runs the work of an operation in a task of its own, for as long as this process leads.
    pub(super) fn run_while_leading(
        &self,
        leading: CancellationToken,
        lab: Arc<Lab>,
        operation: Arc<Operation>,
        work: impl Future<Output = OperationEnd> + Send + 'static,
    ) {
        let service = self.clone();
        tokio::spawn(async move {
            let _end = EndGuard::new(&operation);
            tokio::select! {
                biased;
                () = leading.cancelled() => {
                    lab.finish(&operation, None, Err(abandoned()), |record| {
                        record.abandon(&operation);
                        // At once: a reader in between would find no lab.
                        service.observe_record(&lab, record);
                    });
                }
                end = work => service.finish(&lab, &operation, &end),
            }
            // What the watches have shown in the meantime.
            service.observe(&lab);
        });
    }

    /// Ends an operation: all who see its last event, or its end, see what it changed.
    fn finish(&self, lab: &Lab, operation: &Arc<Operation>, end: &OperationEnd) {
        let events = end.events.clone();
        lab.finish(operation, events, end.result(), |record| {
            self.apply_end(operation, record, end.lab);
        });
    }

    /// Takes over what became of a lab.
    pub(super) fn apply_end(
        &self,
        operation: &Arc<Operation>,
        record: &mut LabRecord,
        end: LabEnd,
    ) {
        match end {
            LabEnd::Running => {
                // The hub asks for it as soon as it has seen the last event.
                self.set_internal_url(record);
                record.end(operation, LabStatus::Running, true);
            }
            LabEnd::Stopped { status, has_pod } => record.end(operation, status, has_pod),
            LabEnd::Deleted => record.end_deleted(operation),
            LabEnd::Cancelled => {}
        }
    }

    fn set_internal_url(&self, record: &mut LabRecord) {
        if let Some(state) = &mut record.state {
            let names = self.names(&state.user.username);
            let prefix = state.env.get(SERVICE_PREFIX).map_or("", String::as_str);
            state.internal_url = Some(names.internal_url(prefix));
            self.mark_provisioned(&state.user.username);
        }
    }
}
