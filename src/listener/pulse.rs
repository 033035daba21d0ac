//! What a connection is waiting for, and since when: one timer for each connection, none for a
//! request.
//!
//! hyper has no deadline for the first byte, none for an idle connection that differs from that of
//! a head, and none at all on HTTP/2; so all of them are kept here, and hyper is given no timer for
//! HTTP/1.1.

use std::{
    hash::{BuildHasher, RandomState},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    task::{Context, Poll},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Instant, sleep_until},
};

use super::strict_head::StrictHead;

/// How long a connection may wait for what.
#[derive(Clone, Debug)]
pub struct Patience {
    /// For the first byte of a connection.
    pub first_byte: Duration,
    /// For the end of a request head, from its first byte.
    pub head: Duration,
    /// For the next request, from the end of the answer before.
    pub idle: Duration,
    /// The same on HTTP/2, where one connection is all that a browser has.
    pub idle_http2: Duration,
    /// How old a connection may become before it is asked to make place for another.
    pub age: Duration,
}

/// What did not come in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missed {
    /// Not a byte.
    FirstByte,
    /// The end of a head.
    Head,
    /// Another request.
    NextRequest,
    /// The connection is old: it ends with the answers that are under way.
    Age,
}

impl Missed {
    /// The word in the metric.
    pub fn as_str(self) -> &'static str {
        match self {
            Missed::FirstByte => "first_byte",
            Missed::Head => "head",
            Missed::NextRequest => "idle",
            Missed::Age => "age",
        }
    }
}

/// Of one connection. Atomic because hyper wants upgradable connections to be `Send`; only one
/// thread ever touches it. Times are milliseconds since the beginning.
#[derive(Debug)]
pub struct Pulse {
    began: Instant,
    streams: bool,
    /// How much sooner than others it is old, in thousandths: not all at once.
    sooner: u32,
    /// When the first byte came since the last answer ended; zero: none did.
    heard: AtomicU64,
    /// When the last answer ended.
    free: AtomicU64,
    served: AtomicBool,
    busy: AtomicUsize,
    leaving: AtomicBool,
    is_tunnel: AtomicBool,
}

impl Pulse {
    /// A connection that just became ready for requests; `streams`: HTTP/2.
    pub fn new(streams: bool) -> Arc<Pulse> {
        Arc::new(Pulse {
            began: Instant::now(),
            streams,
            // Random enough: every hasher has a key of its own.
            sooner: u32::try_from(RandomState::new().hash_one(0) % 100).unwrap_or(0),
            heard: AtomicU64::new(0),
            free: AtomicU64::new(0),
            served: AtomicBool::new(false),
            busy: AtomicUsize::new(0),
            leaving: AtomicBool::new(false),
            is_tunnel: AtomicBool::new(false),
        })
    }

    /// A request came; it is answered when the guard is gone.
    pub fn request(self: &Arc<Self>) -> Busy {
        self.busy.fetch_add(1, Relaxed);
        Busy(self.clone())
    }

    /// What comes from here on is no request: the connection has become a WebSocket.
    pub fn switch_to_tunnel(&self) {
        self.is_tunnel.store(true, Relaxed);
    }

    /// Whether no request has come on it yet.
    pub fn is_fresh(&self) -> bool {
        !self.served.load(Relaxed) && !self.is_busy()
    }

    /// The next answer is to be the last of this connection.
    pub fn leave(&self) {
        self.leaving.store(true, Relaxed);
    }

    /// Whether it is.
    pub fn is_leaving(&self) -> bool {
        self.leaving.load(Relaxed)
    }

    /// Whether an answer is under way.
    pub fn is_busy(&self) -> bool {
        self.busy.load(Relaxed) > 0
    }

    fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn heard(&self) {
        if self.heard.load(Relaxed) == 0 {
            // Never zero, which means that nothing came.
            self.heard.store(self.now().max(1), Relaxed);
        }
    }

