//! One operation on a lab: its events, how it is cancelled, and how it ended.

use std::{
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
};

use futures_util::{FutureExt, future::BoxFuture};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{
    operation_log::OperationLog, operation_request::OperationRequest,
    operation_store::held_lock::HeldLock,
};
use crate::error::LabError;

/// What an operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OperationKind {
    /// It starts a lab.
    Spawn,
    /// It deletes one.
    Delete,
}

impl OperationKind {
    /// The word for it in the store of the replicas.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            OperationKind::Spawn => "spawn",
            OperationKind::Delete => "delete",
        }
    }

    /// Reads the word.
    pub(super) fn parse(text: &str) -> Option<OperationKind> {
        let kinds = [OperationKind::Spawn, OperationKind::Delete];
        kinds.into_iter().find(|kind| kind.as_str() == text)
    }
}

/// One operation on a lab.
#[derive(Debug)]
pub(super) struct Operation {
    pub(super) kind: OperationKind,
    /// It differs between two operations on one lab.
    pub(super) number: u64,
    pub(super) log: OperationLog,
    /// Ends it before its time.
    pub(super) cancel: CancellationToken,
    end: watch::Sender<Option<Result<(), LabError>>>,
    /// What replicas share of it.
    shared: Option<Mutex<SharedPart>>,
}

/// What an operation has if replicas share it.
#[derive(Debug)]
struct SharedPart {
    request: OperationRequest,
    /// The lock, while the operation runs in this process.
    lock: Option<Arc<HeldLock>>,
}

impl Operation {
    /// One of this process alone.
    pub(super) fn new(kind: OperationKind, number: u64) -> Arc<Operation> {
        Operation::with(kind, number, None)
    }

    /// One that replicas share. One of them runs it, and the others follow.
    pub(super) fn shared(
        kind: OperationKind,
        number: u64,
        request: OperationRequest,
    ) -> Arc<Operation> {
        let lock = None;
        Operation::with(kind, number, Some(SharedPart { request, lock }))
    }

    fn with(kind: OperationKind, number: u64, shared: Option<SharedPart>) -> Arc<Operation> {
        Arc::new(Operation {
            kind,
            number,
            log: OperationLog::new(number, shared.is_none()),
            cancel: CancellationToken::new(),
            end: watch::Sender::new(None),
            shared: shared.map(Mutex::new),
        })
    }

    fn shared_part(&self) -> Option<MutexGuard<'_, SharedPart>> {
        let part = self.shared.as_ref()?;
        Some(part.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// What it is to do.
    pub(super) fn request(&self) -> OperationRequest {
        let part = self.shared_part();
        part.map_or_else(OperationRequest::default, |part| part.request.clone())
    }

    /// Its pod is made.
    pub(super) fn set_pod(&self, uid: Option<String>) {
        if let Some(mut part) = self.shared_part()
            && uid.is_some()
        {
            part.request.pod = uid;
        }
    }

    /// The lock under which this process runs it.
    pub(super) fn lock(&self) -> Option<Arc<HeldLock>> {
        self.shared_part()?.lock.clone()
    }

    /// This process runs it, or no longer does.
    pub(super) fn set_lock(&self, lock: Option<Arc<HeldLock>>) {
        if let Some(mut part) = self.shared_part() {
            part.lock = lock;
        }
    }

    /// Whether it goes on.
    pub(super) fn is_running(&self) -> bool {
        self.end.borrow().is_none()
    }

    /// It has ended. Listeners get no more events. The first end counts.
    pub(super) fn finish(&self, result: Result<(), LabError>) {
        self.log.close();
        if let Some(mut part) = self.shared_part() {
            // It holds tokens.
            part.request.plan = None;
        }
        self.end.send_if_modified(|end| {
            let is_first = end.is_none();
            if is_first {
                *end = Some(result);
            }
            is_first
        });
    }

    /// Waits for its end.
    pub(super) fn ended(&self) -> Deletion {
        let mut end = self.end.subscribe();
        let ended = async move {
            let ended = end.wait_for(Option::is_some).await;
            let result = ended.ok().and_then(|result| result.clone());
            result.unwrap_or_else(|| Err(abandoned()))
        };
        Deletion(ended.boxed())
    }
}

/// Another process goes on with it.
pub(super) fn abandoned() -> LabError {
    LabError::Unavailable("another instance of the lab controller has taken over".to_owned())
}

/// Ends an operation whose task ends without an end of it, such as in a panic. Else requests would
/// find it in progress for ever.
pub(super) struct EndGuard(Arc<Operation>);

impl EndGuard {
    pub(super) fn new(operation: &Arc<Operation>) -> EndGuard {
        EndGuard(operation.clone())
    }
}

impl Drop for EndGuard {
    fn drop(&mut self) {
        // The first end counts.
        self.0.finish(Err(abandoned()));
    }
}

/// The end of a deletion. It goes on without listeners too.
pub struct Deletion(BoxFuture<'static, Result<(), LabError>>);

impl Future for Deletion {
    type Output = Result<(), LabError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.poll_unpin(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn all_who_wait_for_the_end_get_the_same() {
        let operation = Operation::new(OperationKind::Delete, 1);
        let waiting = [operation.ended(), operation.ended()];
        assert!(operation.is_running());
        let failed = LabError::DeleteFailed("no".to_owned());
        operation.finish(Err(failed.clone()));
        for ended in waiting {
            assert_eq!(ended.await, Err(failed.clone()));
        }
        assert_eq!(operation.ended().await, Err(failed));
        assert!(!operation.is_running());
    }

    #[tokio::test]
    async fn an_operation_ends_with_its_task_if_it_has_not_ended_before() {
        for (before, expected) in [(None, Err(abandoned())), (Some(Ok(())), Ok(()))] {
            let operation = Operation::new(OperationKind::Spawn, 1);
            let guard = EndGuard::new(&operation);
            if let Some(result) = before {
                operation.finish(result);
            }
            drop(guard);
            assert_eq!(operation.ended().await, expected);
        }
    }

    #[tokio::test]
    async fn an_operation_that_is_gone_has_been_taken_over() {
        let operation = Operation::new(OperationKind::Delete, 1);
        let ended = operation.ended();
        drop(operation);
        assert_eq!(ended.await, Err(abandoned()));
    }
}
