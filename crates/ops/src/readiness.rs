//! Readiness by named latches: the process is ready when none is held and it is not draining.

use std::sync::{Arc, Mutex, PoisonError};

/// The latches of a process. Clones share their state.
#[derive(Clone, Debug, Default)]
pub struct Readiness {
    names: Arc<Mutex<Vec<&'static str>>>,
}

/// A latch that keeps the process unready until it is released. A dropped one keeps it unready: its
/// owner failed.
#[must_use]
#[derive(Debug)]
pub struct Latch {
    ready: Readiness,
    name: &'static str,
}

impl Readiness {
    /// Makes the process unready until the latch is released. Names may repeat.
    pub fn latch(&self, name: &'static str) -> Latch {
        self.block(name);
        Latch {
            ready: self.clone(),
            name,
        }
    }

    /// Makes the process unready for good.
    pub fn block(&self, name: &'static str) {
        self.names().push(name);
    }

    /// Names of the latches that are held; empty when ready.
    pub fn waiting_for(&self) -> Vec<&'static str> {
        self.names().clone()
    }

    fn names(&self) -> std::sync::MutexGuard<'_, Vec<&'static str>> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Latch {
    /// Releases the latch.
    pub fn release(self) {
        let mut names = self.ready.names();
        if let Some(index) = names.iter().position(|n| *n == self.name) {
            names.swap_remove(index);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_released_latch_makes_the_process_ready() {
        let ready = Readiness::default();
        let (first, failed) = (ready.latch("first"), ready.latch("failed"));
        first.release();
        drop(failed);
        assert_eq!(ready.waiting_for(), ["failed"]);
    }
}
