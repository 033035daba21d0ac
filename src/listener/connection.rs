//! One connection from its first byte to its first request: PROXY protocol, TLS, HTTP version.

use std::{net::SocketAddr, rc::Rc, sync::Arc};

use rustls::ServerConfig;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    time::{Instant, timeout_at},
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

pub use super::{
    connection_limit::ConnectionPermit,
    exchange::{Exchange, Exchanges},
    service::{MakeService, NewConnection},
    timeouts::{ActiveRequest, ConnectionActivity},
    tls::ServedCertificate,
};
use super::{
    http::HttpServer,
    http1, http2,
    metrics::{ConnectionRefusal, ListenerMetrics},
    preface::detect_http2,
    service::AcceptedStream,
    settings::ListenerSettings,
    tls::{HTTP2, TlsSettings},
    write_stall::WriteStall,
};
use crate::{
    net::tcp,
    ops::drain::DrainWatcher,
    proxy_protocol::{ProxyHeaderError, read::read_header},
};

/// Serves one connection to its end.
pub(super) async fn serve(
    accepted: AcceptedStream<TcpStream>,
    settings: Rc<ListenerSettings>,
    make_service: Rc<impl MakeService>,
    metrics: Arc<ListenerMetrics>,
    drain: DrainWatcher,
) {
    let deadline = Instant::now() + settings.handshake;
    let accepted = read_proxy_header(accepted, &settings, deadline, &metrics).await;
    let Some(accepted) = accepted else {
        return;
    };
    tcp::set_options(&accepted.stream);
    // Below TLS, which buffers some bytes even when the client takes none.
    let accepted = accepted
        .map(|stream| WriteStall::new(stream, settings.write_stall, metrics.write_stalls.clone()));
    let mut server = HttpServer {
        settings: &settings,
        make_service: &*make_service,
        metrics: &metrics,
        drain,
        certificate: None,
    };
    match &settings.tls {
        TlsSettings::Off if settings.h2c => serve_either(server, accepted).await,
        TlsSettings::Off => Box::pin(http1::serve(server, accepted)).await,
        TlsSettings::On {
            config,
            certificates,
        } => {
            let accepted = accept_tls(accepted, config, deadline, &metrics).await;
            let Some(accepted) = accepted else {
                return;
            };
            let (_, session) = accepted.stream.get_ref();
            server.certificate = certificates.served_for(session.server_name());
            if session.alpn_protocol() == Some(HTTP2) {
                Box::pin(http2::serve(server, accepted)).await;
            } else {
                Box::pin(http1::serve(server, accepted)).await;
            }
        }
    }
}

/// Without TLS only the first bytes tell the version (RFC 9113 section 3.3).
async fn serve_either<T>(server: HttpServer<'_, impl MakeService>, accepted: AcceptedStream<T>)
where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let AcceptedStream {
        stream,
        address,
        permit,
    } = accepted;
    let deadline = Instant::now() + server.settings.timeouts.first_byte;
    let (is_http2, stream) = match timeout_at(deadline, detect_http2(stream)).await {
        Ok(Ok(detected)) => detected,
        Ok(Err(error)) => return tracing::debug!(%error, "connection ended"),
        Err(_) => return server.metrics.deadlines.missed("first_byte"),
    };
    let accepted = AcceptedStream {
        stream,
        address,
        permit,
    };
    if is_http2 {
        Box::pin(http2::serve(server, accepted)).await;
    } else {
        Box::pin(http1::serve(server, accepted)).await;
    }
}

async fn accept_tls<T: AsyncRead + AsyncWrite + Unpin>(
    accepted: AcceptedStream<T>,
    config: &Arc<ServerConfig>,
    deadline: Instant,
    metrics: &ListenerMetrics,
) -> Option<AcceptedStream<TlsStream<T>>> {
    let AcceptedStream {
        stream,
        address,
        permit,
    } = accepted;
    let handshake = TlsAcceptor::from(config.clone()).accept(stream);
    match timeout_at(deadline, handshake).await {
        Ok(Ok(stream)) => Some(AcceptedStream {
            stream,
            address,
            permit,
        }),
        Ok(Err(error)) => {
            metrics.refused(ConnectionRefusal::Handshake);
            tracing::debug!(%error, "TLS handshake failed");
            None
        }
        Err(_) => {
            metrics.deadlines.missed("handshake");
            tracing::debug!("TLS handshake took too long");
            None
        }
    }
}

/// Replaces the address of a balancer by that of the client it names, before anything else is read.
///
/// From here on the client is the peer, also when forwarded headers are checked for trust: the
/// client wrote what the balancer carries, and is not one of our proxies, since the balancer is.
async fn read_proxy_header(
    mut accepted: AcceptedStream<TcpStream>,
    settings: &ListenerSettings,
    deadline: Instant,
    metrics: &ListenerMetrics,
) -> Option<AcceptedStream<TcpStream>> {
    let peer = accepted.address;
    if !settings.expects_proxy_header(peer) {
        return Some(accepted);
    }
    let reason = match timeout_at(deadline, read_header(&mut accepted.stream)).await {
        Ok(Ok(Some(client))) => return with_client(accepted, client),
        // The balancer's own connection, or one of a client without an address. It may carry many
        // clients, so the limit per client does not apply.
        Ok(Ok(None)) => return Some(accepted),
        Ok(Err(ProxyHeaderError::Missing)) => ConnectionRefusal::ProxyHeaderMissing,
        Ok(Err(ProxyHeaderError::Malformed)) => ConnectionRefusal::ProxyHeaderMalformed,
        Ok(Err(ProxyHeaderError::TooLong)) => ConnectionRefusal::ProxyHeaderTooLong,
        Ok(Err(ProxyHeaderError::Unfinished)) => ConnectionRefusal::ProxyHeaderUnfinished,
        Err(_) => ConnectionRefusal::ProxyHeaderSlow,
    };
    metrics.refused(reason);
    tracing::debug!(%peer, reason = reason.as_str(), "connection closed");
    None
}

/// `None`: the client has as many connections as it may.
fn with_client(
    accepted: AcceptedStream<TcpStream>,
    client: SocketAddr,
) -> Option<AcceptedStream<TcpStream>> {
    let permit = accepted.permit.for_client(client.ip())?;
    Some(AcceptedStream {
        stream: accepted.stream,
        address: client,
        permit,
    })
}
