//! Notifies the data threads of changes that may end streams: of a session, an access rule, or the
//! catalogue.

use std::sync::Arc;

use tokio::sync::watch;

/// The notifier. One per process; clones share their state.
#[derive(Clone, Debug)]
pub struct PolicyChanges(Arc<watch::Sender<u64>>);

impl PolicyChanges {
    /// A notifier without subscribers.
    pub fn new() -> PolicyChanges {
        PolicyChanges(Arc::new(watch::Sender::new(0)))
    }

    /// Makes every data thread authorize its streams again.
    pub fn notify(&self) {
        self.0.send_modify(|count| *count = count.wrapping_add(1));
    }

    /// A receiver for one data thread.
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.0.subscribe()
    }
}

impl Default for PolicyChanges {
    fn default() -> Self {
        PolicyChanges::new()
    }
}
