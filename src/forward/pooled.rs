//! A connection to an app for one request: a whole one of HTTP/1.1, or a stream among others on one
//! of HTTP/2.

use std::{
    error::Error,
    future::poll_fn,
    pin::Pin,
    rc::{Rc, Weak},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use futures_util::future::Either;
use http::{Request, Response};
use hyper::{
    body::{Body, Frame, Incoming},
    client::conn::{TrySendError, http2},
};
use tokio::{
    sync::{Notify, watch},
    time::Instant,
};

use super::{
    app_tls::UpstreamTlsFailure,
    body::{Upload, UploadProgress, UploadState},
    body_rate::ReusableTimer,
    fault::Fault,
    inline_connection::InlineConnection,
    interim::TooManyInterim,
    metrics::ForwardMetrics,
    pool::{Pool, PoolKey},
    proof::Proof,
};
use crate::model::{app::App, load::Taken};

/// How requests are sent on a connection.
pub enum RequestSender {
    /// One after the other.
    Http1(InlineConnection),
    /// Many at once.
    Http2(Shared),
}

/// One place on a connection of HTTP/2. The connection counts them by their clones.
#[derive(Clone)]
pub struct Shared {
    /// Sends on it.
    pub sender: http2::SendRequest<Upload>,
    /// Alive while the place is taken.
    pub slot: Rc<()>,
    /// Whether WebSockets may be opened on it.
    pub websockets: Rc<WebSocketSupport>,
}

/// Whether an app of HTTP/2 takes WebSockets (RFC 8441 section 3): known once it has told its
/// settings.
#[derive(Debug)]
pub struct WebSocketSupport {
    /// Somebody wants to know.
    pub wanted: Notify,
    /// `None`: not known yet.
    pub taken: watch::Sender<Option<bool>>,
}

impl Default for WebSocketSupport {
    fn default() -> Self {
        WebSocketSupport {
            wanted: Notify::new(),
            taken: watch::Sender::new(None),
        }
    }
}

impl WebSocketSupport {
    /// Whether it does; waits for it to say so.
    pub async fn are_taken(&self) -> bool {
        let mut told = self.taken.subscribe();
        self.wanted.notify_one();
        let taken = told.wait_for(Option::is_some).await;
        taken.is_ok_and(|taken| *taken == Some(true))
    }
}

impl RequestSender {
    /// Whether nothing can be sent any more.
    pub fn is_closed(&self) -> bool {
        match self {
            RequestSender::Http1(sender) => sender.is_closed(),
            RequestSender::Http2(shared) => shared.sender.is_closed(),
        }
    }

    fn send(
        &mut self,
        request: Request<Upload>,
    ) -> impl Future<Output = Result<Response<Incoming>, TrySendError<Request<Upload>>>> + use<>
    {
        match self {
            RequestSender::Http1(inline_connection) => {
                Either::Left(inline_connection.send(request))
            }
            RequestSender::Http2(shared) => Either::Right(shared.sender.try_send_request(request)),
        }
    }

    /// What came of something that was sent.
    fn poll<F: Future>(&mut self, cx: &mut Context<'_>, what: Pin<&mut F>) -> Poll<F::Output> {
        match self {
            RequestSender::Http1(inline_connection) => inline_connection.poll(cx, what),
            RequestSender::Http2(_) => what.poll(cx),
        }
    }

    /// The connection goes on while nobody asks what came of it.
    pub fn spawn(&mut self) {
        match self {
            RequestSender::Http1(inline_connection) => inline_connection.spawn(),
            RequestSender::Http2(_) => {}
        }
    }
}

/// A connection to an app, or a place on one. In one box from its opening to its end: it goes from
/// hand to hand with every request.
pub struct UpstreamConnection {
    /// Sends the request.
    pub sender: RequestSender,
    /// Whether a byte came since this was last set to false.
    pub heard: Arc<AtomicBool>,
    /// Its place among the connections of the app, counted for the client that uses it now.
    pub slot: Arc<Taken>,
    /// What is shown and expected on it.
    pub proof: Option<Rc<Proof>>,
    /// Whether a request was sent on it before.
    pub used_before: bool,
    /// Which of several pods, and for whom when connections are not shared among clients.
    pub near: PoolKey,
    /// Where it belongs.
    pub pool: Weak<Pool>,
    /// Counts what did not come in time.
    pub metrics: Arc<ForwardMetrics>,
    /// Runs while an answer, or more of one, is waited for.
    pub timer: ReusableTimer,
    /// When it was last given back, or opened.
    pub since: std::time::Instant,
}

/// A connection for one request. Dropped, it is closed, or its stream is reset; given back, it may
/// be used again.
pub struct PooledConnection {
    /// The connection.
    pub connection: Box<UpstreamConnection>,
    /// Where it leads.
    pub app: Arc<App>,
}

/// A request that got no answer.
pub struct SendError {
    /// Why.
    pub fault: Fault,
    /// The request itself, when not a byte of it was written.
    pub unsent: Option<Box<Request<Upload>>>,
}

impl From<Fault> for SendError {
    fn from(fault: Fault) -> SendError {
        SendError {
            fault,
            unsent: None,
        }
    }
}

impl PooledConnection {
    /// Sends one request and waits for the head of its answer.
    ///
    /// The app has at least the deadline, and at most twice that, from the last byte of the upload;
    /// while bytes move it owes nothing. An upload that stands still for as long ends too, as the
    /// client's fault.
    ///
    /// # Errors
    /// [`Fault::DiedUnanswered`] only when the connection was used before and not one byte came
    /// back.
    pub fn send<'u>(
        mut self,
        mut request: Request<Upload>,
        upload: &'u UploadState,
        deadline: Duration,
    ) -> impl Future<Output = Result<(Response<Incoming>, PooledConnection), SendError>> + use<'u>
    {
        let connection = &mut *self.connection;
        connection.heard.store(false, Ordering::Relaxed);
        if let Some(proof) = &connection.proof {
            proof.show(request.headers_mut());
        }
        // Boxed, because the request is in it: what waits for it moves about.
        let mut answer = Box::pin(connection.sender.send(request));
        connection.timer.set(Instant::now() + deadline);
        let (mut sent, mut waiting) = (0, Some(self));
        poll_fn(move |cx| {
            loop {
                let Some(PooledConnection { connection, .. }) = &mut waiting else {
                    return Poll::Pending;
                };
                let answered = connection.sender.poll(cx, answer.as_mut());
                if answered.is_pending() && connection.timer.poll(cx).is_pending() {
                    return Poll::Pending;
                }
                let fault = match answered {
                    Poll::Ready(answered) => {
                        let Some(pooled) = waiting.take() else {
                            return Poll::Pending;
                        };
                        return Poll::Ready(pooled.answered(answered, upload));
                    }
                    // Bytes moved in this window, perhaps until just now: the app gets a whole
                    // window after them.
                    Poll::Pending if upload.sent() > sent => {
                        sent = upload.sent();
                        connection.timer.set(Instant::now() + deadline);
                        continue;
                    }
                    Poll::Pending if upload.progress() == UploadProgress::Running => {
                        Fault::UploadStalled
                    }
                    Poll::Pending => Fault::HeadTimeout,
                };
                // Closes the connection.
                waiting = None;
                return Poll::Ready(Err(fault.into()));
            }
        })
    }

    fn answered(
        self,
        answered: Result<Response<Incoming>, TrySendError<Request<Upload>>>,
        upload: &UploadState,
    ) -> Result<(Response<Incoming>, PooledConnection), SendError> {
        match answered {
            Ok(mut response) => {
                if let Some(proof) = &self.connection.proof {
                    // Dropped with its lease, the connection is closed.
                    proof.check(response.headers_mut())?;
                }
                Ok((response, self))
            }
            Err(failed) => Err(self.failed(failed, upload)),
        }
    }

    fn failed(&self, mut failed: TrySendError<Request<Upload>>, upload: &UploadState) -> SendError {
        let unsent = failed.take_message().map(Box::new);
        let error = failed.error();
        tracing::debug!(app = %self.app.id(), error = error as &dyn Error, "the app gave no answer");
        let UpstreamConnection {
            sender,
            heard,
            used_before,
            pool,
            ..
        } = &*self.connection;
        let (heard, used_before) = (heard.load(Ordering::Relaxed), *used_before);
        let unanswered = match sender {
            RequestSender::Http1(_) => used_before && !heard,
            // Others' answers come on the same connection: of this one's only what HTTP/2 says
            // itself is known.
            RequestSender::Http2(_) => used_before && was_not_taken(error),
        };
        if unanswered
            && matches!(sender, RequestSender::Http1(_))
            && let Some(pool) = pool.upgrade()
        {
            pool.note_closed_idle(&self.app);
        }
        let fault = match upload.progress() {
            UploadProgress::Broken => Fault::ClientBody,
            UploadProgress::TooLarge => Fault::TooLarge,
            UploadProgress::TooSlow => Fault::UploadStalled,
            UploadProgress::Running | UploadProgress::Done
                if error.is_parse() || TooManyInterim::is_cause_of(error) =>
            {
                Fault::BadAnswer
            }
            UploadProgress::Running | UploadProgress::Done if unanswered => Fault::DiedUnanswered,
            UploadProgress::Running | UploadProgress::Done
                if !heard && UpstreamTlsFailure::is_of_our_certificate(error) =>
            {
                Fault::Tls(UpstreamTlsFailure::OurCertificate)
            }
            UploadProgress::Running | UploadProgress::Done => Fault::Died,
        };
        // A new connection that takes nothing is no better than none.
        SendError {
            fault,
            unsent: unsent.filter(|_| used_before),
        }
    }

    /// The next piece of the answer.
    pub fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
        body: &mut Incoming,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        match &mut self.connection.sender {
            RequestSender::Http1(inline_connection) => inline_connection.poll_frame(cx, body),
            RequestSender::Http2(_) => Pin::new(body).poll_frame(cx),
        }
    }

    /// What a WebSocket keeps of it: of HTTP/1.1 nothing, for its bytes are all that is left of the
    /// connection, and what hyper and a timer would hold for the next request is more than all the
    /// rest of it.
    pub fn into_http2_slot(self) -> Option<Shared> {
        match self.connection.sender {
            RequestSender::Http1(_) => None,
            RequestSender::Http2(shared) => Some(shared),
        }
    }

    /// Keeps the connection for the next request, unless the pool or the connection is gone.
    pub fn release(self) {
        if let Some(pool) = self.connection.pool.upgrade() {
            pool.check_in(self);
        }
    }
}

/// Whether the app says that it did nothing with a request: it refused the stream, or left before
/// it (RFC 9113 sections 8.7 and 6.8).
fn was_not_taken(error: &hyper::Error) -> bool {
    let mut cause: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<h2::Error>() {
            return error.reason() == Some(h2::Reason::REFUSED_STREAM)
                || error.is_go_away()
                || error.is_io();
        }
        cause = error.source();
    }
    false
}
