//! One connection once it speaks HTTP: hyper's server for the version, and everything that ends a
//! connection.

use std::{
    future::poll_fn,
    pin::{Pin, pin},
    rc::Rc,
    task::Poll,
    time::Duration,
};

use futures_util::stream::{FuturesUnordered, StreamExt};
use hyper::server::conn::{http1, http2};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};

use super::metrics::ListenerMetrics;
use super::{
    ListenerSettings,
    connection::{AcceptedStream, MakeService, NewConnection},
    exchange::{Exchange, Exchanges, Http2Executor},
    timeouts::{ActivityStream, ConnectionActivity, Timeout},
    tls::ServedCertificate,
};
use crate::ops::drain::DrainWatcher;

/// A client that answers no ping for this long is gone; it is pinged when nothing came for as long
/// as `PING_EVERY`.
const PING_PATIENCE: Duration = Duration::from_secs(20);
const PING_EVERY: Duration = Duration::from_secs(30);
/// What a client may send on one stream, and on all together, before we took any of it, in bytes.
const STREAM_WINDOW: u32 = 64 * 1024;
const CONNECTION_WINDOW: u32 = 1024 * 1024;
/// What is held of one answer that the client does not take, in bytes.
const SEND_BUFFER: usize = 16 * 1024;
/// Http2Executor that a client opens and resets at once, of which we have not heard yet (CVE-2023-44487),
/// and streams that it has us reset (CVE-2025-8671): more than so many end the connection with
/// ENHANCE_YOUR_CALM.
const RESETS_BY_CLIENT: usize = 20;
const RESETS_BY_US: usize = 256;
/// Header fields of a request that hyper takes when nothing is said.
const HYPERS_FIELDS: usize = 100;

/// What may happen beside the bytes of a connection.
enum Aside {
    /// Its request may not go on.
    Revocation,
    /// Something did not come in time.
    Timeout(Timeout),
    /// The process stops soon.
    Leaving,
    /// The process stops.
    Stopping,
}

/// Asked only when one of them has something to say: most wake-ups are for bytes.
type Asides<'c> = FuturesUnordered<Pin<Box<dyn Future<Output = Aside> + 'c>>>;

/// What a connection serves, and how.
pub struct HttpServer<'c, S> {
    /// The listener's.
    pub settings: &'c ListenerSettings,
    /// Makes the service.
    pub serve: &'c S,
    /// Counts what ends it.
    pub metrics: &'c ListenerMetrics,
    /// Tells that the process stops.
    pub drain: DrainWatcher,
    /// The certificate that was shown.
    pub certificate: Option<ServedCertificate>,
}

