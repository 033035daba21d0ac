//! Tells the data threads that something changed which may end streams: a session, an access rule,
//! the catalogue.

use std::sync::Arc;

use tokio::sync::watch;

/// Rings when something changed that may end streams. One per process, cloned freely.
#[derive(Clone, Debug)]
pub struct PolicyChanges(Arc<watch::Sender<u64>>);

impl PolicyChanges {
    /// A silent alarm.
    pub fn new() -> PolicyChanges {
        PolicyChanges(Arc::new(watch::Sender::new(0)))
    }

    /// Tells every data thread to ask its streams again, now.
    pub fn notify(&self) {
        self.0.send_modify(|count| *count = count.wrapping_add(1));
    }

    /// For the thread that listens.
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.0.subscribe()
    }
}

impl Default for PolicyChanges {
    fn default() -> Self {
        PolicyChanges::new()
    }
}
