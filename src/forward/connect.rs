//! Opens a connection to an app: TCP or a unix socket, the PROXY header, and TLS.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    path::Path,
    sync::Arc,
    time::Duration,
};

use backon::{ExponentialBuilder, Retryable};
use rustls::{ClientConfig, pki_types::ServerName};
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt},
    net::{TcpStream, UnixStream, lookup_host},
    time::timeout,
};
use tokio_rustls::{TlsConnector, client::TlsStream};

use super::{
    app_tls::UpstreamTlsFailure, attestation::ConnectionProof, fault::Fault,
    http_handshake::HttpHandshake, metrics::ForwardMetrics, pool::key::PoolKey,
    settings::ForwardSettings, upstream_connection::UpstreamConnection,
    upstream_faults::note_cause,
};
use crate::{
    cluster::endpoint_slices::may_be_a_server,
    model::{
        app::{App, Protocol, Upstream, UpstreamScheme},
        concurrency_limit::LoadGuard,
    },
    net::tcp::set_options,
    proxy_protocol,
};

/// Maximum number of pods that are tried for one request.
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
/// [`Fault::Unresolved`], [`Fault::Refused`], [`Fault::Unreachable`], [`Fault::ConnectTimeout`],
/// [`Fault::NoHttp2`] or [`Fault::Tls`]. The health of the app gets the cause.
pub(super) async fn open(
    dial: Dial<'_>,
    slot: LoadGuard,
) -> Result<Box<UpstreamConnection>, Fault> {
    let (app, deadline) = (dial.app, dial.settings.connect);
    match timeout(deadline, connect(dial, slot)).await {
        Ok(connected) => connected,
        Err(_) => {
            let error = NoConnection(deadline);
            Err(note_cause(app, Fault::ConnectTimeout, &error))
        }
    }
}

/// The cause of [`Fault::ConnectTimeout`].
#[derive(Debug, thiserror::Error)]
#[error("no connection within {0:?}")]
struct NoConnection(Duration);

/// The cause of [`Fault::Refused`] for a route of a hub: the gateway itself refuses.
#[derive(Debug, thiserror::Error)]
#[error("a route of a hub must not lead to {0}")]
struct ForbiddenAddress(SocketAddr);

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
    let upstream = app.upstream_at(key.server);
    match &upstream.scheme {
        UpstreamScheme::Unix(path) => {
            let socket = connect_unix(path).await;
            let socket = socket.map_err(|error| connect_fault(app, &error))?;
            let socket = send_proxy_header(socket, app, key).await?;
            handshake.start(socket, None).await
        }
        UpstreamScheme::Http => {
            let tcp =
                send_proxy_header(connect_host(app, upstream, settings).await?, app, key).await?;
            handshake.start(tcp, None).await
        }
        UpstreamScheme::Pods(pods) => {
            let tcp = connect_pod(pods, key.server, settings.connect).await;
            let tcp = tcp
                .inspect(set_options)
                .map_err(|error| connect_fault(app, &error))?;
            let tcp = send_proxy_header(tcp, app, key).await?;
            handshake.start(tcp, None).await
        }
        UpstreamScheme::Https | UpstreamScheme::Attested(_) => {
            let config = dial.tls.ok_or(Fault::Tls(UpstreamTlsFailure::Handshake))?;
            // The PROXY header comes before TLS, as all its readers expect.
            let tcp =
                send_proxy_header(connect_host(app, upstream, settings).await?, app, key).await?;
            let stream = connect_tls(tcp, app, upstream, config).await?;
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
    upstream: &Upstream,
    config: Arc<ClientConfig>,
) -> Result<TlsStream<S>, Fault> {
    TlsConnector::from(config)
        .connect(server_name(app, upstream)?, stream)
        .await
        .map_err(|error| {
            let fault = Fault::Tls(UpstreamTlsFailure::from_error(&error));
            note_cause(app, fault, &error)
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
fn server_name(app: &App, upstream: &Upstream) -> Result<ServerName<'static>, Fault> {
    match &app.spec.tls.server_name {
        Some(name) => Ok(name.clone()),
        None => ServerName::try_from(upstream.host.to_string())
            .map_err(|_| Fault::Tls(UpstreamTlsFailure::Name)),
    }
}

async fn connect_host(
    app: &App,
    upstream: &Upstream,
    settings: &ForwardSettings,
) -> Result<TcpStream, Fault> {
    let is_hub_route = app.is_hub_route();
    let addresses = lookup_host((&*upstream.host, upstream.port)).await;
    let addresses = addresses.map_err(|error| note_cause(app, Fault::Unresolved, &error))?;
    let mut fault = Fault::Unresolved;
    for address in addresses {
        if is_hub_route && !may_be_a_server(address.ip()) {
            // The hub chose the name, and only now its address is known.
            fault = note_cause(app, Fault::Refused, &ForbiddenAddress(address));
            continue;
        }
        match TcpStream::connect(address).await {
            // Only a connection shows that an address is one of this machine.
            Ok(tcp) if is_hub_route && reaches_own_listener(&tcp, &settings.own_ports) => {
                fault = note_cause(app, Fault::Refused, &ForbiddenAddress(address));
            }
            Ok(tcp) => {
                set_options(&tcp);
                return Ok(tcp);
            }
            Err(error) => fault = connect_fault(app, &error),
        }
    }
    Err(fault)
}

/// Whether a connection leads to a listener of this process.
fn reaches_own_listener(tcp: &TcpStream, own_ports: &[u16]) -> bool {
    match (tcp.local_addr(), tcp.peer_addr()) {
        (Ok(local), Ok(peer)) => is_own_listener(local.ip(), peer, own_ports),
        (_, _) => true,
    }
}

/// Whether the peer is one of our ports on this machine. A connection of a machine to an address of
/// its own has this address at both ends.
fn is_own_listener(local: IpAddr, peer: SocketAddr, own_ports: &[u16]) -> bool {
    let (local, address) = (local.to_canonical(), peer.ip().to_canonical());
    own_ports.contains(&peer.port()) && (address.is_loopback() || address == local)
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

/// The fault of a failed connection.
fn connect_fault(app: &App, error: &io::Error) -> Fault {
    note_cause(app, Fault::from_connect_error(error), error)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_of_ours_is_recognised_by_port_and_machine() {
        for (local, peer, wanted) in [
            ("127.0.0.1", "127.0.0.1:9090", true),
            ("127.0.0.1", "127.0.0.2:9090", true),
            ("::1", "[::1]:8001", true),
            ("::ffff:127.0.0.1", "[::ffff:127.0.0.1]:8001", true),
            ("10.0.0.1", "10.0.0.1:9090", true),
            ("10.0.0.1", "[::ffff:10.0.0.1]:9090", true),
            ("2001:db8::1", "[2001:db8::1]:9090", true),
            ("10.0.0.1", "10.0.0.1:8888", false),
            ("127.0.0.1", "127.0.0.1:8888", false),
            ("10.0.0.1", "10.0.0.2:9090", false),
        ] {
            let found = is_own_listener(
                local.parse().expect("an address"),
                peer.parse().expect("an address"),
                &[9090, 8001],
            );
            assert_eq!(found, wanted, "{local} {peer}");
        }
    }
}
