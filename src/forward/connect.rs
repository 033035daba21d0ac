//! Opens a connection to an app: TCP or a unix socket, the PROXY header, and TLS.

use std::{io, net::SocketAddr, path::Path, sync::Arc, time::Duration};

use backon::{ExponentialBuilder, Retryable};
use rustls::{ClientConfig, pki_types::ServerName};
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt},
    net::{TcpStream, UnixStream},
    time::timeout,
};
use tokio_rustls::{TlsConnector, client::TlsStream};

use super::{
    app_tls::UpstreamTlsFailure, attestation::ConnectionProof, fault::Fault,
    http_handshake::HttpHandshake, metrics::ForwardMetrics, pool::key::PoolKey,
    settings::ForwardSettings, upstream_connection::UpstreamConnection,
};
use crate::{
    model::{
        app::{App, Protocol, UpstreamScheme},
        concurrency_limit::LoadGuard,
    },
    net::tcp::set_options,
    proxy_protocol,
};

/// Most pods that are tried for one request.
const MAX_PODS_TRIED: usize = 3;
/// The pauses between attempts at a unix socket with a full queue.
const QUEUE_BACKOFF: ExponentialBuilder = ExponentialBuilder::new()
    .with_min_delay(Duration::from_millis(1))
    .with_factor(2.0)
    .with_max_delay(Duration::from_millis(50))
    .without_max_times();

/// Where to connect, and how.
pub(super) struct Dial<'d> {
    pub(super) app: &'d App,
    pub(super) key: PoolKey,
    /// `None` for an app without TLS.
    pub(super) tls: Option<Arc<ClientConfig>>,
    pub(super) settings: &'d ForwardSettings,
    pub(super) metrics: &'d Arc<ForwardMetrics>,
}

/// Connects to the app within the deadline of the settings.
///
/// # Errors
/// [`Fault::Refused`], [`Fault::ConnectTimeout`], [`Fault::NoHttp2`] or [`Fault::Tls`].
pub(super) async fn open(
    dial: Dial<'_>,
    slot: LoadGuard,
) -> Result<Box<UpstreamConnection>, Fault> {
    let deadline = dial.settings.connect;
    timeout(deadline, connect(dial, slot))
        .await
        .unwrap_or(Err(Fault::ConnectTimeout))
}

async fn connect(dial: Dial<'_>, slot: LoadGuard) -> Result<Box<UpstreamConnection>, Fault> {
    let Dial {
        app, key, settings, ..
    } = dial;
    let handshake = HttpHandshake {
        protocol: app.spec.protocol,
        key,
        settings,
        metrics: dial.metrics,
        slot,
    };
    match &app.spec.upstream.scheme {
        UpstreamScheme::Unix(path) => {
            let socket = connect_unix(path).await;
            let socket = socket.map_err(|error| connect_fault(app, &error))?;
            let socket = send_proxy_header(socket, app, key).await?;
            handshake.start(socket, None).await
        }
        UpstreamScheme::Http => {
            let tcp = send_proxy_header(connect_host(app).await?, app, key).await?;
            handshake.start(tcp, None).await
        }
        UpstreamScheme::Pods(pods) => {
            let tcp = connect_pod(pods, key.pod, settings.connect).await;
            let tcp = tcp
                .inspect(set_options)
                .map_err(|error| connect_fault(app, &error))?;
            let tcp = send_proxy_header(tcp, app, key).await?;
            handshake.start(tcp, None).await
        }
        UpstreamScheme::Https | UpstreamScheme::Attested(_) => {
            let config = dial.tls.ok_or(Fault::Tls(UpstreamTlsFailure::Handshake))?;
            // The PROXY header comes before TLS, as all its readers expect.
            let tcp = send_proxy_header(connect_host(app).await?, app, key).await?;
            let stream = connect_tls(tcp, app, config).await?;
            let proof = attest(&stream, app)?;
            if app.spec.protocol == Protocol::Http2
                && stream.get_ref().1.alpn_protocol() != Some(b"h2")
            {
                return Err(Fault::NoHttp2);
            }
            handshake.start(stream, proof).await
        }
    }
}

