//! Opening a connection to an app: TCP or a unix socket, TLS when the app says so, and the HTTP
//! handshake of hyper.

use std::{
    io,
    net::SocketAddr,
    path::Path,
    pin::Pin,
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioIo, TokioTimer};
use prometheus_client::metrics::gauge::Gauge;
use rustls::{ClientConfig, pki_types::ServerName};
use socket2::{SockRef, TcpKeepalive};
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf},
    net::{TcpStream, UnixStream},
};
use tokio_rustls::TlsConnector;

use super::{
    ForwardSettings,
    app_tls::UpstreamTlsFailure,
    body::Upload,
    fault::Fault,
    inline_connection::InlineConnection,
    interim::InterimCount,
    metrics::ForwardMetrics,
    pool::{PoolKey, STREAMS},
    pooled::{RequestSender, Shared, WebSocketSupport},
    proof::Proof,
};
use crate::{
    model::{
        app::{App, Protocol, UpstreamScheme},
        load::Taken,
    },
    proxy_protocol,
};

/// A quiet connection is probed after this long.
const KEEPALIVE: std::time::Duration = std::time::Duration::from_secs(60);

/// An app of HTTP/2 that answers no ping for this long is gone; it is pinged while requests wait.
const PING_PATIENCE: Duration = Duration::from_secs(20);
const PING_EVERY: Duration = Duration::from_secs(30);
/// What an app may send on one stream before its client took any of it, in bytes; and on all
/// together so much that clients who take nothing hold up nobody else. h2 also measures by it how
/// many tiny frames it keeps for them.
const STREAM_WINDOW: u32 = 64 * 1024;
const CONNECTION_WINDOW: u32 = 4 * STREAMS * STREAM_WINDOW;
/// What is held of one upload that the app does not take, in bytes.
const SEND_BUFFER: usize = 64 * 1024;

/// Most pods that are tried for one request.
const MOST_TRIED: usize = 3;

/// A socket with a full queue is asked again after this long,
const SHORTEST_PAUSE: Duration = Duration::from_millis(1);
/// and each time after twice as long, up to this.
const LONGEST_PAUSE: Duration = Duration::from_millis(50);
/// An app of HTTP/2 that has not told within this pause that it takes WebSockets takes none.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// A fresh connection.
pub struct OpenedConnection {
    /// Sends requests on it.
    pub sender: RequestSender,
    /// Whether a byte came since this was last set to false.
    pub heard: Arc<AtomicBool>,
    /// Its place among the connections of the app.
    pub slot: Arc<Taken>,
    /// What is shown and expected on it, when it leads to a container's gateway.
    pub proof: Option<Proof>,
}

/// Connects to the app within the deadline.
///
/// # Errors
/// [`Fault::Refused`], [`Fault::ConnectTimeout`], [`Fault::NoHttp2`] or [`Fault::Tls`].
pub async fn open(
    app: &App,
    near: PoolKey,
    tls: Option<Arc<ClientConfig>>,
    settings: &ForwardSettings,
    (metrics, slot): (&ForwardMetrics, Taken),
) -> Result<OpenedConnection, Fault> {
    let open = &metrics.upstream_connections;
    let speak = HttpHandshake {
        protocol: app.spec.protocol,
        settings,
        open,
        slot,
    };
    let connecting = async {
        let upstream = &app.spec.upstream;
        match (&upstream.scheme, tls) {
            (UpstreamScheme::Unix(path), _) => {
                let socket = to_socket(path)
                    .await
                    .map_err(|error| refused(app, &error))?;
                speak.on(introduced(socket, app, near).await?, None).await
            }
            (UpstreamScheme::Http, _) => {
                speak
                    .on(introduced(to_host(app).await?, app, near).await?, None)
                    .await
            }
            (UpstreamScheme::Pods(pods), _) => {
                let tcp = to_one_of(pods, near.pod, settings.connect).await;
                let tcp = tcp.map(tuned).map_err(|error| refused(app, &error))?;
                speak.on(introduced(tcp, app, near).await?, None).await
            }
            (UpstreamScheme::Https | UpstreamScheme::Container(_), None) => {
                Err(Fault::Tls(UpstreamTlsFailure::Handshake))
            }
            (UpstreamScheme::Https | UpstreamScheme::Container(_), Some(config)) => {
                let tcp = introduced(to_host(app).await?, app, near).await?;
                let stream = TlsConnector::from(config)
                    .connect(server_name(app)?, tcp)
                    .await
                    .map_err(|error| {
                        because(
                            app,
                            Fault::Tls(UpstreamTlsFailure::from_error(&error)),
                            &error,
                        )
                    })?;
                let proof = match app.container() {
                    None => None,
                    Some(gateway) => {
                        let certificates =
                            stream.get_ref().1.peer_certificates().unwrap_or_default();
                        let certificate = certificates
                            .first()
                            .ok_or(Fault::Tls(UpstreamTlsFailure::Handshake))?;
                        Some(
                            Proof::new(gateway, certificate)
                                .ok_or(Fault::Tls(UpstreamTlsFailure::Handshake))?,
                        )
                    }
                };
                if app.spec.protocol == Protocol::Http2
                    && stream.get_ref().1.alpn_protocol() != Some(b"h2")
                {
                    return Err(Fault::NoHttp2);
                }
                speak.on(stream, proof).await
            }
        }
    };
    tokio::time::timeout(settings.connect, connecting)
        .await
        .unwrap_or(Err(Fault::ConnectTimeout))
}

