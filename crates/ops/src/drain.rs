//! Graceful stop in two steps: clients are asked to reconnect elsewhere, then nothing new is
//! served. The process waits for all holders of a [`DrainWatcher`], up to a deadline.

use std::{sync::Arc, time::Duration};

use tokio::sync::{mpsc, watch};

/// The phases of a stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DrainPhase {
    /// Normal operation.
    Serving,
    /// Clients are asked to use another connection.
    Leaving,
    /// New requests are refused.
    Stopping,
}

/// The side that starts the stop.
#[derive(Debug)]
pub struct Drain {
    phase: watch::Sender<DrainPhase>,
    finished: mpsc::Receiver<()>,
    watcher: DrainWatcher,
}

/// The side that is notified. The drain waits until all clones are dropped.
#[derive(Clone, Debug)]
pub struct DrainWatcher {
    phase: watch::Receiver<DrainPhase>,
    guard: Arc<mpsc::Sender<()>>,
}

impl Drain {
    /// A drain in the phase [`DrainPhase::Serving`].
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

    /// A watcher for a thread or a connection.
    pub fn watcher(&self) -> DrainWatcher {
        self.watcher.clone()
    }

    /// The phase, for observers that the drain does not wait for.
    pub fn subscribe(&self) -> watch::Receiver<DrainPhase> {
        self.phase.subscribe()
    }

    /// Announces the stop to all watchers.
    pub fn leave(&self) {
        self.phase.send_replace(DrainPhase::Leaving);
    }

    /// Stops, and waits until all watchers are dropped or the deadline passes. Returns whether all
    /// were dropped in time.
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
    /// Waits until a stop is announced. Cancel safety: may be dropped and called again.
    pub async fn leaving(&mut self) {
        self.reaches(DrainPhase::Leaving).await;
    }

    /// Whether a stop is announced or under way.
    pub fn is_leaving(&self) -> bool {
        *self.phase.borrow() >= DrainPhase::Leaving
    }

    /// Waits until the process stops. Cancel safety: may be dropped and called again.
    pub async fn stopping(&mut self) {
        self.reaches(DrainPhase::Stopping).await;
    }

    async fn reaches(&mut self, phase: DrainPhase) {
        // A dropped sender means that the process ends.
        let _ = self.phase.wait_for(|now| *now >= phase).await;
        debug_assert!(Arc::strong_count(&self.guard) > 0);
    }
}
