//! Accepting, and one connection from its first byte to its last.

use std::{io, net::SocketAddr, pin::pin, rc::Rc, sync::Arc, time::Duration};

use hyper::{body::Incoming, server::conn::http1, service::Service};
use hyper_util::rt::{TokioIo, TokioTimer};
use socket2::{SockRef, TcpKeepalive};
use tokio::{
    net::{TcpListener, TcpStream},
    time::{Instant, sleep, timeout_at},
};
use tokio_rustls::TlsAcceptor;

pub use super::seats::Seat;
use super::{
    Settings,
    proxy_protocol::{self, Broken},
    seats::Seats,
    tls,
    write_stall::WriteStall,
};
use crate::{
    lifecycle::drain::DrainWatcher,
    telemetry::metrics::{Metrics, Refused},
};

/// Pause after an accept error that is not about one connection: no file descriptors left (EMFILE, ENFILE).
/// The connection stays in the queue, so without a pause the next try would fail at once, and so on.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// How often that is said in the log.
const TELL_EVERY: Duration = Duration::from_secs(10);
/// A quiet connection is probed after this long.
const KEEPALIVE: Duration = Duration::from_secs(60);

/// Makes the service of each connection.
pub trait Serve: 'static {
    /// The service of one connection.
    type Service: Service<http::Request<Incoming>, Response = http::Response<Self::Body>, Error = Self::Error>
        + 'static;
    /// What it answers with.
    type Body: hyper::body::Body<Data: Send, Error: Into<Box<dyn std::error::Error + Send + Sync>>> + 'static;
    /// Why a request was not answered: the connection is then closed.
    type Error: Into<Box<dyn std::error::Error + Send + Sync>>;

    /// A new connection; the future resolves when it must be closed at once. The seat is kept for as long as
    /// anything of the connection lives, a tunnel included; `drain` tells that the process stops.
    fn connected(
        &self,
        peer: SocketAddr,
        seat: Seat,
        drain: DrainWatcher,
    ) -> (Self::Service, impl Future<Output = ()> + 'static);
}

/// Takes connections until the drain; never ends before. Runs on one data thread.
pub async fn accept(
    listener: TcpListener,
    settings: Rc<Settings>,
    serve: Rc<impl Serve>,
    seats: Arc<Seats>,
    metrics: Arc<Metrics>,
    mut drain: DrainWatcher,
) {
    let mut told: Option<Instant> = None;
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = drain.stopping() => return,
        };
        let (stream, address) = match accepted {
            Ok(accepted) => accepted,
            Err(error) if is_about_one_connection(&error) => continue,
            Err(error) => {
                metrics.accept_failures.inc();
                // Counted each time, but said seldom: a log that fills helps nobody.
                if told.is_none_or(|told| told.elapsed() >= TELL_EVERY) {
                    tracing::warn!(%error, "cannot accept connections, trying again");
                    told = Some(Instant::now());
                }
                tokio::select! {
                    () = sleep(ACCEPT_PAUSE) => continue,
                    () = drain.stopping() => return,
                }
            }
        };
        // Without a seat the stream is closed without an answer: an answer costs more than a full gateway
        // can give. Who is introduced is counted under the address that will be named.
        let Some(seat) = seats.take() else { continue };
        let seat = if settings.is_introduced(address) { Some(seat) } else { seat.of_client(address.ip()) };
        let Some(seat) = seat else { continue };
        let arrived = Arrived { stream, address, seat };
        let connection = connection(arrived, settings.clone(), serve.clone(), metrics.clone(), drain.clone());
        tokio::task::spawn_local(connection);
    }
}

/// A connection that was just accepted.
struct Arrived<S> {
    stream: S,
    address: SocketAddr,
    seat: Seat,
}

