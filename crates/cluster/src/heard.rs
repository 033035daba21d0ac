//! When each watch last heard from the API. That of one kind going well says nothing of another:
//! the oldest counts.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use ludgate_model::clock::Clock;

/// How long nothing was heard, by watch. Cloning gives the same.
#[derive(Clone)]
pub struct Silences {
    watches: Arc<Mutex<Vec<Arc<Heard>>>>,
    clock: Clock,
}

/// When one watch last heard something.
pub struct Heard {
    at: AtomicU64,
    clock: Clock,
}

impl Silences {
    /// Without a watch.
    pub fn new(clock: Clock) -> Silences {
        Silences {
            watches: Arc::default(),
            clock,
        }
    }

    /// A watch begins; it has heard nothing since now.
    pub fn one_more(&self) -> Arc<Heard> {
        let heard = Arc::new(Heard {
            at: AtomicU64::new(0),
            clock: self.clock.clone(),
        });
        heard.note();
        self.watches
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(heard.clone());
        heard
    }

    /// The longest silence of all.
    pub fn longest(&self) -> Duration {
        let watches = self.watches.lock().unwrap_or_else(PoisonError::into_inner);
        let oldest = watches
            .iter()
            .map(|heard| heard.at.load(Ordering::Relaxed))
            .min();
        let now = self.clock.now().0;
        Duration::from_millis(oldest.map_or(0, |oldest| now.saturating_sub(oldest)))
    }
}

impl Heard {
    /// Something was heard.
    pub fn note(&self) {
        self.at.store(self.clock.now().0, Ordering::Relaxed);
    }
}
