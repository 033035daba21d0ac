//! Carries the bytes of a WebSocket both ways, and ends it as a WebSocket ends: with a Close frame
//! between two frames (RFC 6455 section 5.5.1), to the client and to the app.

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
    time::{Instant, sleep_until},
};

use super::{pooled::PooledConnection, websocket_frames::FrameWalker};
use crate::{
    ops::drain::DrainWatcher,
    session::usage::Usage,
    streams::{Revocation, RevocationReason},
};

/// Bytes held per direction at most, and only while they are written: most WebSockets say nothing
/// for most of the time.
const BUFFER: usize = 16 * 1024;

thread_local! {
    /// Read into by all tunnels of a thread.
    static READ: RefCell<Box<[u8]>> = RefCell::new(vec![0; BUFFER].into());
}
/// After one side has ended, the other may go on for this long.
const LINGER: Duration = Duration::from_secs(30);
/// A frame under way may come to its end for this long, and both sides may take leave; then they
/// are cut.
const POLITE: Duration = Duration::from_secs(1);

/// What went through a tunnel.
#[derive(Clone, Copy, Debug, Default)]
pub struct TunnelBytes {
    /// Bytes from the client to the app.
    pub up: u64,
    /// Bytes from the app to the client.
    pub down: u64,
}

/// What a Close frame says (RFC 6455 section 7.4).
#[derive(Clone, Copy, Debug)]
struct CloseFrame {
    code: u16,
    reason: &'static str,
}

/// Nobody said anything for too long.
const SILENT: CloseFrame = CloseFrame {
    code: 1001,
    reason: "nobody said anything",
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
    /// The frame; what goes to an app is masked, as all that a client sends is (section 5.3).
    fn frame(self, masked: bool) -> Vec<u8> {
        let mut payload = self.code.to_be_bytes().to_vec();
        payload.extend_from_slice(self.reason.as_bytes());
        // All reasons are short enough for a control frame: 125 bytes.
        let length = u8::try_from(payload.len()).unwrap_or_default() & 0x7f;
        let mut frame = vec![0x88, length];
        if masked {
            let mut key = [0; 4];
            // A key that can be guessed hides nothing here: nobody else chose what it is laid over.
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

/// Tells both directions to end. Only one thread ever touches it.
struct Stop {
    farewell: Cell<Option<CloseFrame>>,
    /// When a byte last came, from either side.
    heard: Cell<Instant>,
    told: Notify,
}

impl Stop {
    fn tell(&self, farewell: CloseFrame) {
        self.farewell.set(Some(farewell));
        self.told.notify_waiters();
    }

    /// Waits until nothing came for so long.
    async fn silence(&self, idle: Duration) {
        loop {
            let until = self.heard.get() + idle;
            if Instant::now() >= until {
                return;
            }
            sleep_until(until).await;
        }
    }
}

/// Carries bytes until both sides have ended, one failed, the stream is cut, or the process stops.
/// In the last two cases both sides are told, between frames, and then both are closed.
pub async fn tunnel(
    client: OnUpgrade,
    (upstream, pooled): (OnUpgrade, PooledConnection),
    usage: Option<Usage>,
    revocation: &Revocation,
    mut drain: DrainWatcher,
    idle: Duration,
) -> TunnelBytes {
    let mut carried = TunnelBytes::default();
    let stop = Stop {
        farewell: Cell::default(),
        heard: Cell::new(Instant::now()),
        told: Notify::new(),
    };
    {
        let carry = async {
            let (client, upstream) = (client.await?, upstream.await?);
            let _stream = pooled.into_http2_slot();
            let (client_read, client_write) = split(client);
            let (upstream_read, upstream_write) = split(upstream);
            let up = carry(
                client_read,
                upstream_write,
                Direction::ToApp(usage),
                &stop,
                &mut carried.up,
            );
            let down = carry(
                upstream_read,
                client_write,
                Direction::ToClient,
                &stop,
                &mut carried.down,
            );
            let (mut up, mut down) = (pin!(up), pin!(down));
            // Half a close is honoured for a while; a side that never closes must not hold the
            // other's socket. Once told to end, each takes leave by itself, whatever becomes of the
            // other.
            let goes_on = |result: io::Result<()>| {
                result.or_else(|error| match stop.farewell.get() {
                    Some(_) => Ok(()),
                    None => Err(error),
                })
            };
            let _ = tokio::select! {
                result = &mut up => { goes_on(result)?; tokio::time::timeout(LINGER, down).await }
                result = &mut down => { goes_on(result)?; tokio::time::timeout(LINGER, up).await }
            };
            Ok::<(), Box<dyn std::error::Error>>(())
        };
        let mut carry = pin!(carry);
        let farewell = tokio::select! {
            result = carry.as_mut() => {
                if let Err(error) = result {
                    tracing::debug!(%error, "tunnel ended");
                }
                None
            }
            reason = revocation.revoked() => Some(CloseFrame::from(reason)),
            () = drain.stopping() => Some(GOING_AWAY),
            () = stop.silence(idle) => Some(SILENT),
        };
        if let Some(farewell) = farewell {
            stop.tell(farewell);
            let _ = tokio::time::timeout(POLITE, carry).await;
        }
    }
    carried
}

/// Which way bytes go.
enum Direction {
    /// What a person sends there is use of their session.
    ToApp(Option<Usage>),
    ToClient,
}

fn split(upgraded: Upgraded) -> (impl AsyncRead + Unpin, impl AsyncWrite + Unpin) {
    tokio::io::split(TokioIo::new(upgraded))
}

/// The next bytes; none at the end. Cancel safety: bytes are taken only when they are given back.
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

async fn carry(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    direction: Direction,
    stop: &Stop,
    count: &mut u64,
) -> io::Result<()> {
    let mut walk = FrameWalker::default();
    loop {
        let farewell = stop.farewell.get();
        if let Some(farewell) = farewell.filter(|_| walk.is_between_frames()) {
            // Who has said goodbye already says nothing more (section 5.5.1).
            if !walk.saw_close() {
                to.write_all(&farewell.frame(matches!(direction, Direction::ToApp(_))))
                    .await?;
            }
            to.shutdown().await?;
            // What comes still is not for the other side any more. Unread it would make the system
            // reset the connection, and the farewell would be lost.
            while !next(&mut from).await?.is_empty() {}
            return Ok(());
        }
        let read = tokio::select! {
            read = next(&mut from) => read?,
            () = stop.told.notified(), if farewell.is_none() => continue,
        };
        if read.is_empty() {
            // Half a close is passed on as half a close; the other direction may still have
            // something to say.
            return to.shutdown().await;
        }
        stop.heard.set(Instant::now());
        // It may have been told while this came.
        let farewell = stop.farewell.get();
        // Behind the frame under way nothing goes through once the end is decided.
        let passes = if farewell.is_some() {
            walk.rest_of_frame(&read)
        } else {
            read.len()
        };
        let bytes = &read[..passes];
        // Only what a person sends is use; ping and pong are a browser left open.
        let data = walk.feed(bytes);
        if let (Direction::ToApp(Some(usage)), true, None) = (&direction, data, farewell) {
            usage.touch();
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
        let plain = CloseFrame::from(RevocationReason::SessionEnded).frame(false);
        assert_eq!(plain[..4], [0x88, 23, 0x03, 0xf0]);
        assert_eq!(&plain[4..], b"the session has ended");
        let masked = GOING_AWAY.frame(true);
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
