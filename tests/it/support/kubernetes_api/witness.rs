//! Sees every state of the catalogue that is published while a test does something else.

use std::sync::{Arc, Mutex};

use ludgate::catalog::snapshot::Snapshot;
use tokio::task::JoinHandle;

use crate::support::world::World;

pub struct Witness<T> {
    seen: Arc<Mutex<Vec<T>>>,
    task: JoinHandle<()>,
}

impl<T: Send + 'static> Witness<T> {
    /// Writes this fact down now and whenever something is published.
    pub fn start(world: &World, fact: impl Fn(&Snapshot) -> T + Send + 'static) -> Witness<T> {
        let apps = world.running.internals().apps();
        let mut policy_changes = world.running.internals().policy_changes();
        let seen = Arc::new(Mutex::new(vec![fact(&apps.load())]));
        let noted = seen.clone();
        let task = tokio::spawn(async move {
            while policy_changes.changed().await.is_ok() {
                noted.lock().expect("no panic").push(fact(&apps.load()));
            }
        });
        Witness { seen, task }
    }

    /// All that was seen.
    pub fn ends(self) -> Vec<T> {
        self.task.abort();
        std::mem::take(&mut *self.seen.lock().expect("no panic"))
    }
}
