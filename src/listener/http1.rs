//! HTTP/1.1: hyper's server, and the events that end a connection.

use std::{pin::pin, rc::Rc};

use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};

use super::{
    activity_filter::ActivityFilter,
    connection_events::{ConnectionEvents, Event},
    exchange::{Exchange, Exchanges},
    http::HttpServer,
    metrics::ListenerMetrics,
    service::{AcceptedStream, MakeService},
    settings::ListenerSettings,
    timeouts::{ConnectionActivity, Timeout},
};
use crate::net::read_filter::FilteredStream;

/// Maximum number of header fields that hyper accepts by default.
const HYPER_MAX_HEADERS: usize = 100;

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
    let mut events = ConnectionEvents::new(&activity, server.settings);
    events.wait_for_revocation(&exchange.revocation);
    events.wait_for_leaving(server.drain.clone());
    events.wait_for_stopping(server.drain);
    let result = loop {
        match events.next(connection.as_mut()).await {
            Ok(Event::Timeout(timeout)) => {
                metrics.deadlines.missed(timeout.as_str());
                match timeout {
                    Timeout::Age => {
                        activity.leave();
                        events.wait_for_timeout();
                    }
                    // hyper sends first what it has buffered of the last response.
                    Timeout::NextRequest if !activity.is_in_body() => {
                        connection.as_mut().graceful_shutdown();
                    }
                    Timeout::FirstByte | Timeout::Head | Timeout::NextRequest => return,
                }
            }
            // The next response says `Connection: close`. A client that sends no request is
            // disconnected when the process stops.
            Ok(Event::Leaving) => activity.leave(),
            // A request may be on its way on a connection that has brought none. It is answered;
            // the first-byte timeout bounds the wait.
            Ok(Event::Stopping) if activity.is_fresh() => activity.leave(),
            Ok(Event::Stopping) => connection.as_mut().graceful_shutdown(),
            Ok(Event::Revoked) => return,
            Err(result) => break result,
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

fn report(error: &hyper::Error, metrics: &ListenerMetrics) {
    if error.is_parse() {
        // hyper has answered this request itself.
        let status = if error.is_parse_too_large() { 431 } else { 400 };
        metrics.requests.count("malformed", status);
    }
    tracing::debug!(%error, "connection ended");
}
