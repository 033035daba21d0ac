//! HTTP/2 (RFC 9113) with WebSockets (RFC 8441): hyper's server, and the events that end a
//! connection.

use std::{
    pin::{Pin, pin},
    sync::Arc,
    time::Duration,
};

use hyper::server::conn::http2;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::timeout,
};
use tokio_util::io::InspectReader;

use super::{
    connection_events::{ConnectionEvents, Event},
    exchange::{Exchanges, Http2Executor},
    http::HttpServer,
    service::{AcceptedStream, MakeService},
    settings::ListenerSettings,
    timeouts::{ConnectionActivity, Timeout},
};

/// A client is pinged when nothing came for this long.
const PING_INTERVAL: Duration = Duration::from_secs(30);
/// A client that does not answer a ping for this long is disconnected.
const PING_TIMEOUT: Duration = Duration::from_secs(20);
/// Flow control: bytes that a client may send before we read any, on one stream and on all streams
/// of a connection together.
const STREAM_WINDOW: u32 = 64 * 1024;
const CONNECTION_WINDOW: u32 = 1024 * 1024;
/// Maximum number of bytes of one response that are buffered while the client does not read.
const SEND_BUFFER: usize = 16 * 1024;
/// More resets than these end the connection with ENHANCE_YOUR_CALM. By the client: streams that it
/// resets before they are accepted (CVE-2023-44487). By us: streams that its errors make us reset
/// (CVE-2025-8671).
const MAX_CLIENT_RESETS: usize = 20;
const MAX_OWN_RESETS: usize = 256;

/// Serves HTTP/2 until the connection ends.
pub(super) async fn serve<M: MakeService, T>(
    mut server: HttpServer<'_, M>,
    accepted: AcceptedStream<T>,
) where
    T: AsyncRead + AsyncWrite + Unpin + 'static,
{
    let metrics = server.metrics;
    let settings = server.settings;
    let activity = ConnectionActivity::new(true);
    let executor = Http2Executor::new(settings.write_stall, metrics.write_stalls.clone());
    let exchanges = Exchanges::Http2(executor.clone());
    let (stream, service) = server.connect(accepted, &activity, exchanges);
    let stream = TokioIo::new(note_bytes(stream, activity.clone()));
    let connection = builder(executor, settings).serve_connection(stream, service);
    let mut connection = pin!(connection);
    let mut events = ConnectionEvents::new(&activity, settings);
    // A connection that comes while the process is leaving is served until it stops.
    if !server.drain.is_leaving() {
        events.wait_for_leaving(server.drain.clone());
    }
    events.wait_for_stopping(server.drain);
    let result = loop {
        match events.next(connection.as_mut()).await {
            Ok(Event::Timeout(timeout)) => {
                metrics.deadlines.missed(timeout.as_str());
                match timeout {
                    Timeout::FirstByte | Timeout::Head => return,
                    Timeout::Age => {
                        activity.leave();
                        connection.as_mut().graceful_shutdown();
                        events.wait_for_timeout();
                    }
                    Timeout::NextRequest => {
                        // Two GOAWAYs with a ping between them: requests on their way are still
                        // answered.
                        connection.as_mut().graceful_shutdown();
                        return finish(connection, &activity).await;
                    }
                }
            }
            Ok(Event::Leaving) => {
                activity.leave();
                connection.as_mut().graceful_shutdown();
            }
            Ok(Event::Stopping) => connection.as_mut().graceful_shutdown(),
            // Streams are revoked one by one.
            Ok(Event::Revoked) => {}
            Err(result) => break result,
        }
    };
    if let Err(error) = result {
        tracing::debug!(%error, "connection ended");
    }
}

fn builder(executor: Http2Executor, settings: &ListenerSettings) -> http2::Builder<Http2Executor> {
    // A balancer's connection carries many clients: one stalled upload must not use up the window
    // of the others.
    let window = if settings.h2c {
        let all_streams = settings.streams.saturating_mul(STREAM_WINDOW);
        all_streams.clamp(CONNECTION_WINDOW, 1 << 30)
    } else {
        CONNECTION_WINDOW
    };
    let mut builder = http2::Builder::new(executor);
    builder
        .timer(TokioTimer::new())
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_TIMEOUT)
        .max_concurrent_streams(settings.streams)
        .max_header_list_size(u32::try_from(settings.head_bytes).unwrap_or(u32::MAX))
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(window)
        .max_send_buf_size(SEND_BUFFER)
        .max_pending_accept_reset_streams(MAX_CLIENT_RESETS)
        .max_local_error_reset_streams(MAX_OWN_RESETS)
        .enable_connect_protocol()
        .auto_date_header(false);
    builder
}

/// Tells the activity when bytes come. Writes pass through, vectored ones too.
fn note_bytes<T: AsyncRead>(
    stream: T,
    activity: Arc<ConnectionActivity>,
) -> InspectReader<T, impl FnMut(&[u8])> {
    InspectReader::new(stream, move |bytes| {
        if !bytes.is_empty() {
            activity.note_byte();
        }
    })
}

/// Goes on with a connection after its GOAWAY: a request that crossed it is answered first.
async fn finish(mut connection: Pin<&mut impl Future>, activity: &ConnectionActivity) {
    while timeout(PING_TIMEOUT, connection.as_mut()).await.is_err() {
        if !activity.is_busy() {
            return;
        }
    }
}
