//! An HTTP/1.1 connection to an app without a task of its own.
//!
//! While a request owns the connection, its task polls it, so a response reaches its client within
//! one wake-up of one task. Hyper's channels are polled with a no-op waker, after the connection:
//! only connection I/O can make them ready. `PollWaker::quiet` suppresses wake-ups that this poll
//! itself causes.

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

use super::upload::Upload;

/// Sends requests on a connection, one after the other.
pub struct InlineConnection {
    sender: http1::SendRequest<Upload>,
    /// `None`: it has a task of its own, or has ended.
    connection: Option<Box<dyn PollConnection>>,
    poll_waker: Arc<PollWaker>,
    waker: Waker,
}

/// Wakes the task that uses the connection now. Atomic because `Waker` requires it; only one thread
/// uses it.
#[derive(Default)]
struct PollWaker {
    user: AtomicWaker,
    /// The wake-up is caused by the user itself.
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

/// Hyper's connection over any kind of stream.
trait PollConnection {
    /// Makes progress; ready at its end.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()>;

    /// Gives it a task of its own.
    fn spawn(self: Box<Self>);
}

impl<T: Read + Write + Unpin + Send + 'static> PollConnection for http1::Connection<T, Upload> {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        // The pending request gets the error of a connection; an idle connection has no request.
        Pin::new(self).poll(cx).map(|_| ())
    }

    fn spawn(self: Box<Self>) {
        tokio::task::spawn_local(async move { self.with_upgrades().await });
    }
}

impl InlineConnection {
    /// A new connection.
    pub fn new<T>(
        sender: http1::SendRequest<Upload>,
        connection: http1::Connection<T, Upload>,
    ) -> InlineConnection
    where
        T: Read + Write + Unpin + Send + 'static,
    {
        let poll_waker = Arc::<PollWaker>::default();
        let waker = Waker::from(poll_waker.clone());
        InlineConnection {
            sender,
            connection: Some(Box::new(connection)),
            poll_waker,
            waker,
        }
    }

    /// Gives the connection a task of its own: for a WebSocket, or an upload that outlasts the head
    /// of its response.
    pub fn spawn(&mut self) {
        if let Some(connection) = self.connection.take() {
            connection.spawn();
        }
    }

    /// Whether the connection accepts no further request, as of its last poll.
    pub fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }

    /// Whether it accepts a request now.
    pub fn is_ready(&self) -> bool {
        self.sender.is_ready()
    }

    /// Begins to send. Poll the future with [`InlineConnection::poll`].
    pub fn send(
        &mut self,
        request: Request<Upload>,
    ) -> impl Future<Output = Result<Response<Incoming>, TrySendError<Request<Upload>>>> + use<>
    {
        // The connection uses up the coop budget of the task, and wakes the task when it is spent.
        // Hyper's channel has a no-op waker, so it must not wait for budget.
        unconstrained(self.sender.try_send_request(request))
    }

    /// Polls the connection, then a future that waits for it.
    pub fn poll<F: Future>(
        &mut self,
        cx: &mut Context<'_>,
        future: Pin<&mut F>,
    ) -> Poll<F::Output> {
        match self.poll_connection(cx) {
            Driver::Inline => self.quietly(|quiet| future.poll(quiet)),
            Driver::Other => future.poll(cx),
        }
    }

    /// The next frame of a response.
    pub fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
        body: &mut Incoming,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        if self.connection.is_none() {
            return Pin::new(body).poll_frame(cx);
        }
        // Most responses come whole with their head.
        if let Poll::Ready(frame) = self.quietly(|quiet| Pin::new(&mut *body).poll_frame(quiet)) {
            return Poll::Ready(frame);
        }
        match self.poll_connection(cx) {
            Driver::Inline => self.quietly(|quiet| Pin::new(body).poll_frame(quiet)),
            Driver::Other => Pin::new(body).poll_frame(cx),
        }
    }

    /// Between two requests: detects that the app has closed the connection, without waking a task.
    pub fn poll_idle(&mut self) {
        self.poll_waker.user.take();
        let Some(connection) = &mut self.connection else {
            return;
        };
        let polled = pin!(unconstrained(
            std::future::poll_fn(|cx| connection.poll(cx))
        ));
        if polled
            .poll(&mut Context::from_waker(&self.waker))
            .is_ready()
        {
            self.connection = None;
        }
    }

    /// Polls a channel of hyper. What this makes ready in the connection is handled by the next
    /// poll of the connection, which comes before the task waits.
    fn quietly<T>(&self, poll: impl FnOnce(&mut Context<'_>) -> T) -> T {
        self.poll_waker.quiet.store(true, Relaxed);
        let polled = poll(&mut Context::from_waker(Waker::noop()));
        self.poll_waker.quiet.store(false, Relaxed);
        polled
    }

    fn poll_connection(&mut self, cx: &mut Context<'_>) -> Driver {
        let Some(connection) = &mut self.connection else {
            return Driver::Other;
        };
        self.poll_waker.user.register(cx.waker());
        if connection
            .poll(&mut Context::from_waker(&self.waker))
            .is_ready()
        {
            // Its end has completed all its channels.
            self.connection = None;
            return Driver::Other;
        }
        Driver::Inline
    }
}

/// What makes a connection progress.
enum Driver {
    /// The task of the request.
    Inline,
    /// A task of its own, or none after its end.
    Other,
}