    /// What it waits for, and until when; `None` while an answer is under way.
    fn waits_for(&self, patience: &Patience) -> Option<(Missed, Instant)> {
        if self.is_busy() {
            return None;
        }
        let at =
            |millis: u64, patience: Duration| self.began + Duration::from_millis(millis) + patience;
        let (heard, free) = (self.heard.load(Relaxed), self.free.load(Relaxed));
        Some(match (heard, self.served.load(Relaxed)) {
            (0, false) => (Missed::FirstByte, at(0, patience.first_byte)),
            // On HTTP/2 there are bytes that belong to no request: settings, pings.
            (_, _) if self.streams => (Missed::NextRequest, at(free, patience.idle_http2)),
            (0, true) => (Missed::NextRequest, at(free, patience.idle)),
            (heard, _) => (Missed::Head, at(heard, patience.head)),
        })
    }

    /// Waits until something did not come in time. Cancel safety: may be dropped and called again.
    pub async fn misses(&self, patience: &Patience) -> Missed {
        let old = self.began + patience.age - patience.age / 1000 * self.sooner;
        // What begins while it sleeps is not due before it wakes.
        let round = patience
            .first_byte
            .min(patience.head)
            .min(patience.idle)
            .min(patience.idle_http2);
        loop {
            let now = Instant::now();
            if now >= old && !self.is_leaving() {
                return Missed::Age;
            }
            let next = match self.waits_for(patience) {
                Some((missed, until)) if until <= now => return missed,
                Some((_, until)) => until.min(now + round),
                None => now + round,
            };
            sleep_until(if self.is_leaving() {
                next
            } else {
                next.min(old)
            })
            .await;
        }
    }
}

/// A request that is being answered.
#[derive(Debug)]
pub struct Busy(Arc<Pulse>);

impl Drop for Busy {
    fn drop(&mut self) {
        let pulse = &self.0;
        if pulse.busy.fetch_sub(1, Relaxed) == 1 {
            pulse.free.store(pulse.now(), Relaxed);
            pulse.heard.store(0, Relaxed);
            pulse.served.store(true, Relaxed);
        }
    }
}

/// What is given to hyper in place of a head that is refused: no field name or target has a NUL, so
/// that hyper answers 400, counts it as malformed and closes.
const REFUSED: &[u8] = b"\0\r\n\r\n";

/// A stream whose bytes are heard, and on HTTP/1.1 checked.
pub struct Heard<S> {
    stream: S,
    pulse: Arc<Pulse>,
    checked: Option<StrictHead>,
    refused: Refused,
}

/// What became of a check.
#[derive(Clone, Copy, Debug)]
enum Refused {
    No,
    /// The head; so much of [`REFUSED`] was given.
    Head(usize),
    /// The body.
    Body,
}

impl<S> Heard<S> {
    /// Tells the pulse what is read.
    pub fn new(stream: S, pulse: Arc<Pulse>) -> Heard<S> {
        Heard {
            stream,
            pulse,
            checked: None,
            refused: Refused::No,
        }
    }

    /// The same, with heads of HTTP/1.1 checked.
    pub fn strict(self) -> Heard<S> {
        Heard {
            checked: Some(StrictHead::default()),
            ..self
        }
    }

    /// Checks what was just read: bytes that nothing may be made of do not reach hyper, nor does
    /// anything behind them.
    fn check(&mut self, buf: &mut ReadBuf<'_>, before: usize) -> Poll<std::io::Result<()>> {
        let Some(check) = &mut self.checked else {
            return Poll::Ready(Ok(()));
        };
        if self.pulse.is_tunnel.load(Relaxed) {
            check.switch_off();
            self.checked = None;
            return Poll::Ready(Ok(()));
        }
        let wrong = match check.check(&buf.filled()[before..]) {
            Ok(ends) => {
                if ends {
                    self.pulse.leave();
                }
                return Poll::Ready(Ok(()));
            }
            Err(wrong) => wrong,
        };
        buf.set_filled(before + wrong.at);
        if wrong.in_head {
            self.refused = Refused::Head(0);
            return self.refuse(buf);
        }
        self.refused = Refused::Body;
        if wrong.at == 0 {
            self.refuse(buf)
        } else {
            Poll::Ready(Ok(()))
        }
    }

