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
pub struct Timeouts {
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
pub enum Timeout {
    /// Not a byte.
    FirstByte,
    /// The end of a head.
    Head,
    /// Another request.
    NextRequest,
    /// The connection is old: it ends with the answers that are under way.
    Age,
}

impl Timeout {
    /// The word in the metric.
    pub fn as_str(self) -> &'static str {
        match self {
            Timeout::FirstByte => "first_byte",
            Timeout::Head => "head",
            Timeout::NextRequest => "idle",
            Timeout::Age => "age",
        }
    }
}

/// Of one connection. Atomic because hyper wants upgradable connections to be `Send`; only one
/// thread ever touches it. Times are milliseconds since the beginning.
#[derive(Debug)]
pub struct ConnectionActivity {
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

impl ConnectionActivity {
    /// A connection that just became ready for requests; `streams`: HTTP/2.
    pub fn new(streams: bool) -> Arc<ConnectionActivity> {
        Arc::new(ConnectionActivity {
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
    pub fn request(self: &Arc<Self>) -> ActiveRequest {
        self.busy.fetch_add(1, Relaxed);
        ActiveRequest(self.clone())
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
    fn waits_for(&self, timeouts: &Timeouts) -> Option<(Timeout, Instant)> {
        if self.is_busy() {
            return None;
        }
        let at =
            |millis: u64, timeouts: Duration| self.began + Duration::from_millis(millis) + timeouts;
        let (heard, free) = (self.heard.load(Relaxed), self.free.load(Relaxed));
        Some(match (heard, self.served.load(Relaxed)) {
            (0, false) => (Timeout::FirstByte, at(0, timeouts.first_byte)),
            // On HTTP/2 there are bytes that belong to no request: settings, pings.
            (_, _) if self.streams => (Timeout::NextRequest, at(free, timeouts.idle_http2)),
            (0, true) => (Timeout::NextRequest, at(free, timeouts.idle)),
            (heard, _) => (Timeout::Head, at(heard, timeouts.head)),
        })
    }

    /// Waits until something did not come in time. Cancel safety: may be dropped and called again.
    pub async fn expired(&self, timeouts: &Timeouts) -> Timeout {
        let old = self.began + timeouts.age - timeouts.age / 1000 * self.sooner;
        // What begins while it sleeps is not due before it wakes.
        let round = timeouts
            .first_byte
            .min(timeouts.head)
            .min(timeouts.idle)
            .min(timeouts.idle_http2);
        loop {
            let now = Instant::now();
            if now >= old && !self.is_leaving() {
                return Timeout::Age;
            }
            let next = match self.waits_for(timeouts) {
                Some((expired, until)) if until <= now => return expired,
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
pub struct ActiveRequest(Arc<ConnectionActivity>);

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        let activity = &self.0;
        if activity.busy.fetch_sub(1, Relaxed) == 1 {
            activity.free.store(activity.now(), Relaxed);
            activity.heard.store(0, Relaxed);
            activity.served.store(true, Relaxed);
        }
    }
}

/// What is given to hyper in place of a head that is refused: no field name or target has a NUL, so
/// that hyper answers 400, counts it as malformed and closes.
const REFUSED: &[u8] = b"\0\r\n\r\n";

/// A stream whose bytes are heard, and on HTTP/1.1 checked.
pub struct ActivityStream<S> {
    stream: S,
    activity: Arc<ConnectionActivity>,
    checked: Option<StrictHead>,
    refused: ConnectionRefusal,
}

/// What became of a check.
#[derive(Clone, Copy, Debug)]
enum ConnectionRefusal {
    No,
    /// The head; so much of [`REFUSED`] was given.
    Head(usize),
    /// The body.
    Body,
}

impl<S> ActivityStream<S> {
    /// Tells the pulse what is read.
    pub fn new(stream: S, activity: Arc<ConnectionActivity>) -> ActivityStream<S> {
        ActivityStream {
            stream,
            activity,
            checked: None,
            refused: ConnectionRefusal::No,
        }
    }

    /// The same, with heads of HTTP/1.1 checked.
    pub fn strict(self) -> ActivityStream<S> {
        ActivityStream {
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
        if self.activity.is_tunnel.load(Relaxed) {
            check.switch_off();
            self.checked = None;
            return Poll::Ready(Ok(()));
        }
        let wrong = match check.check(&buf.filled()[before..]) {
            Ok(ends) => {
                if ends {
                    self.activity.leave();
                }
                return Poll::Ready(Ok(()));
            }
            Err(wrong) => wrong,
        };
        buf.set_filled(before + wrong.at);
        if wrong.in_head {
            self.refused = ConnectionRefusal::Head(0);
            return self.refuse(buf);
        }
        self.refused = ConnectionRefusal::Body;
        if wrong.at == 0 {
            self.refuse(buf)
        } else {
            Poll::Ready(Ok(()))
        }
    }

    /// What is read after a refusal.
    fn refuse(&mut self, buf: &mut ReadBuf<'_>) -> Poll<std::io::Result<()>> {
        match self.refused {
            ConnectionRefusal::No => {}
            ConnectionRefusal::Head(given) => {
                let rest = REFUSED.get(given..).unwrap_or_default();
                let lookup = rest.len().min(buf.remaining());
                buf.put_slice(&rest[..lookup]);
                self.refused = ConnectionRefusal::Head(given + lookup);
            }
            ConnectionRefusal::Body => {
                return Poll::Ready(Err(std::io::ErrorKind::InvalidData.into()));
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for ActivityStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let this = &mut *self;
        if !matches!(this.refused, ConnectionRefusal::No) {
            return this.refuse(buf);
        }
        let before = buf.filled().len();
        let result = Pin::new(&mut this.stream).poll_read(cx, buf);
        if buf.filled().len() == before {
            return result;
        }
        this.activity.heard();
        this.check(buf, before)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for ActivityStream<S> {
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

    const PATIENCE: Timeouts = Timeouts {
        first_byte: Duration::from_secs(10),
        head: Duration::from_secs(12),
        idle: Duration::from_secs(60),
        idle_http2: Duration::from_secs(300),
        age: Duration::from_secs(3600),
    };

    /// What is missed, and after how many seconds from now.
    async fn expired(activity: &ConnectionActivity) -> (Timeout, u64) {
        let now = Instant::now();
        let expired = activity.expired(&PATIENCE).await;
        (expired, now.elapsed().as_secs())
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_waits_for_one_thing_at_a_time_and_each_has_its_time() {
        let activity = ConnectionActivity::new(false);
        assert_eq!(expired(&activity).await, (Timeout::FirstByte, 10));
        activity.heard();
        assert_eq!(
            expired(&activity).await,
            (Timeout::Head, 12),
            "from the first byte"
        );
        let activity = ConnectionActivity::new(false);
        advance(Duration::from_secs(9)).await;
        activity.heard();
        advance(Duration::from_secs(1)).await;
        activity.heard();
        assert_eq!(
            expired(&activity).await,
            (Timeout::Head, 11),
            "more bytes give no more time"
        );
        let answered = activity.request();
        assert!(
            timeout(Duration::from_secs(600), activity.expired(&PATIENCE))
                .await
                .is_err(),
            "an answer is under way"
        );
        drop(answered);
        assert_eq!(expired(&activity).await, (Timeout::NextRequest, 60));
        activity.heard();
        assert_eq!(expired(&activity).await, (Timeout::Head, 12));
    }

    #[tokio::test(start_paused = true)]
    async fn on_http2_bytes_between_requests_are_no_head() {
        let activity = ConnectionActivity::new(true);
        assert_eq!(expired(&activity).await, (Timeout::FirstByte, 10));
        activity.heard();
        assert_eq!(
            expired(&activity).await,
            (Timeout::NextRequest, 290),
            "from the beginning"
        );
        let (one, two) = (activity.request(), activity.request());
        drop(one);
        assert!(
            timeout(Duration::from_secs(600), activity.expired(&PATIENCE))
                .await
                .is_err(),
            "one is still under way"
        );
        drop(two);
        activity.heard();
        assert_eq!(expired(&activity).await, (Timeout::NextRequest, 300));
    }

    #[tokio::test(start_paused = true)]
    async fn an_old_connection_is_told_once_also_while_it_is_busy() {
        let activity = ConnectionActivity::new(false);
        let busy = activity.request();
        let (what, after) = expired(&activity).await;
        assert!(
            what == Timeout::Age && (3240..=3600).contains(&after),
            "{what:?} {after}"
        );
        activity.leave();
        assert!(
            timeout(Duration::from_secs(7200), activity.expired(&PATIENCE))
                .await
                .is_err()
        );
        drop(busy);
        assert_eq!(expired(&activity).await, (Timeout::NextRequest, 60));
    }
}
