//! Begins HTTP on a connected stream to an app, in the version that the app speaks.

use std::{
    rc::Rc,
    sync::{Arc, atomic::AtomicBool},
    time::{Duration, Instant},
};

use backon::{BackoffBuilder, ExponentialBuilder};
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};

use super::{
    attestation::ConnectionProof,
    fault::Fault,
    inline_connection::InlineConnection,
    interim::InterimCount,
    metrics::ForwardMetrics,
    pool::key::{MAX_STREAMS, PoolKey},
    sender::{Http2Slot, RequestSender, WebSocketSupport},
    settings::ForwardSettings,
    upload::Upload,
    upstream_connection::UpstreamConnection,
    upstream_filter::{OpenConnection, UpstreamFilter},
};
use crate::{
    model::{app::Protocol, concurrency_limit::LoadGuard},
    net::{read_filter::FilteredStream, timer::ReusableTimer},
};

/// An app of HTTP/2 is pinged this often while requests are active.
const PING_INTERVAL: Duration = Duration::from_secs(30);
/// An app of HTTP/2 that does not answer a ping for this long is disconnected.
const PING_TIMEOUT: Duration = Duration::from_secs(20);
/// Flow control: bytes that an app may send on one stream before its client reads any.
const STREAM_WINDOW: u32 = 64 * 1024;
/// The same on all streams of a connection together: enough that clients which read nothing do not
/// block others. h2 derives from it how many tiny frames it buffers.
const CONNECTION_WINDOW: u32 = 4 * MAX_STREAMS * STREAM_WINDOW;
/// Maximum number of bytes of one upload that are buffered while the app does not read.
const SEND_BUFFER: usize = 64 * 1024;
/// A response head of this many bytes is accepted whatever the settings say.
const MIN_HEAD_BYTES: usize = 16 * 1024;

/// The pauses while an app's settings are awaited: 1 ms, 2 ms, .., 512 ms, one second in all. After
/// that the app accepts no WebSockets.
const SETTINGS_POLL: ExponentialBuilder = ExponentialBuilder::new()
    .with_min_delay(Duration::from_millis(1))
    .with_factor(2.0)
    .with_max_delay(Duration::from_millis(512))
    .with_max_times(10);

/// Everything that a new connection starts with besides its stream.
pub(super) struct HttpHandshake<'h> {
    pub(super) protocol: Protocol,
    pub(super) key: PoolKey,
    pub(super) settings: &'h ForwardSettings,
    pub(super) metrics: &'h Arc<ForwardMetrics>,
    pub(super) slot: LoadGuard,
}

impl HttpHandshake<'_> {
    /// The connection is counted as open from here on.
    pub(super) async fn start(
        self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        proof: Option<ConnectionProof>,
    ) -> Result<Box<UpstreamConnection>, Fault> {
        let has_received = Arc::new(AtomicBool::new(false));
        let open = OpenConnection::new(&self.metrics.upstream_connections, self.slot);
        let slot = open.slot.clone();
        let head_bytes = self.settings.head_bytes.max(MIN_HEAD_BYTES);
        let interim = match self.protocol {
            Protocol::Http1 => Some(InterimCount::default()),
            Protocol::Http2 => None,
        };
        let stream = FilteredStream::new(
            stream,
            UpstreamFilter::new(has_received.clone(), interim, open),
        );
        let sender = match self.protocol {
            Protocol::Http1 => start_http1(stream, head_bytes).await?,
            Protocol::Http2 => start_http2(stream, head_bytes).await?,
        };
        Ok(Box::new(UpstreamConnection {
            sender,
            has_received,
            slot,
            proof: proof.map(Rc::new),
            used_before: false,
            key: self.key,
            metrics: self.metrics.clone(),
            timer: ReusableTimer::default(),
            idle_since: Instant::now(),
        }))
    }
}

async fn start_http1(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    head_bytes: usize,
) -> Result<RequestSender, Fault> {
    let (sender, connection) = http1::Builder::new()
        .max_buf_size(head_bytes)
        .handshake(TokioIo::new(stream))
        .await
        .map_err(|_| Fault::Died)?;
    Ok(RequestSender::Http1(InlineConnection::new(
        sender, connection,
    )))
}

async fn start_http2(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    head_bytes: usize,
) -> Result<RequestSender, Fault> {
    let (sender, connection) = http2::Builder::new(LocalExecutor)
        .timer(TokioTimer::new())
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_TIMEOUT)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_send_buf_size(SEND_BUFFER)
        .max_header_list_size(u32::try_from(head_bytes).unwrap_or(u32::MAX))
        .handshake(TokioIo::new(stream))
        .await
        .map_err(|_| Fault::Died)?;
    let websockets = Rc::new(WebSocketSupport::default());
    tokio::task::spawn_local(poll_http2(connection, websockets.clone()));
    Ok(RequestSender::Http2(Http2Slot {
        sender,
        slot: Rc::new(()),
        websockets,
    }))
}

/// Polls a connection to its end, and answers whether the app accepts WebSockets.
async fn poll_http2<S>(
    mut connection: http2::Connection<S, Upload, LocalExecutor>,
    websockets: Rc<WebSocketSupport>,
) where
    S: hyper::rt::Read + hyper::rt::Write + Unpin + 'static,
{
    loop {
        tokio::select! {
            _ = &mut connection => return,
            () = websockets.wanted.notified() => {}
        }
        // Hyper has no event for the app's settings, so they are polled for a while.
        for pause in SETTINGS_POLL.build() {
            if connection.is_extended_connect_protocol_enabled() {
                break;
            }
            tokio::select! {
                _ = &mut connection => return,
                () = tokio::time::sleep(pause) => {}
            }
        }
        let is_accepted = connection.is_extended_connect_protocol_enabled();
        websockets.accepted.send_replace(Some(is_accepted));
    }
}

/// Runs hyper's tasks on the data thread.
#[derive(Clone, Copy)]
struct LocalExecutor;

impl<F: Future<Output: 'static> + 'static> hyper::rt::Executor<F> for LocalExecutor {
    fn execute(&self, task: F) {
        tokio::task::spawn_local(task);
    }
}
