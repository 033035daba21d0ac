//! The apps and slices of one namespace, with the lists that are not complete yet.

use std::collections::{BTreeMap, HashMap};

use kube::ResourceExt;

use super::application::ObservedApp;
use crate::cluster::{endpoint_slices::EndpointSlice, object::Object, watch::ObjectEvent};

/// The apps and slices of one namespace.
pub struct WatchedNamespace {
    name: String,
    /// PhApplications by object name.
    pub apps: ObjectStore<ObservedApp>,
    /// EndpointSlices by object name.
    pub slices: ObjectStore<EndpointSlice>,
}

impl WatchedNamespace {
    /// A namespace without any list yet.
    pub fn new(name: &str) -> WatchedNamespace {
        WatchedNamespace {
            name: name.to_owned(),
            apps: ObjectStore::new(),
            slices: ObjectStore::new(),
        }
    }

    /// Name of the namespace.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether both kinds were listed at least once.
    pub fn is_known(&self) -> bool {
        self.apps.known && self.slices.known
    }
}

/// Objects of one kind, by name.
pub struct ObjectStore<T> {
    now: HashMap<String, T>,
    /// A list in progress. It takes effect when it is complete.
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

    /// Applies an event. `read` turns an object into its stored form, given the previous form.
    /// Returns whether the stored state changed.
    pub fn apply(
        &mut self,
        event: ObjectEvent,
        read: impl Fn(&Object, Option<&T>) -> Option<(String, T)>,
    ) -> bool {
        match event {
            ObjectEvent::Init => {
                self.coming.clear();
                false
            }
            ObjectEvent::InitApply(object) => {
                let form = read(&object, self.now.get(&object.name_any()));
                self.coming.extend(form);
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

    /// All objects, sorted by name.
    pub fn sorted(&self) -> impl Iterator<Item = (&str, &T)> {
        let sorted: BTreeMap<&str, &T> = self
            .now
            .iter()
            .map(|(name, form)| (&**name, form))
            .collect();
        sorted.into_iter()
    }
}
