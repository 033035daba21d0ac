//! Observes the published apps while a test changes them.

use std::sync::{Arc, Mutex};

use ludgate::catalog::snapshot::Snapshot;
use tokio::task::JoinHandle;

use crate::support::{until::until, world::World};

/// A fact of each state that was seen, oldest first.
///
/// The observer loads the apps after every notification. Several publications in quick succession
/// may be seen as one state; the last one is never missed.
pub struct StatesSeen<T> {
    seen: Arc<Mutex<Vec<T>>>,
    task: JoinHandle<()>,
}

impl<T: Send + 'static> StatesSeen<T> {
    /// Records the fact now, and again for each new state that is seen.
    pub fn start(world: &World, fact: impl Fn(&Snapshot) -> T + Send + 'static) -> StatesSeen<T> {
        let internals = world.running.internals();
        let mut policy_changes = internals.policy_changes();
        let mut current = internals.snapshot();
        let seen = Arc::new(Mutex::new(vec![fact(&current)]));
        let recorded = seen.clone();
        let task = tokio::spawn(async move {
            while policy_changes.changed().await.is_ok() {
                let next = internals.snapshot();
                if !Arc::ptr_eq(&next, &current) {
                    recorded.lock().expect("no panic").push(fact(&next));
                    current = next;
                }
            }
        });
        StatesSeen { seen, task }
    }

    /// All facts, once the test's last change was seen. Fails the test if there was no other state
    /// than the first.
    pub async fn finish(self, is_last: impl Fn(&T) -> bool) -> Vec<T> {
        until("the last change is seen", || {
            self.seen
                .lock()
                .expect("no panic")
                .last()
                .is_some_and(&is_last)
        })
        .await;
        self.task.abort();
        let seen = std::mem::take(&mut *self.seen.lock().expect("no panic"));
        assert!(seen.len() > 1, "no change was seen");
        seen
    }
}
