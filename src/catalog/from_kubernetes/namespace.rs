//! What is known of one namespace, and what is just being listed anew.

use std::collections::{BTreeMap, HashMap};

use kube::ResourceExt;

use super::application::ObservedApp;
use crate::cluster::{endpoint_slices::EndpointSlice, object::Object, watch::ObjectEvent};

/// The apps and slices of one namespace.
pub struct WatchedNamespace {
    name: String,
    /// By object name.
    pub apps: ObjectStore<ObservedApp>,
    /// By object name.
    pub slices: ObjectStore<EndpointSlice>,
}

impl WatchedNamespace {
    /// Nothing is known of it.
    pub fn new(name: &str) -> WatchedNamespace {
        WatchedNamespace {
            name: name.to_owned(),
            apps: ObjectStore::new(),
            slices: ObjectStore::new(),
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether everything in it was listed at least once.
    pub fn is_known(&self) -> bool {
        self.apps.known && self.slices.known
    }
}

/// Objects of one kind, by name.
pub struct ObjectStore<T> {
    now: HashMap<String, T>,
    /// A list that is not whole yet: it counts for nothing until it is.
    coming: HashMap<String, T>,
    known: bool,
}

impl<T: PartialEq> ObjectStore<T> {
    fn new() -> ObjectStore<T> {
        ObjectStore {
            now: HashMap::new(),
            coming: HashMap::new(),
            known: false,
        }
    }

    /// Takes in what a watch says; `read` makes of an object what is kept, knowing what was kept
    /// before. Gives back whether something changed that counts.
    pub fn apply(
        &mut self,
        told: ObjectEvent,
        read: impl Fn(&Object, Option<&T>) -> Option<(String, T)>,
    ) -> bool {
        match told {
            ObjectEvent::Init => {
                self.coming.clear();
                false
            }
            ObjectEvent::InitApply(object) => {
                let kept = read(&object, self.now.get(&object.name_any()));
                self.coming.extend(kept);
                false
            }
            ObjectEvent::InitDone => {
                let next = std::mem::take(&mut self.coming);
                let changed = !self.known || next != self.now;
                self.now = next;
                self.known = true;
                changed
            }
            ObjectEvent::Apply(object) => {
                let name = object.name_any();
                match read(&object, self.now.get(&name)) {
                    Some((name, next)) => {
                        let changed = self.now.get(&name) != Some(&next);
                        self.now.insert(name, next);
                        changed
                    }
                    None => self.now.remove(&name).is_some(),
                }
            }
            ObjectEvent::Delete(object) => self.now.remove(&object.name_any()).is_some(),
        }
    }

    /// All of them, by name.
    pub fn sorted(&self) -> impl Iterator<Item = (&str, &T)> {
        let sorted: BTreeMap<&str, &T> = self
            .now
            .iter()
            .map(|(name, kept)| (&**name, kept))
            .collect();
        sorted.into_iter()
    }
}
