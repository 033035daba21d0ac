//! Listeners of an operation: first what has happened, then what happens.

use std::{
    collections::VecDeque,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use futures_util::{
    Stream, StreamExt,
    stream::{self, BoxStream},
};
use tokio::sync::{OwnedSemaphorePermit, watch};

use super::{operation::Operation, operation_log::LogPosition};
use crate::events::{EventId, LabEvent};

/// The events of an operation. It ends when no more come; after the last event, or without one if
/// the process no longer leads.
pub struct LabEventStream(BoxStream<'static, (EventId, LabEvent)>);

impl Stream for LabEventStream {
    type Item = (EventId, LabEvent);

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_next_unpin(context)
    }
}

struct Listener {
    operation: Arc<Operation>,
    position: watch::Receiver<LogPosition>,
    last: Option<EventId>,
    read: VecDeque<(EventId, LabEvent)>,
    /// One of the listeners that a lab may have.
    _permit: Option<OwnedSemaphorePermit>,
}

impl LabEventStream {
    /// The events after one that the listener has.
    pub(super) fn new(
        operation: Arc<Operation>,
        last: Option<EventId>,
        permit: Option<OwnedSemaphorePermit>,
    ) -> LabEventStream {
        let listener = Listener {
            position: operation.log.subscribe(),
            operation,
            last,
            read: VecDeque::new(),
            _permit: permit,
        };
        let events = stream::unfold(listener, |mut listener| async move {
            let event = listener.next().await?;
            Some((event, listener))
        });
        LabEventStream(events.boxed())
    }
}

impl Listener {
    async fn next(&mut self) -> Option<(EventId, LabEvent)> {
        loop {
            if let Some((id, event)) = self.read.pop_front() {
                self.last = Some(id);
                return Some((id, event));
            }
            // Before reading, so that an event in between is seen the next time.
            let is_closed = self.position.borrow_and_update().is_closed;
            self.read.extend(self.operation.log.after(self.last));
            if self.read.is_empty() && (is_closed || self.position.changed().await.is_err()) {
                return None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{dialect::Dialect, service::operation::OperationKind};

    fn started() -> Arc<Operation> {
        let operation = Operation::new(OperationKind::Spawn, 7);
        let event = LabEvent::spawn_started("rachel", Dialect::Nublado);
        operation.log.push(event);
        operation
    }

    #[tokio::test]
    async fn each_listener_gets_all_events_whenever_it_comes() {
        let operation = started();
        let early = LabEventStream::new(operation.clone(), None, None);
        let early = tokio::spawn(early.collect::<Vec<_>>());
        tokio::task::yield_now().await;
        operation.log.push(LabEvent::objects_created());
        let later = LabEventStream::new(operation.clone(), None, None);
        let done = LabEvent::spawn_complete("rachel", Dialect::Nublado);
        operation.log.push(done);
        let last = LabEventStream::new(operation.clone(), None, None);
        let early = early.await.expect("no panic");
        assert_eq!(early.len(), 3);
        assert_eq!(early, later.collect::<Vec<_>>().await);
        assert_eq!(early, last.collect::<Vec<_>>().await);
    }

    #[tokio::test]
    async fn a_listener_that_comes_back_goes_on_after_its_last_event() {
        let operation = started();
        operation.log.push(LabEvent::objects_created());
        let mut first = LabEventStream::new(operation.clone(), None, None);
        let (id, _) = first.next().await.expect("an event");
        drop(first);
        operation.log.push(LabEvent::spawn_failed());
        let again = LabEventStream::new(operation, Some(id), None);
        let messages: Vec<String> = again.map(|(_, event)| event.message).collect().await;
        assert_eq!(
            messages,
            [
                "Created Kubernetes objects for user lab",
                "Lab spawn failed"
            ]
        );
    }

    #[tokio::test]
    async fn a_stream_ends_when_the_operation_is_taken_over() {
        let operation = started();
        let events = LabEventStream::new(operation.clone(), None, None);
        operation.finish(Ok(()));
        assert_eq!(events.count().await, 1);
    }
}
