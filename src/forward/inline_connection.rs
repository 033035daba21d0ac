//! A connection of HTTP/1.1 to an app that has no task of its own: whoever uses it moves it on.
//!
//! An answer then reaches its client within one wake-up of one task, instead of being handed from
//! one to another. What the request and its answer wait for is the connection, and nothing else; so
//! the channels between them are asked with a waker that wakes nobody, after the connection itself
//! was asked. And what the connection is told by that is not told to the task that tells it.

use std::{
    pin::{Pin, pin},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    task::{Context, Poll, Wake, Waker},
};

use futures_util::task::AtomicWaker;
use http::{Request, Response};
use hyper::{
    body::{Body, Bytes, Frame, Incoming},
    client::conn::{TrySendError, http1},
    rt::{Read, Write},
};
use tokio::task::coop::unconstrained;

use super::body::Upload;

/// Sends requests on a connection, one after the other.
pub struct InlineConnection {
    sender: http1::SendRequest<Upload>,
    /// `None`: it goes on by itself, or is over.
    connection: Option<Box<dyn PollConnection>>,
    bell: Arc<PollWaker>,
    waker: Waker,
}

/// Wakes whoever uses the connection now. Atomic because wakers are; only one thread ever touches
/// it.
#[derive(Default)]
struct PollWaker {
    user: AtomicWaker,
    /// What is told now is told by the user.
    quiet: AtomicBool,
}

impl Wake for PollWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.quiet.load(Relaxed) {
            self.user.wake();
        }
    }
}

/// What hyper gives for each kind of stream.
trait PollConnection {
    /// Moves it on; ready when it is over.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()>;

    /// Gives it a task of its own.
    fn spawn(self: Box<Self>);
}

impl<T: Read + Write + Unpin + Send + 'static> PollConnection for http1::Connection<T, Upload> {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        // Errors of a connection reach whoever waits for an answer; an idle one that dies concerns
        // nobody.
        Pin::new(self).poll(cx).map(|_| ())
    }

    fn spawn(self: Box<Self>) {
        tokio::task::spawn_local(async move { self.with_upgrades().await });
    }
}

impl InlineConnection {
    /// A fresh connection.
    pub fn new<T>(
        sender: http1::SendRequest<Upload>,
        connection: http1::Connection<T, Upload>,
    ) -> InlineConnection
    where
        T: Read + Write + Unpin + Send + 'static,
    {
        let bell = Arc::<PollWaker>::default();
        let waker = Waker::from(bell.clone());
        InlineConnection {
            sender,
            connection: Some(Box::new(connection)),
            bell,
            waker,
        }
    }

    /// From now on it goes on by itself: a WebSocket, or an upload that outlasts the head of its
    /// answer.
    pub fn spawn(&mut self) {
        if let Some(connection) = self.connection.take() {
            connection.spawn();
        }
    }

    /// Whether nothing can be sent any more, as far as it was moved on.
    pub fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }

    /// Whether it takes a request.
    pub fn is_ready(&self) -> bool {
        self.sender.is_ready()
    }

    /// Begins to send; what is given back is to be polled with [`InlineConnection::poll`].
    pub fn send(
        &mut self,
        request: Request<Upload>,
    ) -> impl Future<Output = Result<Response<Incoming>, TrySendError<Request<Upload>>>> + use<>
    {
        // The budget of a task is spent on the connection. Should it end there, the connection
        // wakes the task again; the channel behind it would wake nobody.
        unconstrained(self.sender.try_send_request(request))
    }

    /// Moves the connection on, and then asks what came of it.
    pub fn poll<F: Future>(&mut self, cx: &mut Context<'_>, what: Pin<&mut F>) -> Poll<F::Output> {
        match self.turn(cx) {
            Driver::Lookup => self.ask(|quiet| what.poll(quiet)),
            Driver::ByItself => what.poll(cx),
        }
    }

    /// The next piece of an answer.
    pub fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
        body: &mut Incoming,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        if self.connection.is_none() {
            return Pin::new(body).poll_frame(cx);
        }
        // Most answers come whole with their head.
        if let Poll::Ready(frame) = self.ask(|quiet| Pin::new(&mut *body).poll_frame(quiet)) {
            return Poll::Ready(frame);
        }
        match self.turn(cx) {
            Driver::Lookup => self.ask(|quiet| Pin::new(body).poll_frame(quiet)),
            Driver::ByItself => Pin::new(body).poll_frame(cx),
        }
    }

    /// Between two requests: notices that the app has closed it, and wakes nobody.
    pub fn rest(&mut self) {
        self.bell.user.take();
        let Some(connection) = &mut self.connection else {
            return;
        };
        let moved = pin!(unconstrained(
            std::future::poll_fn(|cx| connection.poll(cx))
        ));
        if moved.poll(&mut Context::from_waker(&self.waker)).is_ready() {
            self.connection = None;
        }
    }

    /// What came of the connection. Whatever that tells the connection it learns when it is moved
    /// on next, which is before anybody waits.
    fn ask<T>(&self, what: impl FnOnce(&mut Context<'_>) -> T) -> T {
        self.bell.quiet.store(true, Relaxed);
        let answer = what(&mut Context::from_waker(Waker::noop()));
        self.bell.quiet.store(false, Relaxed);
        answer
    }

    fn turn(&mut self, cx: &mut Context<'_>) -> Driver {
        let Some(connection) = &mut self.connection else {
            return Driver::ByItself;
        };
        self.bell.user.register(cx.waker());
        if connection
            .poll(&mut Context::from_waker(&self.waker))
            .is_ready()
        {
            // All that it held it has told by its end.
            self.connection = None;
            return Driver::ByItself;
        }
        Driver::Lookup
    }
}

/// Who moves a connection on.
enum Driver {
    /// We just did.
    Lookup,
    /// Nobody has to.
    ByItself,
}
