//! The body of an answer: a page of ours, or what the app sends; with what must happen when it is
//! over.

use std::{
    pin::Pin,
    rc::Rc,
    task::{Context, Poll},
};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};

use super::{access_log::Record, endpoints::Call, still_allowed::Question};
use crate::{
    cluster::pod_logs::Log,
    forward::body::Download,
    listener::connection::{ActiveRequest, Exchange},
    streams::{Revocation, StreamGuard, Streams},
};

/// A response that has already carried this many bytes counts as lasting.
const LASTING_BYTES: u64 = 256 * 1024;

/// The body of every response.
pub struct Answer {
    content: Content,
    /// Logs the request when the body is done or dropped.
    record: Option<Box<Record>>,
    /// Of a stream among others, told what the client takes.
    exchange: Option<Rc<Exchange>>,
    /// What of the last piece was not given yet: a stream gets small pieces, so that what its
    /// client takes is seen.
    left: Bytes,
    /// The connection is not idle while the body lives.
    busy: Option<ActiveRequest>,
}

enum Content {
    Whole(Option<Bytes>),
    Relayed {
        download: Download,
        watch: Option<Watch>,
    },
    Log {
        log: Box<Log>,
        watch: Watch,
    },
}

/// The largest piece of an answer on a stream, in bytes: a frame's.
const PIECE: usize = 16 * 1024;

fn piece(left: &mut Bytes) -> Bytes {
    left.split_to(left.len().min(PIECE))
}

/// Why a body broke off.
type Broken = Box<dyn std::error::Error + Send + Sync>;

/// Puts a response that lasts into the table of streams.
pub struct Watch {
    /// The table of this thread.
    pub streams: Rc<Streams>,
    /// The connection's cut.
    pub revocation: Rc<Revocation>,
    /// What is asked.
    pub question: Question,
    /// Set once it is listed.
    registered: Option<StreamGuard>,
}

impl Answer {
    /// A body of our own.
    pub fn whole(bytes: impl Into<Bytes>) -> Answer {
        let bytes = bytes.into();
        Answer::of(Content::Whole((!bytes.is_empty()).then_some(bytes)))
    }

    /// The app's body.
    pub fn relayed(download: Download, watch: Option<Watch>) -> Answer {
        Answer::of(Content::Relayed { download, watch })
    }

    /// The log of a pod, for as long as the question is answered well.
    pub fn log(log: Log, mut watch: Watch) -> Answer {
        watch.list();
        Answer::of(Content::Log {
            log: Box::new(log),
            watch,
        })
    }

    fn of(content: Content) -> Answer {
        Answer {
            content,
            record: None,
            exchange: None,
            left: Bytes::new(),
            busy: None,
        }
    }

    /// Ties the connection to the body.
    pub fn on_wire(mut self, exchange: Option<Rc<Exchange>>, busy: ActiveRequest) -> Answer {
        (self.exchange, self.busy) = (exchange, Some(busy));
        self
    }

    /// Ties the log record to the end of the body.
    pub fn with_record(mut self, record: Box<Record>) -> Answer {
        self.record = Some(record);
        self
    }
}

impl Watch {
    /// Nothing is asked yet.
    pub fn new(streams: &Rc<Streams>, revocation: &Rc<Revocation>, question: Question) -> Watch {
        Watch {
            streams: streams.clone(),
            revocation: revocation.clone(),
            question,
            registered: None,
        }
    }

    /// For an answer of ours.
    pub fn of(call: &Call<'_>, question: Question) -> Watch {
        Watch::new(call.streams, call.revocation, question)
    }

    /// A response becomes a stream when it has to wait for the app, or has carried much: the many
    /// small answers never touch the table.
    fn list(&mut self) {
        if self.registered.is_none() {
            let question = self.question.clone();
            self.registered = Some(
                self.streams
                    .register(self.revocation.clone(), move || question.ask()),
            );
        }
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        // A connection that is cut drops its answer; the log says why.
        let watch = match &self.content {
            Content::Relayed { watch, .. } => watch.as_ref(),
            Content::Log { watch, .. } => Some(watch),
            Content::Whole(_) => None,
        };
        if let (Some(watch), Some(record)) = (watch, &mut self.record)
            && let Some(reason) = watch.revocation.reason()
        {
            record.conclude(reason.as_str());
        }
    }
}

impl Body for Answer {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        let this = &mut *self;
        if let Some(exchange) = &this.exchange {
            exchange.taken();
            if !this.left.is_empty() {
                exchange.offered();
                return Poll::Ready(Some(Ok(Frame::data(piece(&mut this.left)))));
            }
        }
        let polled = match &mut this.content {
            Content::Whole(bytes) => {
                let bytes = bytes.take();
                if let (Some(record), Some(bytes)) = (&mut this.record, &bytes) {
                    record.add_bytes(bytes.len() as u64);
                }
                Poll::Ready(bytes.map(|bytes| Ok(Frame::data(bytes))))
            }
            Content::Relayed { download, watch } => {
                let polled = Pin::new(&mut *download).poll_frame(cx);
                if let Some(watch) = watch
                    && (polled.is_pending() || download.received() > LASTING_BYTES)
                {
                    watch.list();
                }
                if let (Poll::Ready(Some(Ok(frame))), Some(record)) = (&polled, &mut this.record) {
                    record.add_bytes(frame.data_ref().map_or(0, |data| data.len() as u64));
                }
                if let (Poll::Ready(Some(Err(_))), Some(record)) = (&polled, &mut this.record) {
                    record.broke();
                }
                polled.map_err(Into::into)
            }
            Content::Log { log, .. } => {
                let polled = Pin::new(&mut log.body).poll_frame(cx);
                if let (Poll::Ready(Some(Ok(frame))), Some(record)) = (&polled, &mut this.record) {
                    record.add_bytes(frame.data_ref().map_or(0, |data| data.len() as u64));
                }
                if let (Poll::Ready(Some(Err(_))), Some(record)) = (&polled, &mut this.record) {
                    record.broke();
                }
                polled.map_err(Into::into)
            }
        };
        let (Poll::Ready(Some(Ok(_))), Some(exchange)) = (&polled, &this.exchange) else {
            return polled;
        };
        exchange.offered();
        let left = &mut this.left;
        polled.map_ok(|frame| match frame.into_data() {
            Ok(data) => {
                *left = data;
                Frame::data(piece(left))
            }
            Err(other) => other,
        })
    }

    fn is_end_stream(&self) -> bool {
        if !self.left.is_empty() {
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
