//! The HTTP server: its routes.

use std::sync::Arc;

use axum::{
    Router,
    extract::DefaultBodyLimit,
    response::Response,
    routing::{any, get, post},
};
use http::StatusCode;
use hyper_util::service::TowerToHyperService;
use ludgate_identity::oidc::TOKEN_CALLBACK;
use ludgate_ops::{drain::DrainWatcher, http_server};
use tokio::net::TcpListener;

use crate::{
    device_endpoint,
    graphql_endpoint::{graphql, not_allowed, refuse},
    installations::endpoint as installations,
    log_endpoint::stream_log,
    state::ApiState,
    token_endpoint,
};

/// Open connections; further ones wait.
const MAX_CONNECTIONS: usize = 4096;
/// Largest form, in bytes. GraphQL and `/api/v2` have limits of their own.
const MAX_FORM: usize = 64 * 1024;

/// Serves the listener until the process drains; open requests go on.
pub async fn serve(state: ApiState, listener: TcpListener, drain: DrainWatcher) {
    let router = router(state);
    http_server::serve(listener, MAX_CONNECTIONS, drain, |_| {
        TowerToHyperService::new(router.clone())
    })
    .await;
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
        .route(installations::ROUTE, any(installations::answer))
        .layer(DefaultBodyLimit::max(MAX_FORM))
        .fallback(not_found)
        .with_state(Arc::new(state))
}

async fn not_found() -> Response {
    refuse(
        StatusCode::NOT_FOUND,
        "there is nothing at this path",
        "RESOURCE_NOT_FOUND",
    )
}
