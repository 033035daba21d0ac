//! The listener of the service.

use http::Request;
use hyper::{
    body::Incoming,
    service::{Service, service_fn},
};
use hyper_util::service::TowerToHyperService;
use ludgate_ops::http_server;
use tokio::net::TcpListener;

use super::routes::{LabsState, PeerAddress, router};

/// Open connections; further ones wait. Each event stream is one.
const MAX_CONNECTIONS: usize = 8192;

/// Serves the listener until the process drains; open requests go on, except event streams.
pub async fn serve(state: LabsState, listener: TcpListener) {
    let drain = state.drain.clone();
    let router = router(state);
    http_server::serve(listener, MAX_CONNECTIONS, drain, |peer| {
        let router = TowerToHyperService::new(router.clone());
        service_fn(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(PeerAddress(peer));
            router.call(request)
        })
    })
    .await;
}
