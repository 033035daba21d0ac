//! Objects that a controller keeps in memory: a store, and a stream of changes.

use std::fmt::Debug;

use futures_util::{StreamExt, stream::BoxStream};
use kube::{
    Api, Resource, ResourceExt,
    runtime::{
        WatchStreamExt,
        reflector::{Store, store::Writer},
        watcher,
    },
};
use serde::de::DeserializeOwned;

/// A watched kind of object.
pub struct Watched<K: Resource + 'static>
where
    K::DynamicType: std::hash::Hash + Eq,
{
    /// The objects as of the last event.
    pub store: Store<K>,
    /// Objects that were added, changed or deleted. The store follows it, so it must be polled.
    pub changes: BoxStream<'static, Result<K, watcher::Error>>,
}

impl<K> Watched<K>
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
    K::DynamicType: std::hash::Hash + Eq + Clone + Unpin + Send + Sync,
{
    /// Watches the objects with a label.
    pub fn with_label(api: Api<K>, kind: K::DynamicType, label: &str) -> Watched<K> {
        Watched::new(api, kind, watcher::Config::default().labels(label))
    }

    /// Watches all objects.
    pub fn all(api: Api<K>, kind: K::DynamicType) -> Watched<K> {
        Watched::new(api, kind, watcher::Config::default())
    }

    fn new(api: Api<K>, kind: K::DynamicType, config: watcher::Config) -> Watched<K> {
        let writer = Writer::new(kind);
        let store = writer.as_reader();
        let changes = watcher(api, config)
            .default_backoff()
            // Often half of an object, and never read.
            .modify(|object| object.managed_fields_mut().clear())
            .reflect(writer)
            .touched_objects()
            .boxed();
        Watched { store, changes }
    }
}
