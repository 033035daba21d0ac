//! Stopping: everybody is told once, and the process waits for those who hold a guard, up to a deadline.

use std::{sync::Arc, time::Duration};

use tokio::sync::{mpsc, watch};

/// The side that tells.
#[derive(Debug)]
pub struct Drain {
    stopping: watch::Sender<bool>,
    finished: mpsc::Receiver<()>,
    watcher: DrainWatcher,
}

/// The side that is told. While a clone exists, the drain is not complete.
#[derive(Clone, Debug)]
pub struct DrainWatcher {
    stopping: watch::Receiver<bool>,
    guard: Arc<mpsc::Sender<()>>,
}

impl Drain {
    /// A drain that nobody has asked for yet.
    pub fn new() -> Drain {
        let (stopping, told) = watch::channel(false);
        let (sender, finished) = mpsc::channel(1);
        Drain { stopping, finished, watcher: DrainWatcher { stopping: told, guard: Arc::new(sender) } }
    }

    /// A handle for a thread or a connection.
    pub fn watcher(&self) -> DrainWatcher {
        self.watcher.clone()
    }

    /// Whether the process is stopping, for somebody nobody waits for.
    pub fn told(&self) -> watch::Receiver<bool> {
        self.stopping.subscribe()
    }

    /// Tells everybody and waits until all handles are gone or the deadline has passed.
    /// Gives back whether everybody finished.
    pub async fn stop(self, deadline: Duration) -> bool {
        let Drain { stopping, mut finished, watcher } = self;
        stopping.send_replace(true);
        drop(watcher);
        tokio::time::timeout(deadline, finished.recv()).await.is_ok()
    }
}

impl Default for Drain {
    fn default() -> Self {
        Drain::new()
    }
}

impl DrainWatcher {
    /// Waits until the process stops. Cancel safety: may be dropped and called again.
    pub async fn stopping(&mut self) {
        // A sender that is gone means the process ends: that is stopping too.
        let _ = self.stopping.wait_for(|stopping| *stopping).await;
        debug_assert!(Arc::strong_count(&self.guard) > 0);
    }
}
