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

use crate::model::{clock::Clock, policy_changes::PolicyChanges};

/// How often every stream is asked, whatever happens; half of what is promised, twice over.
const ROUND: Duration = Duration::from_millis(500);

/// Why a stream was ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RevocationReason {
    /// The session ended: sign-out, revocation, idle or lifetime.
    SessionEnded,
    /// The access rule or the person's groups no longer admit them.
    NoLongerAllowed,
    /// The app is no longer published.
    AppGone,
}

impl RevocationReason {
    /// One word for the log.
    pub fn as_str(self) -> &'static str {
        match self {
            RevocationReason::SessionEnded => "session_ended",
            RevocationReason::NoLongerAllowed => "no_longer_allowed",
            RevocationReason::AppGone => "app_gone",
        }
    }
}

/// What a stream waits on beside its bytes.
#[derive(Debug, Default)]
pub struct Revocation {
    reason: Cell<Option<RevocationReason>>,
    revoked: Notify,
}

impl Revocation {
    /// Waits until the stream is revoked. Cancel safety: may be dropped and awaited again.
    pub async fn revoked(&self) -> RevocationReason {
        loop {
            if let Some(reason) = self.reason.get() {
                return reason;
            }
            self.revoked.notified().await;
        }
    }

    /// Why, when it was told.
    pub fn reason(&self) -> Option<RevocationReason> {
        self.reason.get()
    }

    fn revoke(&self, reason: RevocationReason) {
        self.reason.set(Some(reason));
        self.revoked.notify_one();
    }
}

type Question = Box<dyn Fn() -> Result<(), RevocationReason>>;

struct Entry {
    may_go_on: Question,
    revocation: Rc<Revocation>,
}

/// The table of one data thread.
pub struct Streams {
    entries: RefCell<Vec<Option<Entry>>>,
    free: RefCell<Vec<usize>>,
    first: Notify,
    registered: Gauge,
    ended: Counter,
}

/// Keeps a stream in the table; dropping it takes it out.
pub struct StreamGuard {
    streams: Rc<Streams>,
    index: usize,
}

impl Streams {
    /// An empty table; `registered` counts its entries, `ended` those that were revocation.
    pub fn new(registered: Gauge, ended: Counter) -> Rc<Streams> {
        Rc::new(Streams {
            entries: RefCell::default(),
            free: RefCell::default(),
            first: Notify::new(),
            registered,
            ended,
        })
    }

    /// Lists a stream; `revocation` is told when `may_go_on` says no.
    pub fn register(
        self: &Rc<Self>,
        revocation: Rc<Revocation>,
        may_go_on: impl Fn() -> Result<(), RevocationReason> + 'static,
    ) -> StreamGuard {
        let entry = Some(Entry {
            may_go_on: Box::new(may_go_on),
            revocation,
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
        self.registered.inc();
        self.first.notify_one();
        StreamGuard {
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
    pub async fn watch(self: Rc<Self>, clock: Clock, policy_changes: PolicyChanges) {
        let mut changed = policy_changes.subscribe();
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
            if entry.revocation.reason().is_some() {
                continue;
            }
            if let Err(reason) = (entry.may_go_on)() {
                self.ended.inc();
                entry.revocation.revoke(reason);
            }
        }
    }
}

impl Drop for StreamGuard {
    fn drop(&mut self) {
        self.streams.entries.borrow_mut()[self.index] = None;
        self.streams.free.borrow_mut().push(self.index);
        self.streams.registered.dec();
    }
}
