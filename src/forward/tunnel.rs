//! Relays the bytes of a WebSocket in both directions. It ends with a Close frame between two
//! frames (RFC 6455 section 5.5.1), to the client and to the app.

use std::{
    cell::{Cell, RefCell},
    future::poll_fn,
    io,
    pin::{Pin, pin},
    task::ready,
    time::Duration,
};

use aws_lc_rs::rand;
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf},
    sync::Notify,
    time::{Instant, sleep_until, timeout},
};

use super::{pooled::PooledConnection, websocket_frames::FrameWalker};
use crate::{
    model::route_activity::RouteActivity,
    ops::drain::DrainWatcher,
    session::usage::Usage,
    streams::{Revocation, RevocationReason},
};

/// Maximum number of bytes that a direction holds, and only while it writes them: most WebSockets
/// are silent most of the time.
const BUFFER: usize = 16 * 1024;

thread_local! {
    /// The read buffer of all tunnels of a thread.
    static READ: RefCell<Box<[u8]>> = RefCell::new(vec![0; BUFFER].into());
}
/// After one direction has ended, the other may go on for this long.
const LINGER: Duration = Duration::from_secs(30);
/// Time for the current frame and the Close frames when the gateway ends a tunnel.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// The bytes that a tunnel relayed.
#[derive(Clone, Copy, Debug, Default)]
pub struct TunnelBytes {
    /// From the client to the app.
    pub up: u64,
    /// From the app to the client.
    pub down: u64,
}

/// The content of a Close frame (RFC 6455 section 7.4).
#[derive(Clone, Copy, Debug)]
struct CloseFrame {
    code: u16,
    reason: &'static str,
}

/// No byte came for too long.
const SILENT: CloseFrame = CloseFrame {
    code: 1001,
    reason: "no data for too long",
};
/// The process stops.
const GOING_AWAY: CloseFrame = CloseFrame {
    code: 1001,
    reason: "the gateway restarts",
};

impl From<RevocationReason> for CloseFrame {
    fn from(reason: RevocationReason) -> CloseFrame {
        let reason = match reason {
            RevocationReason::SessionEnded => "the session has ended",
            RevocationReason::NoLongerAllowed => "this app is no longer for you",
            RevocationReason::AppGone => "this app is gone",
        };
        CloseFrame { code: 1008, reason }
    }
}

impl CloseFrame {
    /// The bytes of the frame; masked towards an app, as all frames of a client are (section 5.3).
    fn encode(self, masked: bool) -> Vec<u8> {
        let mut payload = self.code.to_be_bytes().to_vec();
        payload.extend_from_slice(self.reason.as_bytes());
        // All reasons are short enough for a control frame: 125 bytes.
        let length = u8::try_from(payload.len()).unwrap_or_default() & 0x7f;
        let mut frame = vec![0x88, length];
        if masked {
            let mut key = [0; 4];
            // A predictable key would do: the payload is ours, not an attacker's.
            let _ = rand::fill(&mut key);
            frame[1] |= 0x80;
            frame.extend_from_slice(&key);
            for (at, byte) in payload.iter_mut().enumerate() {
                *byte ^= key[at % 4];
            }
        }
        frame.extend_from_slice(&payload);
        frame
    }
}

/// Ends both directions. Only one thread uses it.
struct TunnelState {
    /// Set when the gateway ends the tunnel.
    close: Cell<Option<CloseFrame>>,
    /// When a byte last came, from either side.
    last_byte: Cell<Instant>,
    closing: Notify,
    /// The activity of a hub's route.
    route: Option<RouteActivity>,
}

impl TunnelState {
    fn close(&self, frame: CloseFrame) {
        self.close.set(Some(frame));
        self.closing.notify_waiters();
    }

    /// Waits until no byte came for this long.
    async fn silence(&self, idle: Duration) {
        loop {
            let until = self.last_byte.get() + idle;
            if Instant::now() >= until {
                return;
            }
            sleep_until(until).await;
        }
    }

    /// Once the tunnel is closing, an error of one direction does not end the other: each sends its
    /// own Close frame.
    fn ignore_when_closing(&self, result: io::Result<()>) -> io::Result<()> {
        if self.close.get().is_some() {
            Ok(())
        } else {
            result
        }
    }
}

/// Where the data of a tunnel counts as use.
pub struct TunnelUses {
    /// The session: data of the client.
    pub session: Option<Usage>,
    /// The route of a hub: data of both sides.
    pub route: Option<RouteActivity>,
}

/// The app's side of a tunnel.
pub struct TunnelUpstream {
    /// The stream after the 101.
    pub upgrade: OnUpgrade,
    /// The connection that it belongs to.
    pub pooled: PooledConnection,
}

