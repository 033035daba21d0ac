//! The body of a response, towards the client: streamed with back-pressure, bounded, and counted.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use tokio::time::{Instant, Sleep, sleep_until};

use super::{
    body_rate::TooSlow, pooled::PooledConnection, script_insertion::ScriptInsertion,
    upload::UploadState,
};
use crate::session::usage::Usage;

/// So many bytes of a response count as use of the session even without a gap: the client may be
/// slow.
const USE_BYTES: u64 = 64 * 1024;

/// The body of a response. Read to its end, its connection goes back to the pool.
pub struct Download {
    inner: Incoming,
    pooled: Option<PooledConnection>,
    usage: Option<Usage>,
    received: u64,
    /// The part of `received` that was counted as use.
    used: u64,
    /// Longest time without a byte from the app.
    gap: Duration,
    /// When the current gap began.
    silent_since: Option<Instant>,
    upload: UploadState,
    /// The end of a gRPC call.
    deadline: Option<Pin<Box<Sleep>>>,
    /// An error to return at the next poll.
    error: Option<DownloadError>,
    /// The last frame was seen. `is_end_stream` alone does not tell for chunked bodies.
    ended: bool,
    /// Adds a script to a page; `None` for nearly all responses.
    insertion: Option<Box<ScriptInsertion>>,
}

type DownloadFrame = Option<Result<Frame<Bytes>, DownloadError>>;

/// A response broke off.
#[derive(Debug, thiserror::Error)]
pub enum DownloadError {
    /// On the connection to the app.
    #[error(transparent)]
    App(#[from] hyper::Error),
    /// The app sent nothing for too long.
    #[error("the app sent nothing more of its answer: {0}")]
    Slow(TooSlow),
    /// The deadline of a gRPC call.
    #[error("the deadline of the call has passed")]
    Deadline,
}

impl Download {
    /// `usage` is given for finite responses only: endless streams do not keep a session alive.
    /// `gap` is the longest time without a byte, `deadline` that of the whole response.
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
            silent_since: None,
            upload,
            deadline: deadline.map(|deadline| Box::pin(sleep_until(deadline))),
            error: None,
            ended: false,
            insertion: None,
        }
    }

    /// Has this tag inserted into the page that the body is.
    pub(super) fn insert(&mut self, tag: &'static str) {
        self.insertion = Some(Box::new(ScriptInsertion::new(tag)));
    }

    /// Bytes received so far.
    pub fn received(&self) -> u64 {
        self.received
    }

    /// Polled while the app has sent nothing more; ready at the deadline of the call or of the gap.
    fn poll_gap(&mut self, cx: &mut Context<'_>) -> Poll<DownloadError> {
        if let Some(deadline) = &mut self.deadline
            && deadline.as_mut().poll(cx).is_ready()
        {
            return Poll::Ready(DownloadError::Deadline);
        }
        let Some(pooled) = &mut self.pooled else {
            return Poll::Pending;
        };
        let until = *self.silent_since.get_or_insert_with(Instant::now) + self.gap;
        ready!(pooled.connection.timer.poll_elapsed(until, cx));
        pooled.connection.metrics.deadlines.missed("response_gap");
        Poll::Ready(DownloadError::Slow(TooSlow::Gap))
    }

    /// Counts the bytes, and the use of the session that they are.
    fn count(&mut self, bytes: usize, after_gap: bool) {
        self.received += bytes as u64;
        let Some(usage) = &self.usage else { return };
        // Bytes that come at once belong to the use that the request was.
        if after_gap || self.received - self.used >= USE_BYTES {
            self.used = self.received;
            usage.touch();
        }
    }

    /// The next frame of the app.
    fn poll_app(&mut self, cx: &mut Context<'_>) -> Poll<DownloadFrame> {
        if let Some(error) = self.error.take() {
            return Poll::Ready(Some(Err(error)));
        }
        // `None` only after the drop.
        let Some(pooled) = &mut self.pooled else {
            return Poll::Ready(None);
        };
        let Poll::Ready(frame) = pooled.poll_frame(cx, &mut self.inner) else {
            return self.poll_gap(cx).map(|error| Some(Err(error)));
        };
        let after_gap = self.silent_since.take().is_some();
        match frame {
            Some(Ok(frame)) => {
                if let Some(data) = frame.data_ref() {
                    self.count(data.len(), after_gap);
                }
                self.ended |= frame.is_trailers();
                Poll::Ready(Some(Ok(frame)))
            }
            Some(Err(error)) => {
                // Yields once, so that bytes before the error are written if the client has room
                // for them.
                self.error = Some(DownloadError::App(error));
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            None => {
                self.ended = true;
                Poll::Ready(None)
            }
        }
    }

    /// The next frame of a page that gets a script. Held bytes come before trailers, errors and the
    /// end.
    fn poll_page(&mut self, cx: &mut Context<'_>) -> Poll<DownloadFrame> {
        loop {
            if let Some(insertion) = &mut self.insertion
                && let Some(trailers) = insertion.trailers.take()
            {
                return Poll::Ready(Some(Ok(trailers)));
            }
            if self.ended {
                return Poll::Ready(None);
            }
            let frame = ready!(self.poll_app(cx));
            let Some(insertion) = &mut self.insertion else {
                return Poll::Ready(frame);
            };
            let held = match frame {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => match insertion.feed(data) {
                        Some(page) => Some(page),
                        None => continue,
                    },
                    Err(trailers) => {
                        let held = insertion.finish();
                        insertion.trailers = Some(trailers);
                        held
                    }
                },
                Some(Err(error)) => {
                    let held = insertion.finish();
                    if held.is_none() {
                        return Poll::Ready(Some(Err(error)));
                    }
                    self.error = Some(error);
                    held
                }
                None => {
                    let held = insertion.finish();
                    return Poll::Ready(held.map(|held| Ok(Frame::data(held))));
                }
            };
            if let Some(held) = held {
                return Poll::Ready(Some(Ok(Frame::data(held))));
            }
        }
    }
}

impl Body for Download {
    type Data = Bytes;
    type Error = DownloadError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<DownloadFrame> {
        if self.insertion.is_some() {
            self.poll_page(cx)
        } else {
            self.poll_app(cx)
        }
    }

    fn is_end_stream(&self) -> bool {
        let is_passed_on = |insertion: &ScriptInsertion| insertion.is_empty();
        self.inner.is_end_stream() && self.insertion.as_deref().is_none_or(is_passed_on)
    }

    fn size_hint(&self) -> SizeHint {
        if self.insertion.is_some() {
            return SizeHint::default();
        }
        self.inner.size_hint()
    }
}

impl Drop for Download {
    fn drop(&mut self) {
        let is_complete = self.ended || self.inner.is_end_stream();
        let Some(pooled) = self.pooled.take() else {
            return;
        };
        self.upload
            .response_ended(is_complete, pooled.app.spec.protocol);
        if is_complete {
            pooled.release();
        }
    }
}
