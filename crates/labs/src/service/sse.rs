//! Event streams: the events of an operation as server-sent events, with a comment every 15 s.

use std::{io, pin::Pin, time::Duration};

use axum::{
    body::{Body, Bytes},
    response::{IntoResponse, Response},
};
use chrono::Utc;
use futures_util::{
    FutureExt, StreamExt,
    stream::{self, Peekable},
};
use http::{HeaderMap, header};
use ludgate_ops::drain::DrainWatcher;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};

use super::{metrics::ListenerGuard, operations::PendingEvents};
use crate::{
    dialect::Dialect,
    events::{EVENT_STREAM, EVENT_STREAM_HEADERS, EventId, PING_SECONDS, ping_frame},
};

/// The header with the id of the last event that a listener has.
const LAST_EVENT_ID: &str = "last-event-id";

/// What an event stream needs until it ends.
struct OpenStream {
    events: Peekable<PendingEvents>,
    /// Whether the stream may end: after the last event of the operation, or if the listener has
    /// it already.
    is_complete: bool,
    dialect: Dialect,
    ping: Interval,
    drain: DrainWatcher,
    _guard: ListenerGuard,
}

/// The last event that a listener has. Another value is like none: it then gets all events.
pub(super) fn last_event_id(headers: &HeaderMap) -> Option<EventId> {
    EventId::parse(headers.get(LAST_EVENT_ID)?.to_str().ok()?)
}

/// The answer with the events. It ends with the last one of the operation. Otherwise, such as when
/// the process stops, it breaks off, so that a hub does not take the end for that of the operation.
pub(super) fn event_stream(
    events: PendingEvents,
    has_some: bool,
    dialect: Dialect,
    drain: DrainWatcher,
    guard: ListenerGuard,
) -> Response {
    let period = Duration::from_secs(PING_SECONDS);
    let mut ping = interval_at(Instant::now() + period, period);
    ping.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut events = events.peekable();
    // Nothing more comes at all. An end that comes later needs a last event.
    let is_at_end = matches!(Pin::new(&mut events).peek().now_or_never(), Some(None));
    let listener = OpenStream {
        events,
        is_complete: has_some && is_at_end,
        dialect,
        ping,
        drain,
        _guard: guard,
    };
    let frames = stream::unfold(Some(listener), next_frame);
    let headers = [(header::CONTENT_TYPE, EVENT_STREAM)];
    (headers, EVENT_STREAM_HEADERS, Body::from_stream(frames)).into_response()
}

type Frame = Result<Bytes, io::Error>;

async fn next_frame(listener: Option<OpenStream>) -> Option<(Frame, Option<OpenStream>)> {
    let mut listener = listener?;
    tokio::select! {
        // Events before all else: a stop must not hide one that is there.
        biased;
        event = listener.events.next() => match event {
            Some((id, event)) => {
                listener.is_complete = event.kind.is_last();
                let frames = event.to_frames(Some(id), listener.dialect);
                Some((Ok(Bytes::from(frames)), Some(listener)))
            }
            None if listener.is_complete => None,
            None => Some((Err(io::Error::other("the operation is out of sight")), None)),
        },
        _ = listener.ping.tick() => {
            Some((Ok(Bytes::from(ping_frame(Utc::now()))), Some(listener)))
        }
        () = listener.drain.stopping() => {
            Some((Err(io::Error::other("the process stops")), None))
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::future;
    use http_body_util::BodyExt;
    use ludgate_ops::{drain::Drain, metrics::Registry};
    use tokio::sync::oneshot;

    use super::*;
    use crate::service::metrics::LabRequestMetrics;

    #[tokio::test]
    async fn a_stream_without_its_last_event_breaks_off_unless_the_listener_had_that() {
        let drain = Drain::new();
        let metrics = LabRequestMetrics::register(&Registry::new());
        let body = |events: PendingEvents, has_some: bool| {
            let (drain, guard) = (drain.watcher(), metrics.listen());
            event_stream(events, has_some, Dialect::Nublado, drain, guard).into_body()
        };
        let over = || -> PendingEvents { stream::empty().boxed() };
        assert!(body(over(), true).collect().await.is_ok());
        assert!(body(over(), false).collect().await.is_err());
        // A listener came back and waits, when the process loses its lease.
        let (lose, lost) = oneshot::channel::<()>();
        let lost = stream::once(lost);
        let events: PendingEvents = lost.filter_map(|_| future::ready(None)).boxed();
        let waiting = body(events, true);
        lose.send(()).unwrap();
        assert!(waiting.collect().await.is_err());
    }
}
