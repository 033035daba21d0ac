//! HTTP/1.1: hyper's server, and the events that end a connection.

use std::{
    future::poll_fn,
    pin::{Pin, pin},
    rc::Rc,
    task::Poll,
};

use futures_util::stream::{FuturesUnordered, StreamExt};
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};

use super::{
    activity_filter::ActivityFilter,
    exchange::{Exchange, Exchanges},
    http::HttpServer,
    metrics::ListenerMetrics,
    service::{AcceptedStream, MakeService},
    settings::ListenerSettings,
    timeouts::{ConnectionActivity, Timeout, Timeouts},
};
use crate::{net::read_filter::FilteredStream, ops::drain::DrainWatcher};

/// Most header fields that hyper accepts by default.
const HYPER_MAX_HEADERS: usize = 100;

/// What can happen to a connection besides its bytes.
enum Event {
    /// The request was revoked.
    Revoked,
    Timeout(Timeout),
    /// The process stops soon.
    Leaving,
    /// The process stops.
    Stopping,
}

/// `FuturesUnordered` polls only the futures that were woken: most wake-ups are for bytes.
type Events<'c> = FuturesUnordered<Pin<Box<dyn Future<Output = Event> + 'c>>>;

/// Serves HTTP/1.1 until the connection ends.
pub(super) async fn serve<M: MakeService, T>(
    mut server: HttpServer<'_, M>,
    accepted: AcceptedStream<T>,
) where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let activity = ConnectionActivity::new(false);
    let exchange = Rc::new(Exchange::default());
    let exchanges = Exchanges::Http1(exchange.clone());
    let (stream, service) = server.connect(accepted, &activity, exchanges);
    let stream = TokioIo::new(FilteredStream::new(
        stream,
        ActivityFilter::new(activity.clone()),
    ));
    let connection = builder(server.settings).serve_connection(stream, service);
    let mut connection = pin!(connection.with_upgrades());
    let metrics = server.metrics;
    let timeouts = &server.settings.timeouts;
    let mut leaving = server.drain.clone();
    let events = Events::new();
    events.push(Box::pin(next_timeout(&activity, timeouts)));
    push_endings(&events, &exchange, &mut leaving, &mut server.drain);
    let mut events = events;
    let result = loop {
        let next = poll_fn(|cx| match connection.as_mut().poll(cx) {
            Poll::Ready(result) => Poll::Ready(Err(result)),
            Poll::Pending => events.poll_next_unpin(cx).map(Ok),
        });
        let event = match next.await {
            Ok(event) => event,
            Err(result) => break result,
        };
        match event {
            Some(Event::Timeout(timeout)) => {
                metrics.deadlines.missed(timeout.as_str());
                if timeout != Timeout::Age {
                    return;
                }
                activity.leave();
                events.push(Box::pin(next_timeout(&activity, timeouts)));
            }
            // The next response says `Connection: close`. A client that sends no request is
            // disconnected when the process stops.
            Some(Event::Leaving) => activity.leave(),
            // A request may be on its way on a connection that has brought none. It is answered;
            // the first-byte timeout bounds the wait.
            Some(Event::Stopping) if activity.is_fresh() => activity.leave(),
            Some(Event::Stopping) => connection.as_mut().graceful_shutdown(),
            Some(Event::Revoked) | None => return,
        }
    };
    if let Err(error) = result {
        report(&error, metrics);
    }
}

fn builder(settings: &ListenerSettings) -> http1::Builder {
    let mut builder = http1::Builder::new();
    if settings.head_fields != HYPER_MAX_HEADERS {
        // Calling `max_headers`, even with hyper's default, makes hyper allocate per request.
        builder.max_headers(settings.head_fields);
    }
    builder
        .max_buf_size(settings.head_bytes)
        // The buffer bound alone lets a larger head pass that comes in one piece.
        .max_header_size(settings.head_bytes)
        // Responses pass as the app wrote them, with or without a Date header.
        .auto_date_header(false);
    builder
}

async fn next_timeout(activity: &ConnectionActivity, timeouts: &Timeouts) -> Event {
    Event::Timeout(activity.expired(timeouts).await)
}

/// The events that come once.
fn push_endings<'c>(
    events: &Events<'c>,
    exchange: &'c Exchange,
    leaving: &'c mut DrainWatcher,
    stopping: &'c mut DrainWatcher,
) {
    events.push(Box::pin(async {
        exchange.revocation.revoked().await;
        Event::Revoked
    }));
    events.push(Box::pin(async {
        leaving.leaving().await;
        Event::Leaving
    }));
    events.push(Box::pin(async {
        stopping.stopping().await;
        Event::Stopping
    }));
}

fn report(error: &hyper::Error, metrics: &ListenerMetrics) {
    if error.is_parse() {
        // hyper has answered this request itself.
        let status = if error.is_parse_too_large() { 431 } else { 400 };
        metrics.requests.count("malformed", status);
    }
    tracing::debug!(%error, "connection ended");
}
