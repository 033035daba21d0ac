//! Streams end with the session: WebSockets and lasting responses are judged again while they live.
//!
//! Each data thread has its own table; nothing in it is shared or locked. An entry is a question,
//! "may this stream go on?", put by the gateway; the table asks it again when something changed
//! (sign-out, access rule, catalogue) and at least twice a second, for expiry. A stream that may
//! not go on is told to end.
//!
//! Invariant: no index from sessions to streams exists that could be forgotten to be updated.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    time::Duration,
};

use prometheus_client::metrics::{counter::Counter, gauge::Gauge};
use tokio::sync::Notify;

use crate::model::{alarm::Alarm, clock::Clock};

/// How often every stream is asked, whatever happens; half of what is promised, twice over.
const ROUND: Duration = Duration::from_millis(500);

/// Why a stream was ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CutReason {
    /// The session ended: sign-out, revocation, idle or lifetime.
    SessionEnded,
    /// The access rule or the person's groups no longer admit them.
    NoLongerAllowed,
    /// The app is no longer published.
    AppGone,
}

impl CutReason {
    /// One word for the log.
    pub fn as_str(self) -> &'static str {
        match self {
            CutReason::SessionEnded => "session_ended",
            CutReason::NoLongerAllowed => "no_longer_allowed",
            CutReason::AppGone => "app_gone",
        }
    }
}

/// What a stream waits on beside its bytes.
#[derive(Debug, Default)]
pub struct Cut {
    reason: Cell<Option<CutReason>>,
    told: Notify,
}

impl Cut {
    /// Waits until the stream must end. Cancel safety: may be dropped and awaited again.
    pub async fn told(&self) -> CutReason {
        loop {
            if let Some(reason) = self.reason.get() {
                return reason;
            }
            self.told.notified().await;
        }
    }

    /// Why, when it was told.
    pub fn reason(&self) -> Option<CutReason> {
        self.reason.get()
    }

    fn tell(&self, reason: CutReason) {
        self.reason.set(Some(reason));
        self.told.notify_one();
    }
}

type Question = Box<dyn Fn() -> Result<(), CutReason>>;

struct Entry {
    may_go_on: Question,
    cut: Rc<Cut>,
}

/// The table of one data thread.
pub struct Streams {
    entries: RefCell<Vec<Option<Entry>>>,
    free: RefCell<Vec<usize>>,
    first: Notify,
    listed: Gauge,
    ended: Counter,
}

/// Keeps a stream in the table; dropping it takes it out.
pub struct Listed {
    streams: Rc<Streams>,
    index: usize,
}

impl Streams {
    /// An empty table; `listed` counts its entries, `ended` those that were cut.
    pub fn new(listed: Gauge, ended: Counter) -> Rc<Streams> {
        Rc::new(Streams {
            entries: RefCell::default(),
            free: RefCell::default(),
            first: Notify::new(),
            listed,
            ended,
        })
    }

    /// Lists a stream; `cut` is told when `may_go_on` says no.
    pub fn list(
        self: &Rc<Self>,
        cut: Rc<Cut>,
        may_go_on: impl Fn() -> Result<(), CutReason> + 'static,
    ) -> Listed {
        let entry = Some(Entry {
            may_go_on: Box::new(may_go_on),
            cut,
        });
        let mut entries = self.entries.borrow_mut();
        let index = match self.free.borrow_mut().pop() {
            Some(index) => {
                entries[index] = entry;
                index
            }
            None => {
                entries.push(entry);
                entries.len() - 1
            }
        };
        self.listed.inc();
        self.first.notify_one();
        Listed {
            streams: self.clone(),
            index,
        }
    }

    /// How many streams are listed.
    pub fn len(&self) -> usize {
        self.entries.borrow().len() - self.free.borrow().len()
    }

    /// Whether none is listed.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Asks every stream; never ends. Costs nothing while no stream is listed.
    pub async fn watch(self: Rc<Self>, clock: Clock, alarm: Alarm) {
        let mut changed = alarm.listen();
        loop {
            if self.is_empty() {
                self.first.notified().await;
                continue;
            }
            // Read before they are asked: time that passes meanwhile is not waited for once more.
            let asked = clock.now();
            self.ask_all();
            tokio::select! {
                _ = changed.changed() => {}
                () = clock.sleep_until(asked.after(ROUND)) => {}
            }
        }
    }

    fn ask_all(&self) {
        for entry in self.entries.borrow().iter().flatten() {
            if entry.cut.reason().is_some() {
                continue;
            }
            if let Err(reason) = (entry.may_go_on)() {
                self.ended.inc();
                entry.cut.tell(reason);
            }
        }
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        self.streams.entries.borrow_mut()[self.index] = None;
        self.streams.free.borrow_mut().push(self.index);
        self.streams.listed.dec();
    }
}
