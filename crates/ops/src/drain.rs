//! Stopping: everybody is told, first that it will happen and then that it does, and the process
//! waits for those who hold a guard, up to a deadline.

use std::{sync::Arc, time::Duration};

use tokio::sync::{mpsc, watch};

/// How far the process is on its way out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DrainPhase {
    /// Not at all.
    Serving,
    /// Whoever is served is asked to come back on another connection.
    Leaving,
    /// Nobody new is served.
    Stopping,
}

/// The side that tells.
#[derive(Debug)]
pub struct Drain {
    phase: watch::Sender<DrainPhase>,
    finished: mpsc::Receiver<()>,
    watcher: DrainWatcher,
}

/// The side that is told. While a clone exists, the drain is not complete.
#[derive(Clone, Debug)]
pub struct DrainWatcher {
    phase: watch::Receiver<DrainPhase>,
    guard: Arc<mpsc::Sender<()>>,
}

impl Drain {
    /// A drain that nobody has asked for yet.
    pub fn new() -> Drain {
        let (phase, receiver) = watch::channel(DrainPhase::Serving);
        let (sender, finished) = mpsc::channel(1);
        Drain {
            phase,
            finished,
            watcher: DrainWatcher {
                phase: receiver,
                guard: Arc::new(sender),
            },
        }
    }

    /// A handle for a thread or a connection.
    pub fn watcher(&self) -> DrainWatcher {
        self.watcher.clone()
    }

    /// How far it is, for somebody nobody waits for.
    pub fn subscribe(&self) -> watch::Receiver<DrainPhase> {
        self.phase.subscribe()
    }

    /// Tells everybody that it will happen soon.
    pub fn leave(&self) {
        self.phase.send_replace(DrainPhase::Leaving);
    }

    /// Tells everybody and waits until all handles are gone or the deadline has passed.
    /// Gives back whether everybody finished.
    pub async fn stop(self, deadline: Duration) -> bool {
        let Drain {
            phase,
            mut finished,
            watcher,
        } = self;
        phase.send_replace(DrainPhase::Stopping);
        drop(watcher);
        tokio::time::timeout(deadline, finished.recv())
            .await
            .is_ok()
    }
}

impl Default for Drain {
    fn default() -> Self {
        Drain::new()
    }
}

impl DrainWatcher {
    /// Waits until the process will stop soon. Cancel safety: may be dropped and called again.
    pub async fn leaving(&mut self) {
        self.reaches(DrainPhase::Leaving).await;
    }

    /// Whether it will.
    pub fn is_leaving(&self) -> bool {
        *self.phase.borrow() >= DrainPhase::Leaving
    }

    /// Waits until the process stops. Cancel safety: may be dropped and called again.
    pub async fn stopping(&mut self) {
        self.reaches(DrainPhase::Stopping).await;
    }

    async fn reaches(&mut self, phase: DrainPhase) {
        // A sender that is gone means the process ends: that is stopping too.
        let _ = self.phase.wait_for(|now| *now >= phase).await;
        debug_assert!(Arc::strong_count(&self.guard) > 0);
    }
}