    /// What is read after a refusal.
    fn refuse(&mut self, buf: &mut ReadBuf<'_>) -> Poll<std::io::Result<()>> {
        match self.refused {
            Refused::No => {}
            Refused::Head(given) => {
                let rest = REFUSED.get(given..).unwrap_or_default();
                let lookup = rest.len().min(buf.remaining());
                buf.put_slice(&rest[..lookup]);
                self.refused = Refused::Head(given + lookup);
            }
            Refused::Body => return Poll::Ready(Err(std::io::ErrorKind::InvalidData.into())),
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Heard<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let this = &mut *self;
        if !matches!(this.refused, Refused::No) {
            return this.refuse(buf);
        }
        let before = buf.filled().len();
        let result = Pin::new(&mut this.stream).poll_read(cx, buf);
        if buf.filled().len() == before {
            return result;
        }
        this.pulse.heard();
        this.check(buf, before)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Heard<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[std::io::IoSlice<'_>],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::{advance, timeout};

    use super::*;

    const PATIENCE: Patience = Patience {
        first_byte: Duration::from_secs(10),
        head: Duration::from_secs(12),
        idle: Duration::from_secs(60),
        idle_http2: Duration::from_secs(300),
        age: Duration::from_secs(3600),
    };

    /// What is missed, and after how many seconds from now.
    async fn missed(pulse: &Pulse) -> (Missed, u64) {
        let now = Instant::now();
        let missed = pulse.misses(&PATIENCE).await;
        (missed, now.elapsed().as_secs())
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_waits_for_one_thing_at_a_time_and_each_has_its_time() {
        let pulse = Pulse::new(false);
        assert_eq!(missed(&pulse).await, (Missed::FirstByte, 10));
        pulse.heard();
        assert_eq!(
            missed(&pulse).await,
            (Missed::Head, 12),
            "from the first byte"
        );
        let pulse = Pulse::new(false);
        advance(Duration::from_secs(9)).await;
        pulse.heard();
        advance(Duration::from_secs(1)).await;
        pulse.heard();
        assert_eq!(
            missed(&pulse).await,
            (Missed::Head, 11),
            "more bytes give no more time"
        );
        let answered = pulse.request();
        assert!(
            timeout(Duration::from_secs(600), pulse.misses(&PATIENCE))
                .await
                .is_err(),
            "an answer is under way"
        );
        drop(answered);
        assert_eq!(missed(&pulse).await, (Missed::NextRequest, 60));
        pulse.heard();
        assert_eq!(missed(&pulse).await, (Missed::Head, 12));
    }

    #[tokio::test(start_paused = true)]
    async fn on_http2_bytes_between_requests_are_no_head() {
        let pulse = Pulse::new(true);
        assert_eq!(missed(&pulse).await, (Missed::FirstByte, 10));
        pulse.heard();
        assert_eq!(
            missed(&pulse).await,
            (Missed::NextRequest, 290),
            "from the beginning"
        );
        let (one, two) = (pulse.request(), pulse.request());
        drop(one);
        assert!(
            timeout(Duration::from_secs(600), pulse.misses(&PATIENCE))
                .await
                .is_err(),
            "one is still under way"
        );
        drop(two);
        pulse.heard();
        assert_eq!(missed(&pulse).await, (Missed::NextRequest, 300));
    }

    #[tokio::test(start_paused = true)]
    async fn an_old_connection_is_told_once_also_while_it_is_busy() {
        let pulse = Pulse::new(false);
        let busy = pulse.request();
        let (what, after) = missed(&pulse).await;
        assert!(
            what == Missed::Age && (3240..=3600).contains(&after),
            "{what:?} {after}"
        );
        pulse.leave();
        assert!(
            timeout(Duration::from_secs(7200), pulse.misses(&PATIENCE))
                .await
                .is_err()
        );
        drop(busy);
        assert_eq!(missed(&pulse).await, (Missed::NextRequest, 60));
    }
}
