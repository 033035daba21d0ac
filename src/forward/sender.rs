//! Sends requests on a connection to an app, in the HTTP version that the app speaks.

use std::{
    pin::Pin,
    rc::Rc,
    task::{Context, Poll},
};

use bytes::Bytes;
use futures_util::future::Either;
use http::{Request, Response};
use hyper::{
    body::{Body, Frame, Incoming},
    client::conn::{TrySendError, http2},
};
use tokio::sync::{Notify, watch};

use super::{inline_connection::InlineConnection, upload::Upload};

/// The sending side of a connection.
pub enum RequestSender {
    /// One request at a time.
    Http1(InlineConnection),
    /// One of the concurrent requests.
    Http2(Http2Slot),
}

/// A place for one request on an HTTP/2 connection. The places in use are counted by their clones.
#[derive(Clone)]
pub struct Http2Slot {
    /// Sends a request as a stream of its own.
    pub sender: http2::SendRequest<Upload>,
    /// Its strong count is the number of places in use, plus one for the pool's own.
    pub slot: Rc<()>,
    /// Whether the app accepts WebSockets.
    pub websockets: Rc<WebSocketSupport>,
}

/// Whether an app of HTTP/2 accepts WebSockets (RFC 8441 section 3). Known after its settings came.
#[derive(Debug)]
pub struct WebSocketSupport {
    /// Notified by a request that needs the answer.
    pub wanted: Notify,
    /// `None`: not known yet.
    pub accepted: watch::Sender<Option<bool>>,
}

impl Default for WebSocketSupport {
    fn default() -> Self {
        WebSocketSupport {
            wanted: Notify::new(),
            accepted: watch::Sender::new(None),
        }
    }
}

impl WebSocketSupport {
    /// Waits for the app's settings.
    pub async fn is_accepted(&self) -> bool {
        let mut accepted = self.accepted.subscribe();
        self.wanted.notify_one();
        let known = accepted.wait_for(Option::is_some).await;
        known.is_ok_and(|accepted| *accepted == Some(true))
    }
}

impl RequestSender {
    /// Whether the connection accepts no further request.
    pub fn is_closed(&self) -> bool {
        match self {
            RequestSender::Http1(connection) => connection.is_closed(),
            RequestSender::Http2(slot) => slot.sender.is_closed(),
        }
    }

    /// Begins to send. Poll the future with [`RequestSender::poll`].
    pub(super) fn send(
        &mut self,
        request: Request<Upload>,
    ) -> impl Future<Output = Result<Response<Incoming>, TrySendError<Request<Upload>>>> + use<>
    {
        match self {
            RequestSender::Http1(connection) => Either::Left(connection.send(request)),
            RequestSender::Http2(slot) => Either::Right(slot.sender.try_send_request(request)),
        }
    }

    /// Polls a future that waits for the connection.
    pub(super) fn poll<F: Future>(
        &mut self,
        cx: &mut Context<'_>,
        future: Pin<&mut F>,
    ) -> Poll<F::Output> {
        match self {
            RequestSender::Http1(connection) => connection.poll(cx, future),
            RequestSender::Http2(_) => future.poll(cx),
        }
    }

    /// The next frame of a response.
    pub(super) fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
        body: &mut Incoming,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        match self {
            RequestSender::Http1(connection) => connection.poll_frame(cx, body),
            RequestSender::Http2(_) => Pin::new(body).poll_frame(cx),
        }
    }

    /// Lets the connection make progress on its own, without being polled by the request.
    pub fn spawn(&mut self) {
        match self {
            RequestSender::Http1(connection) => connection.spawn(),
            RequestSender::Http2(_) => {}
        }
    }
}