async fn connection(
    arrived: Arrived<TcpStream>,
    settings: Rc<Settings>,
    serve: Rc<impl Serve>,
    metrics: Arc<Metrics>,
    drain: DrainWatcher,
) {
    let deadline = Instant::now() + settings.handshake;
    let Some(arrived) = introduced(arrived, &settings, deadline, &metrics).await else { return };
    let Arrived { stream, address, seat } = arrived;
    // Answers are written whole; waiting to fill a segment only delays the last one.
    let _ = stream.set_nodelay(true);
    // A peer that vanished without a word is noticed, also behind an idle WebSocket.
    let _ = SockRef::from(&stream).set_tcp_keepalive(&TcpKeepalive::new().with_time(KEEPALIVE));
    // Below TLS, which takes some bytes also when the client takes none.
    let stream = WriteStall::new(stream, settings.write_stall, metrics.write_stalls.clone());
    match &settings.tls {
        tls::Settings::Off => {
            http(Arrived { stream, address, seat }, &settings, &*serve, &metrics, drain).await
        }
        tls::Settings::On { config, .. } => {
            let handshake = TlsAcceptor::from(config.clone()).accept(stream);
            match timeout_at(deadline, handshake).await {
                Ok(Ok(stream)) => {
                    http(Arrived { stream, address, seat }, &settings, &*serve, &metrics, drain).await
                }
                Ok(Err(error)) => tracing::debug!(%error, "TLS handshake failed"),
                Err(_) => tracing::debug!("TLS handshake took too long"),
            }
        }
    }
}

/// With the address of the client that a balancer names, before anything else is read. From here on that is
/// the peer: also whether its forwarded headers are believed is asked of the named address. What a balancer
/// carries was written by the client that it names, who is no proxy of ours because the balancer is one.
async fn introduced(
    mut arrived: Arrived<TcpStream>,
    settings: &Settings,
    deadline: Instant,
    metrics: &Metrics,
) -> Option<Arrived<TcpStream>> {
    if !settings.is_introduced(arrived.address) {
        return Some(arrived);
    }
    let peer = arrived.address;
    let reason = match timeout_at(deadline, proxy_protocol::read(&mut arrived.stream)).await {
        Ok(Ok(Some(address))) => {
            let seat = arrived.seat.of_client(address.ip())?;
            return Some(Arrived { address, seat, ..arrived });
        }
        // The balancer's own connection, or one whose client has no address: behind it there may be many.
        Ok(Ok(None)) => return Some(arrived),
        Ok(Err(Broken::Missing)) => Refused::ProxyHeaderMissing,
        Ok(Err(Broken::Malformed)) => Refused::ProxyHeaderMalformed,
        Ok(Err(Broken::TooLong)) => Refused::ProxyHeaderTooLong,
        Ok(Err(Broken::Unfinished)) => Refused::ProxyHeaderUnfinished,
        Err(_) => Refused::ProxyHeaderSlow,
    };
    metrics.connection_refused(reason);
    tracing::debug!(%peer, reason = reason.as_str(), "connection closed");
    None
}

async fn http<S: Serve>(
    arrived: Arrived<impl tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static>,
    settings: &Settings,
    serve: &S,
    metrics: &Metrics,
    mut drain: DrainWatcher,
) {
    let Arrived { stream, address, seat } = arrived;
    let (service, ended) = serve.connected(address, seat, drain.clone());
    let mut ended = pin!(ended);
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(settings.request_head)
        .max_buf_size(settings.head_bytes)
        .max_headers(settings.head_fields)
        // The app's own Date header, or none: nothing of an answer is invented.
        .auto_date_header(false)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    let mut connection = pin!(connection);
    let mut draining = false;
    let result = loop {
        tokio::select! {
            result = connection.as_mut() => break result,
            () = ended.as_mut() => return,
            () = drain.stopping(), if !draining => {
                draining = true;
                connection.as_mut().graceful_shutdown();
            }
        }
    };
    if let Err(error) = result {
        if error.is_parse() {
            // hyper has answered by itself.
            metrics.request("malformed", if error.is_parse_too_large() { 431 } else { 400 });
        }
        tracing::debug!(%error, "connection ended");
    }
}

fn is_about_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset
    )
}
