//! Bodies on their way through: streamed with back-pressure, counted, never collected.

use std::{
    cell::{Cell, RefCell},
    pin::Pin,
    rc::Rc,
    sync::Arc,
    task::{Context, Poll, Waker, ready},
    time::Duration,
};

use bytes::Bytes;
use http::HeaderMap;
use http_body_util::{Either, Full};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use tokio::time::{Instant, Sleep, sleep_until};

use super::metrics::ForwardMetrics;
use super::{
    body_rate::{BodyRate, TooSlow},
    pooled::PooledConnection,
    request_headers,
};
use crate::{model::app::Protocol, session::usage::Usage};

/// So many bytes of an answer are use by themselves, although nobody had to wait for them: its
/// client may be slow.
const USED: u64 = 64 * 1024;

/// Where the body of a request comes from: the client now, or what it sent before.
pub type Source = Either<Incoming, Full<Bytes>>;

/// The body of a request, towards the app; most have none, and all go from hand to hand.
pub struct Upload(Option<Box<Sending>>);

struct Sending {
    inner: Source,
    left: Option<u64>,
    state: UploadState,
    usage: Option<Usage>,
    body_rate: Option<BodyRate>,
    keeps_trailers: bool,
    metrics: Arc<ForwardMetrics>,
}

/// What happened to an upload, for the one who waits for the answer.
#[derive(Clone, Debug)]
pub struct UploadState(Option<Rc<Shared>>);

#[derive(Debug)]
struct Shared {
    progress: Cell<UploadProgress>,
    sent: Cell<u64>,
    answered: Cell<bool>,
    /// Whoever waits for the answer has gone.
    gone: Cell<bool>,
    /// The upload's, to be woken for that.
    waker: RefCell<Option<Waker>>,
}

/// How far an upload is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UploadProgress {
    /// Bytes are still to come.
    Running,
    /// All were sent.
    Done,
    /// The client's message is broken or ended early.
    Broken,
    /// More than the app takes.
    TooLarge,
    /// The client sends nothing, or next to nothing.
    TooSlow,
}

/// How an upload is treated.
pub struct UploadPolicy {
    /// Most bytes.
    pub limit: Option<u64>,
    /// Its bytes count as use of this session.
    pub usage: Option<Usage>,
    /// How slow it may be; `None`: as slow as it likes.
    pub body_rate: Option<BodyRate>,
    /// Trailers are part of it (gRPC). Others are dropped: they would be headers that nobody
    /// judged.
    pub keeps_trailers: bool,
    /// Counts what was too slow.
    pub metrics: Arc<ForwardMetrics>,
}

/// An upload was cut off.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the upload was cut off")]
pub struct UploadAborted;

impl UploadState {
    /// For a request without a body.
    pub fn none() -> UploadState {
        UploadState(None)
    }

    /// How far it is.
    pub fn progress(&self) -> UploadProgress {
        self.0
            .as_ref()
            .map_or(UploadProgress::Done, |shared| shared.progress.get())
    }

    /// How many bytes were passed on.
    pub fn sent(&self) -> u64 {
        self.0.as_ref().map_or(0, |shared| shared.sent.get())
    }

    /// The answer is over. Broken off, or from an app of HTTP/2, whose streams end together, it
    /// takes the upload with it: nobody watches it any more. Otherwise what still comes has the
    /// time of any body again.
    fn over(&self, whole: bool, protocol: Protocol) {
        let Some(shared) = &self.0 else { return };
        shared.answered.set(false);
        if !whole || protocol == Protocol::Http2 {
            shared.gone.set(true);
            if let Some(waker) = shared.waker.take() {
                waker.wake();
            }
        }
    }

    /// Whether it is over that way; if not, whoever polls is woken when it is.
    fn is_gone(&self, cx: &Context<'_>) -> bool {
        let Some(shared) = &self.0 else { return false };
        let mut waker = shared.waker.borrow_mut();
        if waker
            .as_ref()
            .is_none_or(|waker| !waker.will_wake(cx.waker()))
        {
            *waker = Some(cx.waker().clone());
        }
        shared.gone.get()
    }

    /// The answer has begun: the app has what it wanted, and what still comes may take its time.
    pub fn answered(&self) {
        if let Some(shared) = &self.0 {
            shared.answered.set(true);
        }
    }

