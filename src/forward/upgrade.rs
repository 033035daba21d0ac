//! WebSockets: the handshake with the app. What follows is the `tunnel`'s.

use std::{rc::Rc, sync::Arc};

use aws_lc_rs::digest;
use base64::{Engine, engine::general_purpose::STANDARD};
use http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};

use super::{
    Forwarded, assemble,
    body::{Upload, UploadState},
    fault::Fault,
    pool::Pool,
    relay,
};
use crate::{model::app::App, session::usage::Usage};

/// RFC 6455 section 1.3.
const ACCEPT_SUFFIX: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// Asks the app to switch, on a connection of its own. Only a valid 101 is one; any other answer is relayed.
///
/// # Errors
/// As for any request; [`Fault::BadAnswer`] for a 101 that does not answer this handshake.
pub async fn handshake(
    pool: &Rc<Pool>,
    app: &Arc<App>,
    near: usize,
    uri: Uri,
    headers: HeaderMap,
    usage: Option<Usage>,
) -> Result<Forwarded, Fault> {
    let expected = headers.get(header::SEC_WEBSOCKET_KEY).map(accept_value).ok_or(Fault::Unsendable)?;
    let lease = pool.connect(app, near).await?;
    let request = assemble(Method::GET, uri, headers, Upload::empty());
    let sent = lease.send(request, &UploadState::none(), app.spec.timeout).await;
    let (mut response, lease) = sent.map_err(|failed| failed.fault)?;
    if response.status() != StatusCode::SWITCHING_PROTOCOLS {
        return relay(response, lease, usage);
    }
    let says = |name: header::HeaderName, text: &[u8]| {
        let mut values = response.headers().get_all(name).iter();
        matches!((values.next(), values.next()), (Some(value), None) if value.as_bytes().eq_ignore_ascii_case(text))
    };
    let accepted = response.headers().get(header::SEC_WEBSOCKET_ACCEPT).map(HeaderValue::as_bytes);
    if !says(header::UPGRADE, b"websocket") || accepted != Some(expected.as_bytes()) {
        return Err(Fault::BadAnswer);
    }
    let upstream = hyper::upgrade::on(&mut response);
    Ok(Forwarded::Switched { head: response.map(|_| ()), upstream })
}

fn accept_value(key: &HeaderValue) -> String {
    let mut hash = digest::Context::new(&digest::SHA1_FOR_LEGACY_USE_ONLY);
    hash.update(key.as_bytes());
    hash.update(ACCEPT_SUFFIX);
    STANDARD.encode(hash.finish())
}
