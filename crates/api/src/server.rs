//! The HTTP server: routes, and connections with their limits.

use std::{pin::pin, sync::Arc, time::Duration};

use axum::{
    Router,
    extract::DefaultBodyLimit,
    response::Response,
    routing::{get, post},
};
use http::StatusCode;
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use ludgate_identity::oidc::TOKEN_CALLBACK;
use ludgate_ops::drain::DrainWatcher;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
};

use crate::{
    device_endpoint,
    graphql_endpoint::{graphql, not_allowed, refuse},
    log_endpoint::stream_log,
    state::ApiState,
    token_endpoint,
};

/// A request head must be complete within this time.
const HEAD_DEADLINE: Duration = Duration::from_secs(10);
/// Pause after a connection could not be accepted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// Open connections; further ones wait.
const MAX_CONNECTIONS: usize = 4096;
/// Largest form, in bytes. GraphQL requests have a limit of their own.
const MAX_FORM: usize = 64 * 1024;

/// Serves the listener until the process drains; open requests go on.
pub async fn serve(state: ApiState, listener: TcpListener, mut drain: DrainWatcher) {
    let router = router(state);
    let permits = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        // The semaphore is never closed.
        let Ok(permit) = permits.clone().acquire_owned().await else {
            return;
        };
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = drain.stopping() => return,
        };
        let Ok((stream, _)) = accepted else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let service = TowerToHyperService::new(router.clone());
        let drain = drain.clone();
        tokio::spawn(async move {
            serve_connection(stream, service, drain).await;
            drop(permit);
        });
    }
}

fn router(state: ApiState) -> Router {
    Router::new()
        .route("/api/graphql", post(graphql).fallback(not_allowed))
        .route("/api/logs/phapplications/{pod}", get(stream_log))
        .route("/api/logs/pods/{pod}", get(stream_log))
        .route(token_endpoint::REQUEST, get(token_endpoint::request))
        .route(TOKEN_CALLBACK, get(token_endpoint::callback))
        .route(token_endpoint::EXCHANGE, post(token_endpoint::exchange))
        .route(device_endpoint::BEGIN, post(device_endpoint::begin))
        .route(device_endpoint::POLL, post(device_endpoint::poll))
        .layer(DefaultBodyLimit::max(MAX_FORM))
        .fallback(not_found)
        .with_state(Arc::new(state))
}

/// Serves a connection; a stop lets its request finish. Errors are of the client's connection.
async fn serve_connection(
    stream: TcpStream,
    service: TowerToHyperService<Router>,
    mut drain: DrainWatcher,
) {
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

async fn not_found() -> Response {
    refuse(
        StatusCode::NOT_FOUND,
        "there is nothing at this path",
        "RESOURCE_NOT_FOUND",
    )
}
