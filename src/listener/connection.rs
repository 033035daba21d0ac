//! One connection from its first byte to its first request: who introduces it, TLS, which HTTP it
//! speaks.

use std::{net::SocketAddr, rc::Rc, sync::Arc, time::Duration};

use hyper::{body::Incoming, service::Service};
use socket2::{SockRef, TcpKeepalive};
use tokio::{
    net::TcpStream,
    time::{Instant, timeout_at},
};
use tokio_rustls::TlsAcceptor;

use super::{
    ListenerSettings,
    http::HttpServer,
    metrics::{ConnectionRefusal, ListenerMetrics},
    preface::detect_http2,
    tls,
    write_stall::WriteStall,
};
pub use super::{
    connection_limit::ConnectionPermit,
    exchange::{Exchange, Exchanges},
    timeouts::{ActiveRequest, ConnectionActivity},
    tls::ServedCertificate,
};
use crate::{
    ops::drain::DrainWatcher,
    proxy_protocol::{self, ProxyHeaderError},
};

/// A quiet connection is probed after this long.
const KEEPALIVE: Duration = Duration::from_secs(60);

/// Makes the service of each connection.
pub trait MakeService: 'static {
    /// The service of one connection.
    type Service: Service<
            http::Request<Incoming>,
            Response = http::Response<Self::Body>,
            Error = Self::Error,
            Future: 'static,
        > + 'static;
    /// What it answers with.
    type Body: hyper::body::Body<
            Data = bytes::Bytes,
            Error: Into<Box<dyn std::error::Error + Send + Sync>>,
        > + 'static;
    /// Why a request was not answered: the connection is then closed.
    type Error: Into<Box<dyn std::error::Error + Send + Sync>>;

    /// A new connection.
    fn connected(&self, newcomer: NewConnection) -> Self::Service;
}

/// A connection that is ready for requests.
#[derive(Debug)]
pub struct NewConnection {
    /// Who is connected, or who is behind the balancer that is.
    pub address: SocketAddr,
    /// Kept for as long as anything of the connection lives, a tunnel included.
    pub permit: ConnectionPermit,
    /// The certificate that was shown; `None` without TLS of ours.
    pub certificate: Option<ServedCertificate>,
    /// Tells that the process stops.
    pub drain: DrainWatcher,
    /// Most header fields of a request.
    pub head_fields: usize,
    /// Told when a request comes, and when it is answered.
    pub activity: Arc<ConnectionActivity>,
    /// How each request is ended before its time.
    pub exchanges: Exchanges,
}

/// A connection that was just accepted.
pub struct AcceptedStream<S> {
    /// The bytes.
    pub stream: S,
    /// Who.
    pub address: SocketAddr,
    /// Its place.
    pub permit: ConnectionPermit,
}

/// Serves one connection to its end.
pub async fn connection(
    arrived: AcceptedStream<TcpStream>,
    settings: Rc<ListenerSettings>,
    serve: Rc<impl MakeService>,
    metrics: Arc<ListenerMetrics>,
    drain: DrainWatcher,
) {
    let deadline = Instant::now() + settings.handshake;
    let Some(arrived) = introduced(arrived, &settings, deadline, &metrics).await else {
        return;
    };
    let AcceptedStream {
        stream,
        address,
        permit,
    } = arrived;
    // Answers are written whole; waiting to fill a segment only delays the last one.
    let _ = stream.set_nodelay(true);
    // A peer that vanished without a word is noticed, also behind an idle WebSocket.
    let _ = SockRef::from(&stream).set_tcp_keepalive(&TcpKeepalive::new().with_time(KEEPALIVE));
    // Below TLS, which takes some bytes also when the client takes none.
    let stream = WriteStall::new(stream, settings.write_stall, metrics.write_stalls.clone());
    let serving = |certificate| HttpServer {
        settings: &settings,
        serve: &*serve,
        metrics: &metrics,
        drain,
        certificate,
    };
    match &settings.tls {
        tls::TlsSettings::Off if settings.h2c => {
            // Nothing that names the version comes before the first bytes (RFC 9113 section 3.3).
            let first = Instant::now() + settings.timeouts.first_byte;
            match timeout_at(first, detect_http2(stream)).await {
                Ok(Ok((true, stream))) => {
                    Box::pin(serving(None).http2(AcceptedStream {
                        stream,
                        address,
                        permit,
                    }))
                    .await;
                }
                Ok(Ok((false, stream))) => {
                    Box::pin(serving(None).http1(AcceptedStream {
                        stream,
                        address,
                        permit,
                    }))
                    .await;
                }
                Ok(Err(error)) => tracing::debug!(%error, "connection ended"),
                Err(_) => metrics.deadlines.missed("first_byte"),
            }
        }
        tls::TlsSettings::Off => {
            Box::pin(serving(None).http1(AcceptedStream {
                stream,
                address,
                permit,
            }))
            .await
        }
        tls::TlsSettings::On {
            config,
            certificates,
        } => {
            let handshake = TlsAcceptor::from(config.clone()).accept(stream);
            match timeout_at(deadline, handshake).await {
                Ok(Ok(stream)) => {
                    let (_, session) = stream.get_ref();
                    let certificate = certificates.served_for(session.server_name());
                    if session.alpn_protocol() == Some(tls::HTTP2) {
                        Box::pin(serving(certificate).http2(AcceptedStream {
                            stream,
                            address,
                            permit,
                        }))
                        .await;
                    } else {
                        Box::pin(serving(certificate).http1(AcceptedStream {
                            stream,
                            address,
                            permit,
                        }))
                        .await;
                    }
                }
                Ok(Err(error)) => {
                    metrics.refused(ConnectionRefusal::Handshake);
                    tracing::debug!(%error, "TLS handshake failed");
                }
                Err(_) => {
                    metrics.deadlines.missed("handshake");
                    tracing::debug!("TLS handshake took too long");
                }
            }
        }
    }
}

/// With the address of the client that a balancer names, before anything else is read. From here on
/// that is the peer: also whether its forwarded headers are believed is asked of the named address.
/// What a balancer carries was written by the client that it names, who is no proxy of ours because
/// the balancer is one.
async fn introduced(
    mut arrived: AcceptedStream<TcpStream>,
    settings: &ListenerSettings,
    deadline: Instant,
    metrics: &ListenerMetrics,
) -> Option<AcceptedStream<TcpStream>> {
    if !settings.is_introduced(arrived.address) {
        return Some(arrived);
    }
    let peer = arrived.address;
    let reason = match timeout_at(
        deadline,
        proxy_protocol::read::read_header(&mut arrived.stream),
    )
    .await
    {
        Ok(Ok(Some(address))) => {
            let permit = arrived.permit.for_client(address.ip())?;
            return Some(AcceptedStream {
                address,
                permit,
                ..arrived
            });
        }
        // The balancer's own connection, or one whose client has no address: behind it there may be
        // many.
        Ok(Ok(None)) => return Some(arrived),
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
