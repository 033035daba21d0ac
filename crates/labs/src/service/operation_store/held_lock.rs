//! A lock that this process holds: the right to run one operation.

use std::time::Duration;

use tokio::{sync::watch, time::Instant};
use tokio_util::sync::CancellationToken;

/// A lock lapses after this time without a renewal, and another replica may take it.
pub(in crate::service) const LAPSES_AFTER: Duration = Duration::from_secs(10);
/// The owner stops its work this long after it began the last renewal that succeeded. What is left
/// until the lock lapses is for calls that are on their way to the API server.
pub(in crate::service) const STOPS_AFTER: Duration = Duration::from_secs(6);

/// A lock that this process holds.
#[derive(Debug)]
pub(in crate::service) struct HeldLock {
    /// The person whose lab it is for.
    pub(in crate::service) username: String,
    /// The operation that runs under it.
    pub(in crate::service) number: u64,
    /// The fencing token. The store takes writes of the current one only.
    pub(in crate::service) token: String,
    valid_until: watch::Sender<Instant>,
    lost: CancellationToken,
}

impl HeldLock {
    /// A lock that was taken or renewed by a command which began at this time.
    pub(in crate::service) fn new(
        username: &str,
        number: u64,
        token: String,
        began: Instant,
    ) -> HeldLock {
        HeldLock {
            username: username.to_owned(),
            number,
            token,
            valid_until: watch::Sender::new(began + STOPS_AFTER),
            lost: CancellationToken::new(),
        }
    }

    /// It was renewed by a command which began at this time.
    pub(in crate::service) fn set_renewed(&self, began: Instant) {
        self.valid_until.send_replace(began + STOPS_AFTER);
    }

    /// When the work must have stopped, unless the lock is renewed before.
    pub(in crate::service) fn valid_until(&self) -> Instant {
        *self.valid_until.borrow()
    }

    /// The same, for calls to the API server.
    pub(in crate::service) fn validity(&self) -> watch::Receiver<Instant> {
        self.valid_until.subscribe()
    }

    /// The store has another owner, or has lost the lock.
    pub(in crate::service) fn set_lost(&self) {
        self.lost.cancel();
    }

    /// Waits until that is known.
    pub(in crate::service) async fn lost(&self) {
        self.lost.cancelled().await;
    }
}