    fn is_answered(&self) -> bool {
        self.0.as_ref().is_some_and(|shared| shared.answered.get())
    }

    fn set(&self, progress: UploadProgress) {
        if let Some(shared) = &self.0 {
            shared.progress.set(progress);
        }
    }

    fn add(&self, bytes: u64) {
        if let Some(shared) = &self.0 {
            shared.sent.set(shared.sent.get() + bytes);
        }
    }
}

impl Upload {
    /// No body at all.
    pub fn empty() -> Upload {
        Upload(None)
    }

    /// A body, on these terms.
    pub fn new(body: Source, terms: UploadPolicy) -> (Upload, UploadState) {
        let UploadPolicy {
            limit,
            usage,
            body_rate,
            keeps_trailers,
            metrics,
        } = terms;
        let shared = Shared {
            progress: Cell::new(UploadProgress::Running),
            sent: Cell::new(0),
            answered: Cell::new(false),
            gone: Cell::new(false),
            waker: RefCell::default(),
        };
        let state = UploadState(Some(Rc::new(shared)));
        let sending = Sending {
            inner: body,
            left: limit,
            state: state.clone(),
            usage,
            body_rate,
            keeps_trailers,
            metrics,
        };
        (Upload(Some(Box::new(sending))), state)
    }
}

impl Sending {
    fn end(&self, progress: UploadProgress) -> Poll<Option<Result<Frame<Bytes>, UploadAborted>>> {
        self.state.set(progress);
        Poll::Ready(Some(Err(UploadAborted)))
    }

    fn slow(&self, slow: TooSlow) -> Poll<Option<Result<Frame<Bytes>, UploadAborted>>> {
        self.metrics.deadlines.missed(match slow {
            TooSlow::Gap => "body_gap",
            TooSlow::Rate => "body_rate",
        });
        self.end(UploadProgress::TooSlow)
    }
}

impl Body for Upload {
    type Data = Bytes;
    type Error = UploadAborted;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, UploadAborted>>> {
        let Some(this) = &mut self.0 else {
            return Poll::Ready(None);
        };
        if this.state.is_gone(cx) {
            return this.end(UploadProgress::Broken);
        }
        loop {
            let frame = match Pin::new(&mut this.inner).poll_frame(cx) {
                Poll::Pending => {
                    let Some(body_rate) = this
                        .body_rate
                        .as_mut()
                        .filter(|_| !this.state.is_answered())
                    else {
                        return Poll::Pending;
                    };
                    let slow = ready!(body_rate.poll_gap(cx));
                    return this.slow(slow);
                }
                Poll::Ready(None) => {
                    this.state.set(UploadProgress::Done);
                    return Poll::Ready(None);
                }
                Poll::Ready(Some(Err(_))) => return this.end(UploadProgress::Broken),
                Poll::Ready(Some(Ok(frame))) => frame,
            };
            let data = match frame.into_data() {
                Ok(data) => data,
                Err(trailers) if this.keeps_trailers => match trailers.into_trailers() {
                    Ok(trailers) => return Poll::Ready(Some(Ok(Frame::trailers(plain(trailers))))),
                    Err(_) => continue,
                },
                Err(_) => continue,
            };
            if let Some(body_rate) = &mut this.body_rate
                && let Err(slow) = body_rate.record(data.len() as u64)
                && !this.state.is_answered()
            {
                return this.slow(slow);
            }
            if let Some(usage) = &this.usage {
                usage.touch();
            }
            if let Some(left) = &mut this.left {
                match left.checked_sub(data.len() as u64) {
                    Some(rest) => *left = rest,
                    None => return this.end(UploadProgress::TooLarge),
                }
            }
            this.state.add(data.len() as u64);
            if this.inner.is_end_stream() {
                this.state.set(UploadProgress::Done);
            }
            return Poll::Ready(Some(Ok(Frame::data(data))));
        }
    }

