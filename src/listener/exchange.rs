//! One request and its answer, as the connection sees them: what can end them before their time.
//!
//! On HTTP/1.1 a connection carries one after the other and is closed with the one that must end;
//! on HTTP/2 it carries many, and each ends by itself.

use std::{
    cell::{Cell, RefCell},
    future::poll_fn,
    pin::pin,
    rc::Rc,
    task::{Poll, ready},
    time::Duration,
};

use tokio::time::{Instant, Sleep, sleep_until};

use crate::streams::Revocation;

/// One request and its answer.
#[derive(Debug, Default)]
pub struct Exchange {
    /// Told when it must end.
    pub revocation: Rc<Revocation>,
    /// Since when bytes of the answer wait for the client to take them.
    offered: Cell<Option<Instant>>,
}

impl Exchange {
    /// The answer gave bytes; the client has to take them before more is asked of it.
    pub fn offered(&self) {
        self.offered.set(Some(Instant::now()));
    }

    /// All that was given so far is taken.
    pub fn taken(&self) {
        self.offered.set(None);
    }

    /// Resolves when the client has taken nothing of what was offered for so long. To be polled
    /// after whatever writes the answer, in the same task: that is what wakes it.
    async fn stalled(&self, timeouts: Duration) {
        let mut timer: Option<std::pin::Pin<Box<Sleep>>> = None;
        poll_fn(|cx| {
            let Some(offered) = self.offered.get() else {
                return Poll::Pending;
            };
            let until = offered + timeouts;
            let timer = timer.get_or_insert_with(|| Box::pin(sleep_until(until)));
            if timer.deadline() != until {
                timer.as_mut().reset(until);
            }
            ready!(timer.as_mut().poll(cx));
            Poll::Ready(())
        })
        .await;
    }
}

/// Gives each request of a connection its exchange.
#[derive(Clone, Debug)]
pub enum Exchanges {
    /// HTTP/1.1: the same for all of them.
    Whole(Rc<Exchange>),
    /// HTTP/2: one for each.
    Each(Http2Executor),
}

impl Exchanges {
    /// That of the request that just came.
    pub fn next(&self) -> Rc<Exchange> {
        match self {
            Exchanges::Whole(exchange) => exchange.clone(),
            Exchanges::Each(streams) => streams.next(),
        }
    }

    /// Whether requests share the connection at the same time.
    pub fn are_streams(&self) -> bool {
        match self {
            Exchanges::Whole(_) => false,
            Exchanges::Each(_) => true,
        }
    }
}

/// The streams of one HTTP/2 connection: runs each on this thread, until it is done or must end.
///
/// hyper calls the service with a request and, before anything else, hands over the task that
/// answers it; so what the service took last belongs to the task that comes next.
#[derive(Clone, Debug)]
pub struct Http2Executor {
    coming: Rc<RefCell<Option<Rc<Exchange>>>>,
    timeouts: Duration,
    stalls: prometheus_client::metrics::counter::Counter,
}

impl Http2Executor {
    /// None yet. A client may take nothing of an answer for so long; `stalls` counts those that
    /// were let go.
    pub fn new(
        timeouts: Duration,
        stalls: prometheus_client::metrics::counter::Counter,
    ) -> Http2Executor {
        Http2Executor {
            coming: Rc::default(),
            timeouts,
            stalls,
        }
    }

    fn next(&self) -> Rc<Exchange> {
        let exchange = Rc::new(Exchange::default());
        self.coming.replace(Some(exchange.clone()));
        exchange
    }
}

impl<F: Future<Output = ()> + 'static> hyper::rt::Executor<F> for Http2Executor {
    fn execute(&self, task: F) {
        let Some(exchange) = self.coming.take() else {
            // The half of a WebSocket that hyper writes by itself; it ends with the tunnel.
            tokio::task::spawn_local(task);
            return;
        };
        let (timeouts, stalls) = (self.timeouts, self.stalls.clone());
        tokio::task::spawn_local(async move {
            let mut task = pin!(task);
            // Dropped before its end, a stream is reset; the connection and all others go on.
            tokio::select! {
                biased;
                () = task.as_mut() => {}
                _ = exchange.revocation.revoked() => {}
                () = exchange.stalled(timeouts) => { stalls.inc(); }
            }
        });
    }
}
