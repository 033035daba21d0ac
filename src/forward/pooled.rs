//! A connection of the pool, lent to one request: a whole HTTP/1.1 connection, or a stream of an
//! HTTP/2 connection. Dropping it closes the connection or resets the stream.

use std::{
    future::poll_fn,
    pin::Pin,
    rc::Weak,
    sync::{Arc, atomic::Ordering},
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response};
use hyper::{
    body::{Frame, Incoming},
    client::conn::TrySendError,
};
use tokio::time::Instant;

use super::{
    app_tls::UpstreamTlsFailure,
    fault::Fault,
    interim::TooManyInterim,
    pool::apps::AppPools,
    sender::{Http2Slot, RequestSender},
    upload::{Upload, UploadProgress, UploadState},
    upstream_connection::UpstreamConnection,
    upstream_faults::note_cause,
};
use crate::model::{app::App, error_cause::find_cause, upstream_group::InProgress};

/// A connection for one request. Released, it may be used again.
pub struct PooledConnection {
    /// The connection.
    pub connection: Box<UpstreamConnection>,
    /// The app at its other end.
    pub app: Arc<App>,
    /// The pool that it goes back to.
    pub(super) pools: Weak<AppPools>,
    /// Counts the request at one of several upstreams, once its response has begun.
    pub(super) in_progress: Option<InProgress>,
}

/// What hyper returns for a request.
type Sent = Result<Response<Incoming>, TrySendError<Request<Upload>>>;

/// A request that got no response.
pub struct SendError {
    /// The cause.
    pub fault: Fault,
    /// The request, if no byte of it was written.
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
    /// Begins to send a request. Wait for its response with [`PooledConnection::response`].
    pub fn send(&mut self, mut request: Request<Upload>) -> impl Future<Output = Sent> + use<> {
        let connection = &mut *self.connection;
        connection.has_received.store(false, Ordering::Relaxed);
        if let Some(proof) = &connection.proof {
            proof.add_to(request.headers_mut());
        }
        connection.sender.send(request)
    }

    /// Waits for the head of the response.
    ///
    /// The deadline counts from this call, and again from each moment at which bytes of the upload
    /// moved; the app has at most twice as long. An upload that stalls for as long ends too, as the
    /// client's fault.
    ///
    /// # Errors
    /// [`Fault::DiedUnanswered`] only on a connection that was used before: on HTTP/1.1 if not one
    /// byte came back; on HTTP/2 if the app refused the stream, or the connection ended. An error
    /// closes the connection.
    pub async fn response(
        mut self,
        mut sent: Pin<&mut impl Future<Output = Sent>>,
        upload: &UploadState,
        deadline: Duration,
    ) -> Result<(Response<Incoming>, PooledConnection), SendError> {
        let mut until = Instant::now() + deadline;
        let mut uploaded = 0;
        loop {
            let connection = &mut *self.connection;
            let polled = poll_fn(|cx| {
                let polled = connection.sender.poll(cx, sent.as_mut());
                if polled.is_pending() {
                    ready!(connection.timer.poll_elapsed(until, cx));
                }
                Poll::Ready(polled)
            });
            match polled.await {
                Poll::Ready(result) => return self.finish(result, upload),
                // Bytes moved within this window, perhaps a moment ago: the app gets a whole window
                // after them.
                Poll::Pending if upload.sent() > uploaded => {
                    uploaded = upload.sent();
                    until = Instant::now() + deadline;
                }
                Poll::Pending if upload.progress() == UploadProgress::Running => {
                    return Err(Fault::UploadStalled.into());
                }
                Poll::Pending => return Err(Fault::HeadTimeout.into()),
            }
        }
    }

    fn finish(
        self,
        result: Sent,
        upload: &UploadState,
    ) -> Result<(Response<Incoming>, PooledConnection), SendError> {
        match result {
            Ok(mut response) => {
                if let Some(proof) = &self.connection.proof {
                    // A failed check drops the connection, which closes it.
                    proof.check(response.headers_mut())?;
                }
                Ok((response, self))
            }
            Err(error) => Err(self.send_error(error, upload)),
        }
    }

    #[cold]
    fn send_error(
        &self,
        mut failed: TrySendError<Request<Upload>>,
        upload: &UploadState,
    ) -> SendError {
        let unsent = failed.take_message().map(Box::new);
        let error = failed.error();
        let used_before = self.connection.used_before;
        let is_unanswered = self.is_unanswered(error);
        if is_unanswered
            && matches!(self.connection.sender, RequestSender::Http1(_))
            && let Some(pools) = self.pools.upgrade()
        {
            pools.note_closed_idle(&self.app);
        }
        let fault = match upload.progress() {
            UploadProgress::Broken => Fault::ClientBody,
            UploadProgress::TooLarge => Fault::TooLarge,
            UploadProgress::Slow => Fault::UploadStalled,
            UploadProgress::Running | UploadProgress::Done => {
                note_cause(&self.app, self.app_fault(error, is_unanswered), error)
            }
        };
        SendError {
            fault,
            // A new connection that takes no request is as good as none.
            unsent: unsent.filter(|_| used_before),
        }
    }

    /// Whether a used connection ended before the app handled the request.
    fn is_unanswered(&self, error: &hyper::Error) -> bool {
        let connection = &self.connection;
        match connection.sender {
            RequestSender::Http1(_) => connection.used_before && !self.has_received(),
            // Bytes may belong to other streams, so only errors of HTTP/2 itself count.
            RequestSender::Http2(_) => connection.used_before && was_not_handled(error),
        }
    }

    fn app_fault(&self, error: &hyper::Error, is_unanswered: bool) -> Fault {
        if error.is_parse() || TooManyInterim::is_cause_of(error) {
            Fault::BadAnswer
        } else if is_unanswered {
            Fault::DiedUnanswered
        } else if !self.has_received() && UpstreamTlsFailure::is_of_our_certificate(error) {
            Fault::Tls(UpstreamTlsFailure::OurCertificate)
        } else {
            Fault::Died
        }
    }

    fn has_received(&self) -> bool {
        self.connection.has_received.load(Ordering::Relaxed)
    }

    /// The next frame of the response.
    pub fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
        body: &mut Incoming,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        self.connection.sender.poll_frame(cx, body)
    }

    /// The parts that a WebSocket needs. Of HTTP/1.1 it needs no connection: hyper's state and the
    /// timer would be more memory than the rest of the tunnel.
    pub(super) fn into_websocket_parts(self) -> (Option<Http2Slot>, Option<InProgress>) {
        let slot = match self.connection.sender {
            RequestSender::Http1(_) => None,
            RequestSender::Http2(slot) => Some(slot),
        };
        (slot, self.in_progress)
    }

    /// Puts the connection back into the pool, if both still exist.
    pub fn release(self) {
        if let Some(pools) = self.pools.upgrade() {
            pools.check_in(&self.app, self.connection);
        }
    }
}

/// Whether the app says that it did not handle the request: it refused the stream, or sent GOAWAY
/// before (RFC 9113 sections 8.7 and 6.8).
fn was_not_handled(error: &hyper::Error) -> bool {
    find_cause::<h2::Error>(error).is_some_and(|error| {
        error.reason() == Some(h2::Reason::REFUSED_STREAM) || error.is_go_away() || error.is_io()
    })
}
