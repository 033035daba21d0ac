//! The objects of one namespace, with the lists that are not complete yet.

use std::collections::{BTreeMap, HashMap};

use kube::{Resource, ResourceExt};

use super::{
    access_template::{AccessTemplate, NamespaceMetadata},
    application::ObservedApp,
    viewer::WatchedViewer,
};
use crate::cluster::{endpoint_slices::EndpointSlice, object::Object, watch::ObjectEvent};

/// The objects of one namespace.
pub struct WatchedNamespace {
    name: String,
    /// PhApplications by object name.
    pub apps: ObjectStore<ObservedApp>,
    /// EndpointSlices by object name.
    pub slices: ObjectStore<EndpointSlice>,
    /// PVCViewers by object name; empty where they are not served.
    pub viewers: ObjectStore<WatchedViewer>,
    /// Labels and annotations of the Namespace object, by its name; empty where no access rule
    /// reads them.
    pub metadata: ObjectStore<NamespaceMetadata>,
}

impl WatchedNamespace {
    /// A namespace without any list yet. `viewers` is the access rule of viewers, where they are
    /// served.
    pub fn new(name: &str, viewers: Option<&AccessTemplate>) -> WatchedNamespace {
        WatchedNamespace {
            name: name.to_owned(),
            apps: ObjectStore::new(),
            slices: ObjectStore::new(),
            viewers: match viewers {
                Some(_) => ObjectStore::new(),
                None => ObjectStore::unwatched(),
            },
            metadata: match viewers.is_some_and(AccessTemplate::reads_namespaces) {
                true => ObjectStore::new(),
                false => ObjectStore::unwatched(),
            },
        }
    }

    /// Name of the namespace.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether all watched kinds were listed at least once.
    pub fn is_known(&self) -> bool {
        self.apps.known && self.slices.known && self.viewers.known && self.metadata.known
    }
}

/// Namespace and name of an object: names are unique in their namespace only.
pub fn namespaced_name(object: &Object) -> String {
    let namespace = object.meta().namespace.as_deref().unwrap_or_default();
    format!("{namespace}/{}", object.name_any())
}

/// Objects of one kind, by a unique name.
pub struct ObjectStore<T> {
    now: HashMap<String, T>,
    /// A list in progress. It takes effect when it is complete.
    coming: HashMap<String, T>,
    known: bool,
    /// The name under which an object is stored.
    key: fn(&Object) -> String,
}

impl<T: PartialEq> ObjectStore<T> {
    fn new() -> ObjectStore<T> {
        ObjectStore::keyed_by(<Object as ResourceExt>::name_any)
    }

    /// A store without any list yet, for objects whose names are not unique.
    pub fn keyed_by(key: fn(&Object) -> String) -> ObjectStore<T> {
        ObjectStore {
            now: HashMap::new(),
            coming: HashMap::new(),
            known: false,
            key,
        }
    }

    /// A store of a kind that is not watched: it stays empty.
    fn unwatched() -> ObjectStore<T> {
        ObjectStore {
            known: true,
            ..ObjectStore::new()
        }
    }

    /// Whether the objects were listed at least once.
    pub fn is_known(&self) -> bool {
        self.known
    }

    /// Applies an event. `read` turns an object into its name and stored form, given the previous
    /// form. Returns whether the stored state changed.
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
                let form = read(&object, self.now.get(&(self.key)(&object)));
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
                let name = (self.key)(&object);
                match read(&object, self.now.get(&name)) {
                    Some((name, next)) => {
                        let changed = self.now.get(&name) != Some(&next);
                        self.now.insert(name, next);
                        changed
                    }
                    None => self.now.remove(&name).is_some(),
                }
            }
            ObjectEvent::Delete(object) => self.now.remove(&(self.key)(&object)).is_some(),
        }
    }

    /// The object of this name.
    pub fn get(&self, name: &str) -> Option<&T> {
        self.now.get(name)
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