    fn is_end_stream(&self) -> bool {
        self.0
            .as_ref()
            .is_none_or(|sending| sending.inner.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        self.0.as_ref().map_or_else(
            || SizeHint::with_exact(0),
            |sending| sending.inner.size_hint(),
        )
    }
}

/// Trailers without anything that we say, or that concerns one connection only: nobody looks at
/// them a second time.
fn plain(trailers: HeaderMap) -> HeaderMap {
    let mut last = None;
    let named = trailers.into_iter().filter_map(|(name, value)| {
        last = name.or(last.take());
        Some((last.clone()?, value))
    });
    named
        .filter(|(name, _)| request_headers::passes(name))
        .collect()
}

/// The body of an answer, towards the client. When it was read to its end the connection goes back
/// to the pool.
pub struct Download {
    inner: Incoming,
    pooled: Option<PooledConnection>,
    usage: Option<Usage>,
    received: u64,
    /// What of it was counted as use.
    used: u64,
    /// The app may send nothing for so long.
    gap: Duration,
    /// Since when it sends nothing.
    silent: Option<Instant>,
    upload: UploadState,
    /// When whoever asked no longer waits (gRPC).
    deadline: Option<Pin<Box<Sleep>>>,
    /// It broke off, and whoever reads it is told next.
    broken: Option<DownloadError>,
    /// The last frame was seen; `is_end_stream` alone does not tell for chunked bodies.
    ended: bool,
}

/// How an answer ends before its end.
#[derive(Debug, thiserror::Error)]
pub enum DownloadError {
    /// As the app had it.
    #[error(transparent)]
    App(#[from] hyper::Error),
    /// The app sent nothing for too long.
    #[error("the app sent nothing more of its answer: {0}")]
    TooSlow(TooSlow),
    /// Nobody waits for it any more.
    #[error("the deadline of the call has passed")]
    Deadline,
}

impl Download {
    /// `usage` is given for finite answers only: their progress is use, an endless stream is not.
    /// Nothing may come for `gap`; `deadline` is that of the whole answer.
    pub fn new(
        inner: Incoming,
        pooled: PooledConnection,
        usage: Option<Usage>,
        upload: UploadState,
        gap: Duration,
        deadline: Option<Instant>,
    ) -> Download {
        Download {
            inner,
            pooled: Some(pooled),
            usage,
            received: 0,
            used: 0,
            gap,
            silent: None,
            upload,
            deadline: deadline.map(|deadline| Box::pin(sleep_until(deadline))),
            broken: None,
            ended: false,
        }
    }

    /// Bytes received so far.
    pub fn received(&self) -> u64 {
        self.received
    }
}

impl Body for Download {
    type Data = Bytes;
    type Error = DownloadError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, DownloadError>>> {
        let this = &mut *self;
        if let Some(error) = this.broken.take() {
            return Poll::Ready(Some(Err(error)));
        }
        // Gone only when this is dropped.
        let Some(pooled) = &mut this.pooled else {
            return Poll::Ready(None);
        };
        let Poll::Ready(frame) = pooled.poll_frame(cx, &mut this.inner) else {
            if let Some(deadline) = &mut this.deadline
                && deadline.as_mut().poll(cx).is_ready()
            {
                return Poll::Ready(Some(Err(DownloadError::Deadline)));
            }
            let until = *this.silent.get_or_insert_with(Instant::now) + this.gap;
            ready!(pooled.connection.timer.poll_elapsed(until, cx));
            pooled.connection.metrics.deadlines.missed("response_gap");
            return Poll::Ready(Some(Err(DownloadError::TooSlow(TooSlow::Gap))));
        };
        let waited = this.silent.take().is_some();
        if let Some(Ok(frame)) = &frame
            && let Some(data) = frame.data_ref()
        {
            this.received += data.len() as u64;
            // What comes at once is the use that the request was.
            if let Some(usage) = this
                .usage
                .as_ref()
                .filter(|_| waited || this.received - this.used >= USED)
            {
                this.used = this.received;
                usage.touch();
            }
        }
        if let Some(Err(error)) = frame {
            // What came before it is to reach the client first: that is written out while nothing
            // is ready here.
            this.broken = Some(DownloadError::App(error));
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        this.ended |= frame
            .as_ref()
            .is_none_or(|frame| frame.as_ref().is_ok_and(Frame::is_trailers));
        Poll::Ready(frame.map(|frame| frame.map_err(DownloadError::App)))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

impl Drop for Download {
    fn drop(&mut self) {
        let whole = self.ended || self.inner.is_end_stream();
        let Some(pooled) = self.pooled.take() else {
            return;
        };
        self.upload.over(whole, pooled.app.spec.protocol);
        if whole {
            pooled.release();
        }
    }
}
