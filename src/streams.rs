//! Open streams (WebSockets and long-lived responses), which are closed when access to them ends.
//!
//! Each data thread has its own table; nothing in it is shared or locked. An entry holds a
//! [`StreamPolicy`]. The table checks it again when something changed (sign-out, access rule,
//! catalogue), and at least twice a second, for expiry. A stream that its policy denies is revoked.
//!
//! Invariant: there is no index from sessions to streams, which could become out of date.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    time::Duration,
};

use prometheus_client::metrics::{counter::Counter, gauge::Gauge};
use tokio::sync::Notify;

use crate::model::{clock::Clock, policy_changes::PolicyChanges};

/// Every stream is checked at least this often: a quarter of the promised two seconds.
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

/// A signal to one stream that it must end.
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

    /// Why the stream was revoked; `None` while it may go on.
    pub fn reason(&self) -> Option<RevocationReason> {
        self.reason.get()
    }

    fn revoke(&self, reason: RevocationReason) {
        self.reason.set(Some(reason));
        self.revoked.notify_one();
    }
}

/// Whether a stream may go on: the same rule as for a new request.
pub trait StreamPolicy {
    /// Checks it by the apps, the session and the groups of this moment.
    ///
    /// # Errors
    /// Why the stream must end.
    fn check(&self) -> Result<(), RevocationReason>;
}

struct Entry {
    policy: Rc<dyn StreamPolicy>,
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

/// Keeps a stream in the table; dropping it removes the stream.
pub struct StreamGuard {
    streams: Rc<Streams>,
    index: usize,
}

impl Streams {
    /// An empty table; `registered` counts its entries, `ended` revoked ones.
    pub fn new(registered: Gauge, ended: Counter) -> Rc<Streams> {
        Rc::new(Streams {
            entries: RefCell::default(),
            free: RefCell::default(),
            first: Notify::new(),
            registered,
            ended,
        })
    }

    /// Registers a stream; `revocation` is set when the policy denies it.
    pub fn register(
        self: &Rc<Self>,
        revocation: Rc<Revocation>,
        policy: Rc<dyn StreamPolicy>,
    ) -> StreamGuard {
        let entry = Some(Entry { policy, revocation });
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

    /// Number of registered streams.
    pub fn len(&self) -> usize {
        self.entries.borrow().len() - self.free.borrow().len()
    }

    /// Whether no stream is registered.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Checks every stream periodically and after each change. Sleeps while no stream is
    /// registered.
    pub async fn watch(self: Rc<Self>, clock: Clock, policy_changes: PolicyChanges) {
        let mut changed = policy_changes.subscribe();
        loop {
            if self.is_empty() {
                self.first.notified().await;
                continue;
            }
            // Read before the checks, so that the interval includes their duration.
            let checked = clock.now();
            self.check_all();
            tokio::select! {
                _ = changed.changed() => {}
                () = clock.sleep_until(checked.after(ROUND)) => {}
            }
        }
    }

    fn check_all(&self) {
        for entry in self.entries.borrow().iter().flatten() {
            if entry.revocation.reason().is_some() {
                continue;
            }
            if let Err(reason) = entry.policy.check() {
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
