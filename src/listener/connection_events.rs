//! What can happen to a connection besides its bytes.

use std::{
    future::poll_fn,
    pin::Pin,
    task::{Context, Poll},
};

use futures_util::stream::{FuturesUnordered, StreamExt};

use super::{
    settings::ListenerSettings,
    timeouts::{ConnectionActivity, Timeout},
};
use crate::{ops::drain::DrainWatcher, streams::Revocation};

/// Something besides bytes that happened to a connection.
pub(super) enum Event {
    /// Its request was revoked.
    Revoked,
    Timeout(Timeout),
    /// The process stops soon.
    Leaving,
    /// The process stops.
    Stopping,
}

/// The events that a connection waits for. `FuturesUnordered` polls only the futures that were
/// woken: most wake-ups are for bytes.
pub(super) struct ConnectionEvents<'c> {
    waiting: FuturesUnordered<Pin<Box<dyn Future<Output = Event> + 'c>>>,
    activity: &'c ConnectionActivity,
    settings: &'c ListenerSettings,
}

impl<'c> ConnectionEvents<'c> {
    /// Waits for the next timeout.
    pub(super) fn new(
        activity: &'c ConnectionActivity,
        settings: &'c ListenerSettings,
    ) -> ConnectionEvents<'c> {
        let events = ConnectionEvents {
            waiting: FuturesUnordered::new(),
            activity,
            settings,
        };
        events.wait_for_timeout();
        events
    }

    /// Waits for the timeout after the one that came.
    pub(super) fn wait_for_timeout(&self) {
        let (activity, timeouts) = (self.activity, &self.settings.timeouts);
        let expired = async move { Event::Timeout(activity.expired(timeouts).await) };
        self.waiting.push(Box::pin(expired));
    }

    /// Waits until the process stops soon.
    pub(super) fn wait_for_leaving(&self, mut drain: DrainWatcher) {
        self.waiting.push(Box::pin(async move {
            drain.leaving().await;
            Event::Leaving
        }));
    }

    /// Waits until the process stops.
    pub(super) fn wait_for_stopping(&self, mut drain: DrainWatcher) {
        self.waiting.push(Box::pin(async move {
            drain.stopping().await;
            Event::Stopping
        }));
    }

    /// Waits until the request is revoked.
    pub(super) fn wait_for_revocation(&self, revocation: &'c Revocation) {
        self.waiting.push(Box::pin(async {
            revocation.revoked().await;
            Event::Revoked
        }));
    }

    /// Serves the connection until an event comes.
    ///
    /// # Errors
    /// What the connection ended with.
    pub(super) async fn next<C: Future>(
        &mut self,
        mut connection: Pin<&mut C>,
    ) -> Result<Event, C::Output> {
        poll_fn(|cx| match connection.as_mut().poll(cx) {
            Poll::Ready(end) => Poll::Ready(Err(end)),
            Poll::Pending => self.poll(cx).map(Ok),
        })
        .await
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Event> {
        match self.waiting.poll_next_unpin(cx) {
            Poll::Ready(Some(event)) => Poll::Ready(event),
            Poll::Ready(None) | Poll::Pending => Poll::Pending,
        }
    }
}