async fn connect_tls<S: AsyncRead + AsyncWrite + Unpin>(
    stream: S,
    app: &App,
    config: Arc<ClientConfig>,
) -> Result<TlsStream<S>, Fault> {
    TlsConnector::from(config)
        .connect(server_name(app)?, stream)
        .await
        .map_err(|error| {
            let fault = Fault::Tls(UpstreamTlsFailure::from_error(&error));
            log_fault(app, fault, &error)
        })
}

/// The mutual proof, bound to the upstream's certificate; `None` for most apps.
fn attest<S>(stream: &TlsStream<S>, app: &App) -> Result<Option<ConnectionProof>, Fault> {
    let Some(upstream) = app.attested() else {
        return Ok(None);
    };
    let handshake = Fault::Tls(UpstreamTlsFailure::Handshake);
    let certificates = stream.get_ref().1.peer_certificates().unwrap_or_default();
    let certificate = certificates.first().ok_or(handshake)?;
    let proof = ConnectionProof::new(upstream, certificate).ok_or(handshake)?;
    Ok(Some(proof))
}

/// The name that the certificate of the app must be valid for.
fn server_name(app: &App) -> Result<ServerName<'static>, Fault> {
    match &app.spec.tls.server_name {
        Some(name) => Ok(name.clone()),
        None => ServerName::try_from(app.spec.upstream.host.to_string())
            .map_err(|_| Fault::Tls(UpstreamTlsFailure::Name)),
    }
}

async fn connect_host(app: &App) -> Result<TcpStream, Fault> {
    let upstream = &app.spec.upstream;
    let tcp = TcpStream::connect((&*upstream.host, upstream.port)).await;
    tcp.inspect(set_options)
        .map_err(|error| connect_fault(app, &error))
}

/// Waits while the queue of the socket is full, until the caller's deadline.
///
/// TCP waits for a place in the queue. A unix socket fails at once (EAGAIN of connect(2)), and no
/// event tells of a free place.
async fn connect_unix(path: &Path) -> io::Result<UnixStream> {
    (|| UnixStream::connect(path))
        .retry(QUEUE_BACKOFF)
        .sleep(tokio::time::sleep)
        .when(|error| error.kind() == io::ErrorKind::WouldBlock)
        .await
}

/// The first pod, or the next ones while it accepts no connection. Nothing was sent yet, so nothing
/// is sent twice.
///
/// Each pod has its share of the time, so that one that vanished leaves some for the others.
async fn connect_pod(
    pods: &[SocketAddr],
    first: usize,
    deadline: Duration,
) -> io::Result<TcpStream> {
    let attempts = pods.len().min(MAX_PODS_TRIED);
    let share = deadline / u32::try_from(attempts.max(1)).unwrap_or(1);
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for pod in pods.iter().cycle().skip(first).take(attempts) {
        match timeout(share, TcpStream::connect(pod)).await {
            // A pod is never this machine: our own listeners, the admin's among them, are no apps.
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
        (Ok(local), Ok(peer)) => local.ip() == peer.ip(),
        (_, _) => true,
    }
}

/// The fault of a failed connection. The system's own timeout may come before ours.
fn connect_fault(app: &App, error: &io::Error) -> Fault {
    let fault = if error.kind() == io::ErrorKind::TimedOut {
        Fault::ConnectTimeout
    } else {
        Fault::Refused
    };
    log_fault(app, fault, error)
}

/// Logs the cause of a fault.
fn log_fault(app: &App, fault: Fault, error: &dyn std::error::Error) -> Fault {
    tracing::debug!(app = %app.id(), upstream = %app.spec.upstream, %error, "{fault}");
    fault
}

/// Names the client to an app that wants the PROXY protocol.
async fn send_proxy_header<S: AsyncWrite + Unpin>(
    mut stream: S,
    app: &App,
    key: PoolKey,
) -> Result<S, Fault> {
    if let Some(client) = key.client {
        let header = proxy_protocol::write::header(client);
        stream
            .write_all(&header)
            .await
            .map_err(|error| connect_fault(app, &error))?;
    }
    Ok(stream)
}