impl<S: MakeService> HttpServer<'_, S> {
    /// HTTP/1.1 until the connection ends.
    pub async fn http1<T: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
        self,
        arrived: AcceptedStream<T>,
    ) {
        let HttpServer {
            settings,
            serve,
            metrics,
            mut drain,
            certificate,
        } = self;
        let mut soon = drain.clone();
        let AcceptedStream {
            stream,
            address,
            permit,
        } = arrived;
        let (activity, exchange) = (ConnectionActivity::new(false), Rc::new(Exchange::default()));
        let expired = || async { Aside::Timeout(activity.expired(&settings.timeouts).await) };
        let newcomer = NewConnection {
            address,
            permit,
            certificate,
            drain: drain.clone(),
            head_fields: settings.head_fields,
            activity: activity.clone(),
            exchanges: Exchanges::Whole(exchange.clone()),
        };
        let mut http1 = http1::Builder::new();
        if settings.head_fields != HYPERS_FIELDS {
            // Said, it is made room for anew with each head, also when it is what hyper takes
            // anyway.
            http1.max_headers(settings.head_fields);
        }
        let connection = http1
            .max_buf_size(settings.head_bytes)
            // The buffer alone lets a larger head pass that comes in one piece.
            .max_header_size(settings.head_bytes)
            // The app's own Date header, or none: nothing of an answer is invented.
            .auto_date_header(false)
            .serve_connection(
                TokioIo::new(ActivityStream::new(stream, activity.clone()).strict()),
                serve.connected(newcomer),
            )
            .with_upgrades();
        let mut connection = pin!(connection);
        let mut asides = Asides::new();
        asides.push(Box::pin(async {
            exchange.revocation.revoked().await;
            Aside::Revocation
        }));
        asides.push(Box::pin(expired()));
        asides.push(Box::pin(async {
            soon.leaving().await;
            Aside::Leaving
        }));
        asides.push(Box::pin(async {
            drain.stopping().await;
            Aside::Stopping
        }));
        let result = loop {
            let aside = poll_fn(|cx| match connection.as_mut().poll(cx) {
                Poll::Ready(result) => Poll::Ready(Err(result)),
                Poll::Pending => asides.poll_next_unpin(cx).map(Ok),
            });
            match aside.await {
                Err(result) => break result,
                Ok(Some(Aside::Timeout(Timeout::Age))) => {
                    metrics.deadlines.missed(Timeout::Age.as_str());
                    activity.leave();
                    asides.push(Box::pin(expired()));
                }
                Ok(Some(Aside::Timeout(
                    expired @ (Timeout::FirstByte | Timeout::Head | Timeout::NextRequest),
                ))) => {
                    metrics.deadlines.missed(expired.as_str());
                    return;
                }
                // The next answer says `Connection: close`; who asks for nothing more is closed
                // when we stop.
                Ok(Some(Aside::Leaving)) => activity.leave(),
                // A request may be on its way on a connection that was accepted and has brought
                // none: it is answered, and waited for no longer than for any first byte.
                Ok(Some(Aside::Stopping)) if activity.is_fresh() => activity.leave(),
                Ok(Some(Aside::Stopping)) => connection.as_mut().graceful_shutdown(),
                Ok(Some(Aside::Revocation) | None) => return,
            }
        };
        if let Err(error) = result {
            if error.is_parse() {
                // hyper has answered by itself.
                metrics.requests.count(
                    "malformed",
                    if error.is_parse_too_large() { 431 } else { 400 },
                );
            }
            tracing::debug!(%error, "connection ended");
        }
    }

    /// HTTP/2 until the connection ends (RFC 9113), with WebSockets (RFC 8441).
    pub async fn http2<T: AsyncRead + AsyncWrite + Unpin + 'static>(
        self,
        arrived: AcceptedStream<T>,
    ) {
        let HttpServer {
            settings,
            serve,
            metrics,
            mut drain,
            certificate,
        } = self;
        let mut soon = drain.clone();
        let AcceptedStream {
            stream,
            address,
            permit,
        } = arrived;
        let activity = ConnectionActivity::new(true);
        let streams = Http2Executor::new(settings.write_stall, metrics.write_stalls.clone());
        let newcomer = NewConnection {
            address,
            permit,
            certificate,
            drain: drain.clone(),
            head_fields: settings.head_fields,
            activity: activity.clone(),
            exchanges: Exchanges::Each(streams.clone()),
        };
        // On a balancer's connection there are many people: one whose upload is not taken must not
        // hold up the others.
        let all = settings
            .streams
            .saturating_mul(STREAM_WINDOW)
            .clamp(CONNECTION_WINDOW, 1 << 30);
        let window = if settings.h2c { all } else { CONNECTION_WINDOW };
        let connection = http2::Builder::new(streams)
            .timer(TokioTimer::new())
            .keep_alive_interval(PING_EVERY)
            .keep_alive_timeout(PING_PATIENCE)
            .max_concurrent_streams(settings.streams)
            .max_header_list_size(u32::try_from(settings.head_bytes).unwrap_or(u32::MAX))
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(window)
            .max_send_buf_size(SEND_BUFFER)
            .max_pending_accept_reset_streams(RESETS_BY_CLIENT)
            .max_local_error_reset_streams(RESETS_BY_US)
            .enable_connect_protocol()
            .auto_date_header(false)
            .serve_connection(
                TokioIo::new(ActivityStream::new(stream, activity.clone())),
                serve.connected(newcomer),
            );
        let mut connection = pin!(connection);
        // Who comes while we leave may as well be served: the end comes soon enough.
        let mut told = drain.is_leaving();
        let mut stopping = false;
        let result = loop {
            tokio::select! {
                result = connection.as_mut() => break result,
                expired = activity.expired(&settings.timeouts) => {
                    metrics.deadlines.missed(expired.as_str());
                    match expired {
                        Timeout::FirstByte | Timeout::Head => return,
                        Timeout::Age => {
                            activity.leave();
                            connection.as_mut().graceful_shutdown();
                        }
                        Timeout::NextRequest => {
                            // Two GOAWAYs with a ping between them: what is on its way is still
                            // answered.
                            connection.as_mut().graceful_shutdown();
                            while tokio::time::timeout(PING_PATIENCE, connection.as_mut()).await.is_err() {
                                // A request that crossed the farewell is answered first.
                                if !activity.is_busy() {
                                    return;
                                }
                            }
                            return;
                        }
                    }
                }
                () = soon.leaving(), if !told => {
                    told = true;
                    activity.leave();
                    connection.as_mut().graceful_shutdown();
                }
                () = drain.stopping(), if !stopping => {
                    stopping = true;
                    connection.as_mut().graceful_shutdown();
                }
            }
        };
        if let Err(error) = result {
            tracing::debug!(%error, "connection ended");
        }
    }
}
