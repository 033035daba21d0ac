//! Phases whose status was sent to the API, and whose Events are not published yet.
//!
//! The answer to a write can be lost although the write took effect. The next reconcile then finds
//! nothing to write. The phase is kept until a status with it is known to be written, so that its
//! Event is published nevertheless.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use super::status::PhaseMessage;

/// The phases, by app.
#[derive(Debug, Default)]
pub struct UnpublishedPhases(Mutex<HashMap<String, PhaseMessage>>);

impl UnpublishedPhases {
    /// A status with a new phase is about to be sent.
    pub fn insert(&self, app: &str, phase: PhaseMessage) {
        self.lock().insert(app.to_owned(), phase);
    }

    /// The status of an app has this phase now. Returns whether its Event is to be published.
    pub fn confirm(&self, app: &str, phase: &PhaseMessage) -> bool {
        self.lock().remove(app).as_ref() == Some(phase)
    }

    /// The app is gone.
    pub fn forget(&self, app: &str) {
        self.lock().remove(app);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, PhaseMessage>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phase_is_published_once_and_only_if_it_is_still_the_status() {
        let phases = UnpublishedPhases::default();
        let (error, other) = (PhaseMessage::error("x"), PhaseMessage::error("y"));
        assert!(!phases.confirm("lab", &error), "it was not sent");
        // The answer is lost. The next reconcile finds the status as it should be.
        phases.insert("lab", error.clone());
        assert!(!phases.confirm("other", &error));
        assert!(phases.confirm("lab", &error));
        assert!(!phases.confirm("lab", &error), "it was published");
        // The write is lost, and the next reconcile finds the earlier phase right again.
        phases.insert("lab", error.clone());
        assert!(!phases.confirm("lab", &other));
        assert!(!phases.confirm("lab", &error));
        phases.insert("lab", error.clone());
        phases.forget("lab");
        assert!(!phases.confirm("lab", &error));
    }
}