/// Relays bytes until both sides have ended, one failed, the stream is revoked, or the process
/// stops. In the last two cases both sides get a Close frame, and then both are closed.
pub async fn tunnel(
    client: OnUpgrade,
    upstream: TunnelUpstream,
    uses: TunnelUses,
    revocation: &Revocation,
    mut drain: DrainWatcher,
    idle: Duration,
) -> TunnelBytes {
    let mut bytes = TunnelBytes::default();
    let state = TunnelState {
        close: Cell::default(),
        last_byte: Cell::new(Instant::now()),
        closing: Notify::new(),
        route: uses.route,
    };
    {
        let mut relay = pin!(relay(client, upstream, uses.session, &state, &mut bytes));
        let close = tokio::select! {
            result = relay.as_mut() => {
                if let Err(error) = result {
                    tracing::debug!(%error, "tunnel ended");
                }
                None
            }
            reason = revocation.revoked() => Some(CloseFrame::from(reason)),
            () = drain.stopping() => Some(GOING_AWAY),
            () = state.silence(idle) => Some(SILENT),
        };
        if let Some(close) = close {
            state.close(close);
            let _ = timeout(CLOSE_TIMEOUT, relay).await;
        }
    }
    bytes
}

/// Relays both directions until both have ended.
async fn relay(
    client: OnUpgrade,
    upstream: TunnelUpstream,
    usage: Option<Usage>,
    state: &TunnelState,
    bytes: &mut TunnelBytes,
) -> Result<(), Box<dyn std::error::Error>> {
    let client = client.await?;
    let app = upstream.upgrade.await?;
    let _held = upstream.pooled.into_websocket_parts();
    let (client_read, client_write) = split(client);
    let (app_read, app_write) = split(app);
    let to_app = Direction::ToApp(usage);
    let up = copy(client_read, app_write, to_app, state, &mut bytes.up);
    let to_client = Direction::ToClient;
    let down = copy(app_read, client_write, to_client, state, &mut bytes.down);
    let mut up = pin!(up);
    let mut down = pin!(down);
    // One direction may outlive the other, but not for ever: a side that never closes must not hold
    // the socket of the other.
    let _ = tokio::select! {
        result = &mut up => {
            state.ignore_when_closing(result)?;
            timeout(LINGER, down).await
        }
        result = &mut down => {
            state.ignore_when_closing(result)?;
            timeout(LINGER, up).await
        }
    };
    Ok(())
}

/// The direction of bytes.
enum Direction {
    /// Data frames of the client are use of its session.
    ToApp(Option<Usage>),
    ToClient,
}

fn split(upgraded: Upgraded) -> (impl AsyncRead + Unpin, impl AsyncWrite + Unpin) {
    tokio::io::split(TokioIo::new(upgraded))
}

/// The next bytes; none at the end. Cancel safe: bytes are read only when they are returned.
async fn next(from: &mut (impl AsyncRead + Unpin)) -> io::Result<Box<[u8]>> {
    poll_fn(|cx| {
        READ.with_borrow_mut(|buffer| {
            let mut read = ReadBuf::new(buffer);
            ready!(Pin::new(&mut *from).poll_read(cx, &mut read))?;
            Ok(read.filled().into()).into()
        })
    })
    .await
}

/// Copies one direction to its end.
async fn copy(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    direction: Direction,
    state: &TunnelState,
    count: &mut u64,
) -> io::Result<()> {
    let mut frames = FrameWalker::default();
    loop {
        let close = state.close.get();
        if let Some(close) = close.filter(|_| frames.is_between_frames()) {
            // After a Close frame nothing more may be sent (section 5.5.1).
            if !frames.saw_close() {
                let is_masked = matches!(direction, Direction::ToApp(_));
                to.write_all(&close.encode(is_masked)).await?;
            }
            to.shutdown().await?;
            // Discards further bytes. Unread, they would make the system reset the connection, and
            // the Close frame would be lost.
            while !next(&mut from).await?.is_empty() {}
            return Ok(());
        }
        let read = tokio::select! {
            read = next(&mut from) => read?,
            () = state.closing.notified(), if close.is_none() => continue,
        };
        if read.is_empty() {
            // Half a close is passed on; the other direction may go on.
            return to.shutdown().await;
        }
        state.last_byte.set(Instant::now());
        // The close may have been set while these bytes came. Then only the current frame passes.
        let close = state.close.get();
        let passes = if close.is_some() {
            frames.rest_of_frame(&read)
        } else {
            read.len()
        };
        let bytes = &read[..passes];
        // Pings and pongs do not count as use: an open browser window sends them.
        let has_data = frames.feed(bytes);
        if let (Direction::ToApp(Some(usage)), true, None) = (&direction, has_data, close) {
            usage.touch();
        }
        if let (Some(route), true) = (&state.route, has_data) {
            route.record();
        }
        to.write_all(bytes).await?;
        to.flush().await?;
        *count += passes as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_close_frame_says_why_and_is_masked_towards_an_app() {
        let plain = CloseFrame::from(RevocationReason::SessionEnded).encode(false);
        assert_eq!(plain[..4], [0x88, 23, 0x03, 0xf0]);
        assert_eq!(&plain[4..], b"the session has ended");
        let masked = GOING_AWAY.encode(true);
        assert_eq!(masked[..2], [0x88, 0x80 | 22]);
        let payload: Vec<u8> = masked[6..]
            .iter()
            .zip(masked[2..6].iter().cycle())
            .map(|(byte, key)| byte ^ key)
            .collect();
        assert_eq!(payload[..2], 1001_u16.to_be_bytes());
        assert_eq!(&payload[2..], b"the gateway restarts");
    }
}
