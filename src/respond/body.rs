//! The body of an answer: ours, or the app's. It counts the transfer and ends a stream that is
//! revoked.

use std::{
    pin::Pin,
    rc::Rc,
    task::{Context, Poll},
};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};

use crate::{
    access_log::Entry,
    cluster::pod_logs::PodLog,
    forward::body::Download,
    listener::connection::{ActiveRequest, Exchange},
    streams::{Revocation, StreamGuard, StreamPolicy, Streams},
};

/// An answer that has carried this many bytes is registered as a stream.
const LASTING_BYTES: u64 = 256 * 1024;

/// The body of every answer.
pub struct ReplyBody {
    content: Content,
    /// Written to the access log when the body is complete or dropped.
    entry: Option<Box<Entry>>,
    /// On HTTP/2: knows since when the client has left bytes unread.
    exchange: Option<Rc<Exchange>>,
    /// The rest of the last piece. HTTP/2 streams get small pieces, so that slow readers show.
    rest: Bytes,
    /// The connection is not idle while the body lives.
    busy: Option<ActiveRequest>,
}

enum Content {
    Whole(Option<Bytes>),
    Relayed {
        download: Download,
        watch: Watch,
    },
    Log {
        log: Box<PodLog>,
        _registered: StreamGuard,
    },
}

/// The largest piece of an answer on an HTTP/2 stream, in bytes: the default frame size.
const PIECE: usize = 16 * 1024;

fn split_piece(rest: &mut Bytes) -> Bytes {
    rest.split_to(rest.len().min(PIECE))
}

/// Why a body broke off.
type BodyError = Box<dyn std::error::Error + Send + Sync>;

/// Registers an answer that lasts as a stream.
pub struct Watch {
    streams: Rc<Streams>,
    revocation: Rc<Revocation>,
    policy: Rc<dyn StreamPolicy>,
    /// Set once it is registered.
    registered: Option<StreamGuard>,
}

impl ReplyBody {
    /// A body of our own.
    pub fn whole(bytes: impl Into<Bytes>) -> ReplyBody {
        let bytes = bytes.into();
        ReplyBody::new(Content::Whole((!bytes.is_empty()).then_some(bytes)))
    }

    /// The app's body.
    pub fn relayed(download: Download, watch: Watch) -> ReplyBody {
        ReplyBody::new(Content::Relayed { download, watch })
    }

    /// The log of a pod, registered as a stream.
    pub fn log(log: PodLog, registered: StreamGuard) -> ReplyBody {
        ReplyBody::new(Content::Log {
            log: Box::new(log),
            _registered: registered,
        })
    }

    fn new(content: Content) -> ReplyBody {
        ReplyBody {
            content,
            entry: None,
            exchange: None,
            rest: Bytes::new(),
            busy: None,
        }
    }

    /// Ties the body to its connection. In place, because a body is large and every response has
    /// one.
    pub fn set_connection(&mut self, exchange: Option<Rc<Exchange>>, busy: ActiveRequest) {
        self.exchange = exchange;
        self.busy = Some(busy);
    }

    /// Ties the entry of the access log to the end of the body.
    pub fn set_entry(&mut self, entry: Box<Entry>) {
        self.entry = Some(entry);
    }

    fn count(&mut self, polled: &Poll<Option<Result<Frame<Bytes>, BodyError>>>) {
        let Some(entry) = &mut self.entry else { return };
        match polled {
            Poll::Ready(Some(Ok(frame))) => {
                entry.bytes += frame.data_ref().map_or(0, |data| data.len() as u64);
            }
            Poll::Ready(Some(Err(_))) => entry.broken = true,
            Poll::Ready(None) | Poll::Pending => {}
        }
    }
}

impl Watch {
    /// An answer that is not a stream yet.
    pub fn new(
        streams: &Rc<Streams>,
        revocation: &Rc<Revocation>,
        policy: Rc<dyn StreamPolicy>,
    ) -> Watch {
        Watch {
            streams: streams.clone(),
            revocation: revocation.clone(),
            policy,
            registered: None,
        }
    }

    /// Registers the answer. An answer becomes a stream when it has to wait for the app or has
    /// carried much: the many small answers never touch the table.
    fn register(&mut self) {
        if self.registered.is_none() {
            let guard = self
                .streams
                .register(self.revocation.clone(), self.policy.clone());
            self.registered = Some(guard);
        }
    }
}

impl Body for ReplyBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = &mut *self;
        if let Some(exchange) = &this.exchange {
            exchange.taken();
            if !this.rest.is_empty() {
                exchange.offered();
                return Poll::Ready(Some(Ok(Frame::data(split_piece(&mut this.rest)))));
            }
        }
        let polled = match &mut this.content {
            Content::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Content::Relayed { download, watch } => {
                let polled = Pin::new(&mut *download).poll_frame(cx);
                if polled.is_pending() || download.received() > LASTING_BYTES {
                    watch.register();
                }
                polled.map_err(Into::into)
            }
            Content::Log { log, .. } => Pin::new(&mut log.body).poll_frame(cx).map_err(Into::into),
        };
        this.count(&polled);
        let (Poll::Ready(Some(Ok(_))), Some(exchange)) = (&polled, &this.exchange) else {
            return polled;
        };
        exchange.offered();
        let rest = &mut this.rest;
        polled.map_ok(|frame| match frame.into_data() {
            Ok(data) => {
                *rest = data;
                Frame::data(split_piece(rest))
            }
            Err(other) => other,
        })
    }

    fn is_end_stream(&self) -> bool {
        if !self.rest.is_empty() {
            return false;
        }
        match &self.content {
            Content::Whole(bytes) => bytes.is_none(),
            Content::Relayed { download, .. } => download.is_end_stream(),
            Content::Log { log, .. } => log.body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            Content::Whole(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |b| b.len() as u64))
            }
            Content::Relayed { download, .. } => download.size_hint(),
            Content::Log { log, .. } => log.body.size_hint(),
        }
    }
}
