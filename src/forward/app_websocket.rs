//! The WebSocket handshake with an app. The bytes after it are relayed by `tunnel`.

use std::{pin::pin, sync::Arc};

use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use hyper::{body::Incoming, ext};
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

use super::{
    chosen_upstream::ChosenUpstream,
    fault::Fault,
    pool::Pool,
    pooled::{PooledConnection, SendError},
    sender::RequestSender,
    tunnel::TunnelUpstream,
    upload::{Upload, UploadState},
};
use crate::model::{app::App, concurrency_limit::Holder, header_values::single};

/// The app's response to a handshake.
pub enum Handshake {
    /// The app switched protocols.
    Switched(Switched),
    /// Any other response, to be relayed.
    Declined(Response<Incoming>, PooledConnection),
}

/// A WebSocket that the app accepted.
pub struct Switched {
    /// The 101, for the client.
    pub head: Response<()>,
    /// The app's side of the tunnel.
    pub upstream: TunnelUpstream,
}

/// Asks the app to switch protocols. A valid 101 accepts, and so does any 200 on HTTP/2.
///
/// # Errors
/// As for any request; [`Fault::BadAnswer`] for a 101 that does not belong to this handshake,
/// [`Fault::NoWebSockets`] for an app of HTTP/2 that accepts none.
pub(super) async fn handshake(
    pool: &Pool,
    app: &Arc<App>,
    mut chosen: ChosenUpstream,
    holder: Holder<'_>,
    mut request: Request<Upload>,
) -> Result<Handshake, Fault> {
    let accept = request
        .headers()
        .get(header::SEC_WEBSOCKET_KEY)
        .map(|key| derive_accept_key(key.as_bytes()))
        .ok_or(Fault::Unsendable)?;
    // On HTTP/1.1 a new connection, which carries no other request.
    let mut pooled = pool.acquire(app, &mut chosen, holder).await?;
    // After the handshake the bytes belong to the tunnel, so no request polls the connection.
    pooled.connection.sender.spawn();
    let is_http2 = match &pooled.connection.sender {
        RequestSender::Http1(_) => false,
        RequestSender::Http2(slot) => {
            let accepted = slot.websockets.is_accepted();
            let accepted = tokio::time::timeout(pool.settings.connect, accepted).await;
            if !accepted.unwrap_or(false) {
                return Err(Fault::NoWebSockets);
            }
            make_extended_connect(&mut request);
            true
        }
    };
    let upload = UploadState::none();
    let response = pin!(pooled.send(request));
    let sent = match pooled.response(response, &upload, app.spec.timeout).await {
        // The connection was closing, and no byte was written.
        Err(SendError {
            unsent: Some(request),
            ..
        }) => {
            let mut pooled = pool.acquire_shared(app, chosen.key, holder).await?;
            let response = pin!(pooled.send(*request));
            pooled.response(response, &upload, app.spec.timeout).await
        }
        sent => sent,
    };
    let (mut response, mut pooled) = sent.map_err(|failed| failed.fault)?;
    pooled.in_progress = chosen.into_in_progress();
    let success = if is_http2 {
        StatusCode::OK
    } else {
        StatusCode::SWITCHING_PROTOCOLS
    };
    if response.status() != success {
        return Ok(Handshake::Declined(response, pooled));
    }
    if is_http2 {
        make_switching_protocols(&mut response, &accept)?;
    } else if !is_valid_switch(response.headers(), &accept) {
        return Err(Fault::BadAnswer);
    }
    let upgrade = hyper::upgrade::on(&mut response);
    Ok(Handshake::Switched(Switched {
        head: response.map(|_| ()),
        upstream: TunnelUpstream { upgrade, pooled },
    }))
}

/// Turns the 200 of HTTP/2 into the 101 that clients of HTTP/1.1 expect.
fn make_switching_protocols(response: &mut Response<Incoming>, accept: &str) -> Result<(), Fault> {
    let accept = HeaderValue::from_str(accept).map_err(|_| Fault::BadAnswer)?;
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    response
        .headers_mut()
        .insert(header::SEC_WEBSOCKET_ACCEPT, accept);
    Ok(())
}

/// Whether a 101 accepts this handshake (RFC 6455 section 4.1).
fn is_valid_switch(headers: &HeaderMap, accept: &str) -> bool {
    let accepted = headers
        .get(header::SEC_WEBSOCKET_ACCEPT)
        .map(HeaderValue::as_bytes);
    let is_websocket = single(headers, &header::UPGRADE)
        .is_some_and(|upgrade| upgrade.as_bytes().eq_ignore_ascii_case(b"websocket"));
    is_websocket && accepted == Some(accept.as_bytes())
}

/// RFC 8441 section 4: the handshake on HTTP/2, which has no upgrades.
fn make_extended_connect(request: &mut Request<Upload>) {
    *request.method_mut() = Method::CONNECT;
    for name in [
        header::SEC_WEBSOCKET_KEY,
        header::CONNECTION,
        header::UPGRADE,
    ] {
        request.headers_mut().remove(name);
    }
    request
        .extensions_mut()
        .insert(ext::Protocol::from_static("websocket"));
}
