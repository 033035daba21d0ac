//! The time since each watch last heard from the API. One healthy watch says nothing about the
//! others, so the stalest one counts.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use ludgate_model::clock::Clock;

/// The last contact of every watch of a cluster. Clones share their state.
#[derive(Clone)]
pub(crate) struct Staleness {
    watches: Arc<Mutex<Vec<Arc<LastContact>>>>,
    clock: Clock,
}

/// The time at which one watch last heard from the API.
pub(crate) struct LastContact {
    at: AtomicU64,
    clock: Clock,
}

impl Staleness {
    /// No watches yet.
    pub(crate) fn new(clock: Clock) -> Staleness {
        Staleness {
            watches: Arc::default(),
            clock,
        }
    }

    /// Adds a watch. Its last contact is now.
    pub(crate) fn register(&self) -> Arc<LastContact> {
        let contact = Arc::new(LastContact {
            at: AtomicU64::new(0),
            clock: self.clock.clone(),
        });
        contact.touch();
        self.watches
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(contact.clone());
        contact
    }

    /// The time since the last contact of the stalest watch.
    pub(crate) fn oldest(&self) -> Duration {
        let watches = self.watches.lock().unwrap_or_else(PoisonError::into_inner);
        let oldest = watches
            .iter()
            .map(|contact| contact.at.load(Ordering::Relaxed))
            .min();
        let now = self.clock.now().0;
        Duration::from_millis(oldest.map_or(0, |oldest| now.saturating_sub(oldest)))
    }
}

impl LastContact {
    /// Records a contact with the API.
    pub(crate) fn touch(&self) {
        self.at.store(self.clock.now().0, Ordering::Relaxed);
    }
}