/// Who the other side must be, by its certificate.
fn server_name(app: &App) -> Result<ServerName<'static>, Fault> {
    match &app.spec.tls.server_name {
        Some(name) => Ok(name.clone()),
        None => ServerName::try_from(app.spec.upstream.host.to_string())
            .map_err(|_| Fault::Tls(UpstreamTlsFailure::Name)),
    }
}

async fn to_host(app: &App) -> Result<TcpStream, Fault> {
    let upstream = &app.spec.upstream;
    let tcp = TcpStream::connect((&*upstream.host, upstream.port)).await;
    tcp.map(tuned).map_err(|error| refused(app, &error))
}

fn tuned(tcp: TcpStream) -> TcpStream {
    // Heads and bodies are written whole; waiting to fill a segment only delays the last one.
    let _ = tcp.set_nodelay(true);
    // An app that vanished without a word is noticed, also behind an idle WebSocket.
    let _ = SockRef::from(&tcp).set_tcp_keepalive(&TcpKeepalive::new().with_time(KEEPALIVE));
    tcp
}

/// A socket whose queue is full says so at once (EAGAIN of connect(2)), where TCP waits for a place
/// in it. An app that is merely busy is waited for here as there, until the deadline; no event
/// tells of the place.
async fn to_socket(path: &Path) -> io::Result<UnixStream> {
    let mut pause = SHORTEST_PAUSE;
    loop {
        match UnixStream::connect(path).await {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                tokio::time::sleep(pause).await
            }
            connected_or_refused => return connected_or_refused,
        }
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// The pod that is near, or the next ones while it takes none: nothing was sent yet, so nothing is
/// sent twice. Each has its share of the time, so that one that vanished leaves some for the
/// others.
async fn to_one_of(pods: &[SocketAddr], near: usize, patience: Duration) -> io::Result<TcpStream> {
    let tried = pods.len().min(MOST_TRIED);
    let share = patience / u32::try_from(tried.max(1)).unwrap_or(1);
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for pod in pods.iter().cycle().skip(near).take(tried) {
        match tokio::time::timeout(share, TcpStream::connect(pod)).await {
            // A pod is never ourselves: our own listeners, that of operators among them, are
            // nobody's app.
            Ok(Ok(tcp)) if is_own(&tcp) => last = io::ErrorKind::ConnectionRefused.into(),
            Ok(Ok(tcp)) => return Ok(tcp),
            Ok(Err(error)) => last = error,
            Err(_) => last = io::ErrorKind::TimedOut.into(),
        }
    }
    Err(last)
}

/// Whether both ends of a connection are on this machine.
fn is_own(tcp: &TcpStream) -> bool {
    match (tcp.local_addr(), tcp.peer_addr()) {
        (Ok(near), Ok(far)) => near.ip() == far.ip(),
        (_, _) => true,
    }
}

/// No connection: nobody listens, or the system gave up waiting before we did.
fn refused(app: &App, error: &io::Error) -> Fault {
    let fault = if error.kind() == io::ErrorKind::TimedOut {
        Fault::ConnectTimeout
    } else {
        Fault::Refused
    };
    because(app, fault, error)
}

/// The fault, its cause left in the log.
fn because(app: &App, fault: Fault, error: &dyn std::error::Error) -> Fault {
    tracing::debug!(app = %app.id(), upstream = %app.spec.upstream, %error, "{fault}");
    fault
}

/// Tells the app who is connected, when it wants to know (PROXY protocol, version 2): before TLS,
/// as all that read it do.
async fn introduced<S: AsyncWrite + Unpin>(
    mut stream: S,
    app: &App,
    near: PoolKey,
) -> Result<S, Fault> {
    if let Some(client) = near.client {
        let header = proxy_protocol::write::header(client);
        stream
            .write_all(&header)
            .await
            .map_err(|error| refused(app, &error))?;
    }
    Ok(stream)
}

/// Begins to speak HTTP.
struct HttpHandshake<'s> {
    protocol: Protocol,
    settings: &'s ForwardSettings,
    /// Counts connections that are open: from here on, not while one is being opened.
    open: &'s Gauge,
    slot: Taken,
}

