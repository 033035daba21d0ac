//! WebSockets: the handshake with the app. What follows is the `tunnel`'s.

use std::{rc::Rc, sync::Arc};

use aws_lc_rs::digest;
use base64::{Engine, engine::general_purpose::STANDARD};
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use hyper::{body::Incoming, ext};

use super::{
    Forwarded,
    body::{Upload, UploadState},
    fault::Fault,
    pool::{Pool, PoolKey},
    pooled::{PooledConnection, RequestSender, SendError},
    relay,
};
use crate::{
    model::{app::App, load::Holder},
    session::usage::Usage,
};

/// RFC 6455 section 1.3.
const ACCEPT_SUFFIX: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// Asks the app to switch. Only a valid 101 is one, or on HTTP/2 a success; any other answer is
/// relayed.
///
/// # Errors
/// As for any request; [`Fault::BadAnswer`] for a 101 that does not answer this handshake,
/// [`Fault::NoWebSockets`] for an app of HTTP/2 that does not allow it.
pub async fn handshake(
    pool: &Rc<Pool>,
    app: &Arc<App>,
    (near, holder): (PoolKey, Holder<'_>),
    mut request: Request<Upload>,
    usage: Option<Usage>,
) -> Result<Forwarded, Fault> {
    let expected = request
        .headers()
        .get(header::SEC_WEBSOCKET_KEY)
        .map(accept_value)
        .ok_or(Fault::Unsendable)?;
    // On HTTP/1.1 a connection of its own, which nothing else will ever be sent on.
    let mut pooled = pool.acquire(app, near, holder).await?;
    // Afterwards the bytes are the tunnel's, which has nothing to do with hyper's connection.
    pooled.connection.sender.spawn();
    let streams = match &pooled.connection.sender {
        RequestSender::Http1(_) => false,
        RequestSender::Http2(shared) => {
            let told =
                tokio::time::timeout(pool.settings.connect, shared.websockets.are_taken()).await;
            if !told.unwrap_or(false) {
                return Err(Fault::NoWebSockets);
            }
            extended(&mut request);
            true
        }
    };
    let sent = match pooled
        .send(request, &UploadState::none(), app.spec.timeout)
        .await
    {
        // The connection was going; nothing was sent on it.
        Err(SendError {
            unsent: Some(request),
            ..
        }) => {
            let pooled = pool.acquire_shared(app, near, holder).await?;
            pooled
                .send(*request, &UploadState::none(), app.spec.timeout)
                .await
        }
        sent => sent,
    };
    let (response, pooled) = sent.map_err(|failed| failed.fault)?;
    let accepted = if streams {
        response.status() == StatusCode::OK
    } else {
        response.status() == StatusCode::SWITCHING_PROTOCOLS
    };
    if !accepted {
        return relay(
            (response, pooled),
            usage,
            UploadState::none(),
            &pool.settings,
            None,
        );
    }
    switch(response, pooled, streams, &expected)
}

fn switch(
    mut response: Response<Incoming>,
    pooled: PooledConnection,
    streams: bool,
    expected: &str,
) -> Result<Forwarded, Fault> {
    if streams {
        let accept = HeaderValue::from_str(expected).map_err(|_| Fault::BadAnswer)?;
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        response
            .headers_mut()
            .insert(header::SEC_WEBSOCKET_ACCEPT, accept);
    } else {
        let says = |name: header::HeaderName, text: &[u8]| {
            let mut values = response.headers().get_all(name).iter();
            matches!((values.next(), values.next()), (Some(value), None) if value.as_bytes().eq_ignore_ascii_case(text))
        };
        let accepted = response
            .headers()
            .get(header::SEC_WEBSOCKET_ACCEPT)
            .map(HeaderValue::as_bytes);
        if !says(header::UPGRADE, b"websocket") || accepted != Some(expected.as_bytes()) {
            return Err(Fault::BadAnswer);
        }
    }
    let upstream = hyper::upgrade::on(&mut response);
    Ok(Forwarded::Switched {
        head: response.map(|_| ()),
        upstream,
        lease: pooled,
    })
}

/// RFC 8441 section 4: the same question on HTTP/2, which has no upgrades.
fn extended(request: &mut Request<Upload>) {
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

fn accept_value(key: &HeaderValue) -> String {
    let mut hash = digest::Context::new(&digest::SHA1_FOR_LEGACY_USE_ONLY);
    hash.update(key.as_bytes());
    hash.update(ACCEPT_SUFFIX);
    STANDARD.encode(hash.finish())
}
