//! One request and its response on a connection, and the events that end them early.
//!
//! An HTTP/1.1 connection carries one exchange at a time and is closed with a revoked one. An
//! HTTP/2 connection carries many, and a revoked one only resets its stream.

use std::{
    cell::{Cell, RefCell},
    future::poll_fn,
    pin::pin,
    rc::Rc,
    task::Poll,
    time::Duration,
};

use prometheus_client::metrics::counter::Counter;
use tokio::time::Instant;

use crate::{net::timer::ReusableTimer, streams::Revocation};

/// One request and its response.
#[derive(Debug, Default)]
pub struct Exchange {
    /// Ends the exchange early.
    pub revocation: Rc<Revocation>,
    /// How often bytes were offered.
    offers: Cell<u64>,
    /// Whether hyper has not asked for more since.
    is_unread: Cell<bool>,
}

impl Exchange {
    /// The response produced bytes. hyper asks for more when the client has read these.
    pub fn offered(&self) {
        self.offers.set(self.offers.get() + 1);
        self.is_unread.set(true);
    }

    /// hyper asks for more: the client has read what was offered.
    pub fn taken(&self) {
        self.is_unread.set(false);
    }

    /// Resolves when the client has read nothing for this long. To be polled after the response's
    /// writer, in the same task: the writer is what wakes it. So the time of an offer is read here,
    /// and only if the writer then waits.
    async fn stalled(&self, timeout: Duration) {
        let mut timer = ReusableTimer::default();
        let mut last = None;
        poll_fn(|cx| {
            if !self.is_unread.get() {
                return Poll::Pending;
            }
            let offers = self.offers.get();
            let until = match last {
                Some((of, until)) if of == offers => until,
                Some(_) | None => Instant::now() + timeout,
            };
            last = Some((offers, until));
            timer.poll_elapsed(until, cx)
        })
        .await;
    }
}

/// Gives each request of a connection its exchange.
#[derive(Clone, Debug)]
pub enum Exchanges {
    /// The same for all requests.
    Http1(Rc<Exchange>),
    /// One for each request.
    Http2(Http2Executor),
}

impl Exchanges {
    /// The exchange of the request that just came.
    pub fn next(&self) -> Rc<Exchange> {
        match self {
            Exchanges::Http1(exchange) => exchange.clone(),
            Exchanges::Http2(streams) => streams.next(),
        }
    }

    /// Whether requests share the connection (HTTP/2).
    pub fn are_streams(&self) -> bool {
        match self {
            Exchanges::Http1(_) => false,
            Exchanges::Http2(_) => true,
        }
    }
}

/// Runs the streams of one HTTP/2 connection on this thread, until each is done, revoked or
/// stalled.
///
/// hyper calls the service with a request and directly afterwards executes the task that answers
/// it. So the exchange that the service took last belongs to the next task.
#[derive(Clone, Debug)]
pub struct Http2Executor {
    next: Rc<RefCell<Option<Rc<Exchange>>>>,
    write_stall: Duration,
    stalls: Counter,
}

impl Http2Executor {
    /// For a new connection. `write_stall` bounds the time in which a client reads nothing of a
    /// response; `stalls` counts the streams that exceed it.
    pub fn new(write_stall: Duration, stalls: Counter) -> Http2Executor {
        Http2Executor {
            next: Rc::default(),
            write_stall,
            stalls,
        }
    }

    fn next(&self) -> Rc<Exchange> {
        let exchange = Rc::new(Exchange::default());
        self.next.replace(Some(exchange.clone()));
        exchange
    }
}

impl<F: Future<Output = ()> + 'static> hyper::rt::Executor<F> for Http2Executor {
    fn execute(&self, task: F) {
        let Some(exchange) = self.next.take() else {
            // hyper's own task for writes of a WebSocket; it ends with the tunnel.
            tokio::task::spawn_local(task);
            return;
        };
        let write_stall = self.write_stall;
        let stalls = self.stalls.clone();
        tokio::task::spawn_local(async move {
            let mut task = pin!(task);
            // Dropping the task resets its stream; the other streams go on.
            tokio::select! {
                biased;
                () = task.as_mut() => {}
                _ = exchange.revocation.revoked() => {}
                () = exchange.stalled(write_stall) => { stalls.inc(); }
            }
        });
    }
}
