//! HTTP/1.1 for the services beside the gateway: connections with their limits and deadlines.

use std::{error::Error, net::IpAddr, pin::pin, sync::Arc, time::Duration};

use http::{Request, Response};
use hyper::{
    body::{Body, Incoming},
    server::conn::http1,
    service::Service,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
};

use crate::drain::DrainWatcher;

/// A request head must be complete within this time.
const HEAD_DEADLINE: Duration = Duration::from_secs(10);
/// Pause after a connection could not be accepted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Serves a listener until the process drains; open requests go on. `service` makes the service of
/// a connection from the address of its peer. Of more connections than `max_connections`, the later
/// ones wait.
pub async fn serve<S, B>(
    listener: TcpListener,
    max_connections: usize,
    mut drain: DrainWatcher,
    service: impl Fn(IpAddr) -> S,
) where
    S: Service<Request<Incoming>, Response = Response<B>> + Send + 'static,
    S::Future: Send,
    S::Error: Into<Box<dyn Error + Send + Sync>>,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let permits = Arc::new(Semaphore::new(max_connections));
    loop {
        // The semaphore is never closed.
        let Ok(permit) = permits.clone().acquire_owned().await else {
            return;
        };
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = drain.stopping() => return,
        };
        let Ok((stream, peer)) = accepted else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let (service, drain) = (service(peer.ip()), drain.clone());
        tokio::spawn(async move {
            serve_connection(stream, service, drain).await;
            drop(permit);
        });
    }
}

/// Serves a connection; a stop lets its request finish. Errors are of the client's connection.
async fn serve_connection<S, B>(stream: TcpStream, service: S, mut drain: DrainWatcher)
where
    S: Service<Request<Incoming>, Response = Response<B>>,
    S::Error: Into<Box<dyn Error + Send + Sync>>,
    B: Body + 'static,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_DEADLINE)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    tokio::select! {
        _ = connection.as_mut() => return,
        () = drain.stopping() => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}
