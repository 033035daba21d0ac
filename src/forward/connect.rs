//! Opening a connection to an app: TCP or a unix socket, TLS when the app says so, and the HTTP/1.1 handshake of
//! hyper.

use std::{
    io,
    net::SocketAddr,
    path::Path,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use prometheus_client::metrics::gauge::Gauge;
use rustls::{ClientConfig, pki_types::ServerName};
use socket2::{SockRef, TcpKeepalive};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpStream, UnixStream},
};
use tokio_rustls::TlsConnector;

use super::{Settings, body::Upload, fault::Fault, proof::Proof};
use crate::{
    model::app::{App, UpstreamScheme},
    trust::app::Distrust,
};

/// A quiet connection is probed after this long.
const KEEPALIVE: std::time::Duration = std::time::Duration::from_secs(60);

/// Most pods that are tried for one request.
const MOST_TRIED: usize = 3;

/// A socket with a full queue is asked again after this long,
const SHORTEST_PAUSE: Duration = Duration::from_millis(1);
/// and each time after twice as long, up to this.
const LONGEST_PAUSE: Duration = Duration::from_millis(50);

/// A fresh connection.
pub struct Opened {
    /// Sends requests on it.
    pub sender: SendRequest<Upload>,
    /// Whether a byte came since this was last set to false.
    pub heard: Arc<AtomicBool>,
    /// What is shown and expected on it, when it leads to a container's gateway.
    pub proof: Option<Proof>,
}

/// Connects to the app within the deadline.
///
/// # Errors
/// [`Fault::Refused`], [`Fault::ConnectTimeout`] or [`Fault::Tls`].
pub async fn open(
    app: &App,
    near: usize,
    tls: Option<Arc<ClientConfig>>,
    settings: &Settings,
    open_connections: &Gauge,
) -> Result<Opened, Fault> {
    let connecting = async {
        let upstream = &app.spec.upstream;
        match (&upstream.scheme, tls) {
            (UpstreamScheme::Unix(path), _) => {
                let socket = to_socket(path).await.map_err(|error| refused(app, &error))?;
                handshake(socket, None, settings, open_connections).await
            }
            (UpstreamScheme::Http, _) => {
                handshake(to_host(app).await?, None, settings, open_connections).await
            }
            (UpstreamScheme::Pods(pods), _) => {
                let tcp = to_one_of(pods, near, settings.connect).await;
                let tcp = tcp.map(tuned).map_err(|error| refused(app, &error))?;
                handshake(tcp, None, settings, open_connections).await
            }
            (UpstreamScheme::Https | UpstreamScheme::Container(_), None) => {
                Err(Fault::Tls(Distrust::Handshake))
            }
            (UpstreamScheme::Https | UpstreamScheme::Container(_), Some(config)) => {
                let tcp = to_host(app).await?;
                let stream = TlsConnector::from(config)
                    .connect(server_name(app)?, tcp)
                    .await
                    .map_err(|error| because(app, Fault::Tls(Distrust::said_by(&error)), &error))?;
                let proof = match app.container() {
                    None => None,
                    Some(gateway) => {
                        let certificates = stream.get_ref().1.peer_certificates().unwrap_or_default();
                        let certificate = certificates.first().ok_or(Fault::Tls(Distrust::Handshake))?;
                        Some(Proof::new(gateway, certificate).ok_or(Fault::Tls(Distrust::Handshake))?)
                    }
                };
                handshake(stream, proof, settings, open_connections).await
            }
        }
    };
    tokio::time::timeout(settings.connect, connecting).await.unwrap_or(Err(Fault::ConnectTimeout))
}

/// Who the other side must be, by its certificate.
fn server_name(app: &App) -> Result<ServerName<'static>, Fault> {
    match &app.spec.tls.server_name {
        Some(name) => Ok(name.clone()),
        None => {
            ServerName::try_from(app.spec.upstream.host.to_string()).map_err(|_| Fault::Tls(Distrust::Name))
        }
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

/// A socket whose queue is full says so at once (EAGAIN of connect(2)), where TCP waits for a place in it. An app
/// that is merely busy is waited for here as there, until the deadline; no event tells of the place.
async fn to_socket(path: &Path) -> io::Result<UnixStream> {
    let mut pause = SHORTEST_PAUSE;
    loop {
        match UnixStream::connect(path).await {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => tokio::time::sleep(pause).await,
            connected_or_refused => return connected_or_refused,
        }
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// The pod that is near, or the next ones while it takes none: nothing was sent yet, so nothing is sent twice. Each
/// has its share of the time, so that one that vanished leaves some for the others.
async fn to_one_of(pods: &[SocketAddr], near: usize, patience: Duration) -> io::Result<TcpStream> {
    let tried = pods.len().min(MOST_TRIED);
    let share = patience / u32::try_from(tried.max(1)).unwrap_or(1);
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for pod in pods.iter().cycle().skip(near).take(tried) {
        match tokio::time::timeout(share, TcpStream::connect(pod)).await {
            // A pod is never ourselves: our own listeners, that of operators among them, are nobody's app.
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
    let fault = if error.kind() == io::ErrorKind::TimedOut { Fault::ConnectTimeout } else { Fault::Refused };
    because(app, fault, error)
}

/// The fault, its cause left in the log.
fn because(app: &App, fault: Fault, error: &dyn std::error::Error) -> Fault {
    tracing::debug!(app = %app.id(), upstream = %app.spec.upstream, %error, "{fault}");
    fault
}

async fn handshake(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    proof: Option<Proof>,
    settings: &Settings,
    open_connections: &Gauge,
) -> Result<Opened, Fault> {
    let heard = Arc::new(AtomicBool::new(false));
    let stream = TokioIo::new(Heard { stream, heard: heard.clone() });
    let (sender, connection) = http1::Builder::new()
        .max_buf_size(settings.head_bytes.max(16 * 1024))
        .handshake(stream)
        .await
        .map_err(|_| Fault::Died)?;
    let counted = Counted::new(open_connections);
    tokio::task::spawn_local(async move {
        // Its errors reach whoever waits for an answer; an idle connection that dies concerns nobody.
        let _ = connection.with_upgrades().await;
        drop(counted);
    });
    Ok(Opened { sender, heard, proof })
}

/// Notes that the other side said something. The flag is an atomic because hyper wants upgradable
/// connections to be `Send`; only one thread ever touches it.
struct Heard<S> {
    stream: S,
    heard: Arc<AtomicBool>,
}

impl<S: AsyncRead + Unpin> AsyncRead for Heard<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let before = buf.filled().len();
        let result = Pin::new(&mut self.stream).poll_read(cx, buf);
        if buf.filled().len() > before {
            self.heard.store(true, Ordering::Relaxed);
        }
        result
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Heard<S> {
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

struct Counted(Gauge);

impl Counted {
    fn new(gauge: &Gauge) -> Counted {
        gauge.inc();
        Counted(gauge.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.dec();
    }
}