impl HttpHandshake<'_> {
    async fn on(
        self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        proof: Option<Proof>,
    ) -> Result<OpenedConnection, Fault> {
        let heard = Arc::new(AtomicBool::new(false));
        let interim = match self.protocol {
            Protocol::Http1 => Some(InterimCount::default()),
            Protocol::Http2 => None,
        };
        let counted = OpenConnection::new(self.open, self.slot);
        let slot = counted.slot.clone();
        let stream = TokioIo::new(UpstreamStream {
            stream,
            heard: heard.clone(),
            interim,
            _counted: counted,
        });
        let head_bytes = self.settings.head_bytes.max(16 * 1024);
        let sender = match self.protocol {
            Protocol::Http1 => {
                let shaken = http1::Builder::new()
                    .max_buf_size(head_bytes)
                    .handshake(stream)
                    .await;
                let (sender, connection) = shaken.map_err(|_| Fault::Died)?;
                RequestSender::Http1(InlineConnection::new(sender, connection))
            }
            Protocol::Http2 => {
                let shaken = http2::Builder::new(OnThisThread)
                    .timer(TokioTimer::new())
                    .keep_alive_interval(PING_EVERY)
                    .keep_alive_timeout(PING_PATIENCE)
                    .initial_stream_window_size(STREAM_WINDOW)
                    .initial_connection_window_size(CONNECTION_WINDOW)
                    .max_send_buf_size(SEND_BUFFER)
                    .max_header_list_size(u32::try_from(head_bytes).unwrap_or(u32::MAX))
                    .handshake(stream)
                    .await;
                let (sender, connection) = shaken.map_err(|_| Fault::Died)?;
                let websockets = Rc::new(WebSocketSupport::default());
                tokio::task::spawn_local(drive(connection, websockets.clone()));
                RequestSender::Http2(Shared {
                    sender,
                    slot: Rc::new(()),
                    websockets,
                })
            }
        };
        Ok(OpenedConnection {
            sender,
            heard,
            slot,
            proof,
        })
    }
}

/// Drives a connection to its end, and looks whether it takes WebSockets when somebody wants to
/// know. hyper tells nobody when the app's settings come, so it is asked again and again for a
/// while.
async fn drive<S>(
    mut connection: http2::Connection<S, Upload, OnThisThread>,
    websockets: Rc<WebSocketSupport>,
) where
    S: hyper::rt::Read + hyper::rt::Write + Unpin + 'static,
{
    loop {
        tokio::select! {
            _ = &mut connection => return,
            () = websockets.wanted.notified() => {}
        }
        let mut pause = SHORTEST_PAUSE;
        while !connection.is_extended_connect_protocol_enabled() && pause < LONGEST_WAIT {
            tokio::select! {
                _ = &mut connection => return,
                () = tokio::time::sleep(pause) => pause *= 2,
            }
        }
        websockets
            .taken
            .send_replace(Some(connection.is_extended_connect_protocol_enabled()));
    }
}

/// Runs hyper's tasks where everything of a data thread runs.
#[derive(Clone, Copy)]
struct OnThisThread;

impl<F: Future<Output: 'static> + 'static> hyper::rt::Executor<F> for OnThisThread {
    fn execute(&self, task: F) {
        tokio::task::spawn_local(task);
    }
}

/// Notes that the other side said something. The flag is an atomic because hyper wants upgradable
/// connections to be `Send`; only one thread ever touches it.
struct UpstreamStream<S> {
    stream: S,
    heard: Arc<AtomicBool>,
    interim: Option<InterimCount>,
    /// Until the connection is closed, a WebSocket's too.
    _counted: OpenConnection,
}

impl<S: AsyncRead + Unpin> AsyncRead for UpstreamStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let this = &mut *self;
        let before = buf.filled().len();
        let result = Pin::new(&mut this.stream).poll_read(cx, buf);
        let read = buf.filled().get(before..).unwrap_or_default();
        if read.is_empty() {
            return result;
        }
        // Not a swap, which would lock the bus: only one thread touches it.
        let is_first = !this.heard.load(Ordering::Relaxed);
        this.heard.store(true, Ordering::Relaxed);
        if let Some(interim) = &mut this.interim {
            if is_first {
                interim.restart();
            }
            if let Err(error) = interim.read(read) {
                return Poll::Ready(Err(io::Error::other(error)));
            }
        }
        result
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for UpstreamStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[std::io::IoSlice<'_>],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

struct OpenConnection {
    open: Gauge,
    slot: Arc<Taken>,
}

impl OpenConnection {
    fn new(open: &Gauge, slot: Taken) -> OpenConnection {
        open.inc();
        OpenConnection {
            open: open.clone(),
            slot: Arc::new(slot),
        }
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.open.dec();
    }
}
