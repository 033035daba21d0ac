//! WebSockets: the handshake with the app, then bytes both ways until one side, or the gate, ends it.

use std::{io, pin::pin, rc::Rc, sync::Arc, time::Duration};

use aws_lc_rs::digest;
use base64::{Engine, engine::general_purpose::STANDARD};
use http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::{
    Forwarded, assemble,
    body::{Upload, UploadState},
    fault::Fault,
    frames::FrameWalk,
    pool::Pool,
    relay,
};
use crate::{lifecycle::streams::Cut, model::app::App, session::usage::Usage};

/// Bytes held per direction at most.
const BUFFER: usize = 16 * 1024;
/// After one side has ended, the other may go on for this long.
const LINGER: Duration = Duration::from_secs(30);
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

/// What went through a tunnel.
#[derive(Clone, Copy, Debug, Default)]
pub struct Carried {
    /// Bytes from the client to the app.
    pub up: u64,
    /// Bytes from the app to the client.
    pub down: u64,
}

/// Carries bytes until both sides have ended, one failed, or the stream is cut; then both are closed.
pub async fn tunnel(client: OnUpgrade, upstream: OnUpgrade, usage: Option<Usage>, cut: &Cut) -> Carried {
    let mut carried = Carried::default();
    let carry = async {
        let (client, upstream) = (client.await?, upstream.await?);
        let (client_read, client_write) = split(client);
        let (upstream_read, upstream_write) = split(upstream);
        let mut walk = FrameWalk::default();
        let up = copy(client_read, upstream_write, &mut carried.up, |bytes| {
            // Only what a person sends is use; ping and pong are a browser left open.
            if let Some(usage) = &usage
                && walk.saw_data(bytes)
            {
                usage.touch();
            }
        });
        let down = copy(upstream_read, client_write, &mut carried.down, |_| {});
        let (mut up, mut down) = (pin!(up), pin!(down));
        // Half a close is honoured for a while; a side that never closes must not hold the other's socket.
        let _ = tokio::select! {
            result = &mut up => { result?; tokio::time::timeout(LINGER, down).await }
            result = &mut down => { result?; tokio::time::timeout(LINGER, up).await }
        };
        Ok::<(), Box<dyn std::error::Error>>(())
    };
    tokio::select! {
        result = carry => {
            if let Err(error) = result {
                tracing::debug!(%error, "tunnel ended");
            }
        }
        _ = cut.told() => {}
    }
    carried
}

fn split(upgraded: Upgraded) -> (impl AsyncRead + Unpin, impl AsyncWrite + Unpin) {
    tokio::io::split(TokioIo::new(upgraded))
}

async fn copy(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    count: &mut u64,
    mut look: impl FnMut(&[u8]),
) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER];
    loop {
        let read = from.read(&mut buffer).await?;
        if read == 0 {
            // Half a close is passed on as half a close; the other direction may still have something to say.
            return to.shutdown().await;
        }
        look(&buffer[..read]);
        to.write_all(&buffer[..read]).await?;
        to.flush().await?;
        *count += read as u64;
    }
}
