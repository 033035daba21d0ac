//! Bodies on their way through: streamed with back-pressure, counted, never collected.

use std::{
    cell::Cell,
    pin::Pin,
    rc::Rc,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};

use super::pool::Lease;
use crate::{model::arrival::Framing, session::usage::Usage};

/// The body of a request, towards the app.
pub struct Upload {
    inner: Option<Incoming>,
    left: Option<u64>,
    state: UploadState,
    usage: Option<Usage>,
}

/// What happened to an upload, for the one who waits for the answer.
#[derive(Clone, Debug)]
pub struct UploadState(Option<Rc<Cell<(UploadProgress, u64)>>>);

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
}

/// An upload was cut off.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the upload was cut off")]
pub struct UploadCut;

impl UploadState {
    /// For a request without a body.
    pub fn none() -> UploadState {
        UploadState(None)
    }

    /// How far it is.
    pub fn progress(&self) -> UploadProgress {
        self.0.as_ref().map_or(UploadProgress::Done, |cell| cell.get().0)
    }

    /// How many bytes were passed on.
    pub fn sent(&self) -> u64 {
        self.0.as_ref().map_or(0, |cell| cell.get().1)
    }

    fn set(&self, progress: UploadProgress) {
        if let Some(cell) = &self.0 {
            cell.set((progress, cell.get().1));
        }
    }

    fn add(&self, bytes: u64) {
        if let Some(cell) = &self.0 {
            let (progress, sent) = cell.get();
            cell.set((progress, sent + bytes));
        }
    }
}

impl Upload {
    /// No body at all.
    pub fn empty() -> Upload {
        Upload { inner: None, left: None, state: UploadState::none(), usage: None }
    }

    /// A body of at most `limit` bytes; its bytes count as use of the session.
    pub fn new(
        body: Incoming,
        framing: Framing,
        limit: Option<u64>,
        usage: Option<Usage>,
    ) -> (Upload, UploadState) {
        match framing {
            Framing::None | Framing::Length(0) => (Upload::empty(), UploadState::none()),
            Framing::Length(_) | Framing::Chunked => {
                let state = UploadState(Some(Rc::new(Cell::new((UploadProgress::Running, 0)))));
                (Upload { inner: Some(body), left: limit, state: state.clone(), usage }, state)
            }
        }
    }
}

impl Body for Upload {
    type Data = Bytes;
    type Error = UploadCut;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, UploadCut>>> {
        let this = &mut *self;
        let Some(inner) = &mut this.inner else { return Poll::Ready(None) };
        loop {
            let frame = match ready!(Pin::new(&mut *inner).poll_frame(cx)) {
                None => {
                    this.state.set(UploadProgress::Done);
                    return Poll::Ready(None);
                }
                Some(Err(_)) => {
                    this.state.set(UploadProgress::Broken);
                    return Poll::Ready(Some(Err(UploadCut)));
                }
                Some(Ok(frame)) => frame,
            };
            // Trailers of a request are dropped: they would be headers that nobody judged.
            let Ok(data) = frame.into_data() else { continue };
            if let Some(usage) = &this.usage {
                usage.touch();
            }
            if let Some(left) = &mut this.left {
                match left.checked_sub(data.len() as u64) {
                    Some(rest) => *left = rest,
                    None => {
                        this.state.set(UploadProgress::TooLarge);
                        return Poll::Ready(Some(Err(UploadCut)));
                    }
                }
            }
            this.state.add(data.len() as u64);
            if inner.is_end_stream() {
                this.state.set(UploadProgress::Done);
            }
            return Poll::Ready(Some(Ok(Frame::data(data))));
        }
    }

    fn is_end_stream(&self) -> bool {
        self.inner.as_ref().is_none_or(Incoming::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.as_ref().map_or_else(|| SizeHint::with_exact(0), Incoming::size_hint)
    }
}

/// The body of an answer, towards the client. When it was read to its end the connection goes back to the pool.
pub struct Download {
    inner: Incoming,
    lease: Option<Lease>,
    usage: Option<Usage>,
    received: u64,
    /// The last frame was seen; `is_end_stream` alone does not tell for chunked bodies.
    ended: bool,
}

impl Download {
    /// `usage` is given for finite answers only: their progress is use, an endless stream is not.
    pub fn new(inner: Incoming, lease: Lease, usage: Option<Usage>) -> Download {
        Download { inner, lease: Some(lease), usage, received: 0, ended: false }
    }

    /// Bytes received so far.
    pub fn received(&self) -> u64 {
        self.received
    }
}

impl Body for Download {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let this = &mut *self;
        let frame = ready!(Pin::new(&mut this.inner).poll_frame(cx));
        if let Some(Ok(frame)) = &frame
            && let Some(data) = frame.data_ref()
        {
            this.received += data.len() as u64;
            if let Some(usage) = &this.usage {
                usage.touch();
            }
        }
        this.ended |= frame.as_ref().is_none_or(|frame| frame.as_ref().is_ok_and(Frame::is_trailers));
        Poll::Ready(frame)
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
        if (self.ended || self.inner.is_end_stream())
            && let Some(lease) = self.lease.take()
        {
            lease.give_back();
        }
    }
}
