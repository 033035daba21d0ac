//! Objects that a controller keeps in memory: a store, and a stream of changes.

use std::{fmt::Debug, hash::Hash, sync::Arc, time::Duration};

use futures_util::{StreamExt, future, stream::BoxStream};
use kube::{
    Api, Resource, ResourceExt,
    api::{ApiResource, DynamicObject},
    runtime::{
        WatchStreamExt,
        reflector::{
            ObjectRef, Store,
            store::{Writer, WriterDropped},
        },
        watcher::{self, Event, watcher},
    },
};
use serde::de::DeserializeOwned;
use tokio::sync::OnceCell;

/// Whether stores have been listed once. Clones share it.
///
/// Of several callers that wait for a store of kube, only the last one wakes up. So one caller
/// waits for the stores, and the others for that caller.
#[derive(Clone, Debug, Default)]
pub struct FirstLists(Arc<OnceCell<()>>);

impl FirstLists {
    /// Whether that is so.
    pub fn are_read(&self) -> bool {
        self.0.initialized()
    }

    /// Waits until `listed` has ended, for one of all callers.
    ///
    /// # Errors
    /// Those of `listed`: a watch has ended for good.
    pub async fn wait(
        &self,
        listed: impl Future<Output = Result<(), WriterDropped>>,
    ) -> Result<(), WriterDropped> {
        self.0.get_or_try_init(|| listed).await.copied()
    }
}

/// The longest watch that kube accepts, in seconds.
const MAX_WATCH: u64 = 290;

/// A change of the watched objects.
#[derive(Debug)]
pub enum Change<K> {
    /// An object was added, changed or deleted.
    Object(K),
    /// All objects were listed again. Some may be gone without a change of their own.
    Listed,
}

/// A watched kind of object.
pub struct Watched<K: Resource + 'static>
where
    K::DynamicType: Hash + Eq,
{
    /// The objects as of the last change.
    pub store: Store<K>,
    /// The changes. The store follows them, so they must be polled.
    pub changes: BoxStream<'static, Result<Change<K>, watcher::Error>>,
}

/// Which objects are watched, and how.
#[derive(Clone, Copy)]
pub struct WatchSettings<'a> {
    /// A label that the objects have; `None`: all objects.
    pub label: Option<&'a str>,
    /// A watch is opened again after this time, so that a dead connection is noticed.
    pub length: Duration,
}

/// The configuration of a watch that lasts for this time, as far as kube accepts it.
pub fn watch_config(length: Duration) -> watcher::Config {
    let seconds = length.as_secs().clamp(1, MAX_WATCH);
    watcher::Config::default().timeout(u32::try_from(seconds).unwrap_or(1))
}

/// The object of this name in a store.
pub fn find(
    store: &Store<DynamicObject>,
    kind: &ApiResource,
    namespace: &str,
    name: &str,
) -> Option<Arc<DynamicObject>> {
    store.get(&ObjectRef::new_with(name, kind.clone()).within(namespace))
}

/// An object as its type in `k8s_openapi`; `None` if it is not of this type.
pub fn typed<K: DeserializeOwned>(object: &DynamicObject) -> Option<K> {
    serde_json::from_value(serde_json::to_value(object).ok()?).ok()
}

impl<K> Watched<K>
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
    K::DynamicType: Hash + Eq + Clone + Unpin + Send + Sync,
{
    /// Watches objects, without their managed fields.
    pub fn new(api: Api<K>, kind: K::DynamicType, settings: WatchSettings<'_>) -> Watched<K> {
        // Often half of an object, and rarely read.
        Watched::trimmed(api, kind, settings, |object| {
            object.managed_fields_mut().clear();
        })
    }

    /// Watches objects without the parts that `trim` removes.
    pub fn trimmed(
        api: Api<K>,
        kind: K::DynamicType,
        settings: WatchSettings<'_>,
        trim: impl FnMut(&mut K) + Send + 'static,
    ) -> Watched<K> {
        let config = watch_config(settings.length);
        let config = match settings.label {
            Some(label) => config.labels(label),
            None => config,
        };
        let writer = Writer::new(kind);
        let store = writer.as_reader();
        let changes = watcher(api, config)
            .default_backoff()
            .modify(trim)
            .reflect(writer)
            .filter_map(|event| {
                future::ready(match event {
                    Ok(Event::Apply(object) | Event::Delete(object)) => {
                        Some(Ok(Change::Object(object)))
                    }
                    Ok(Event::InitDone) => Some(Ok(Change::Listed)),
                    // The store has these only after the whole list.
                    Ok(Event::Init | Event::InitApply(_)) => None,
                    Err(error) => Some(Err(error)),
                })
            })
            .boxed();
        Watched { store, changes }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::{FutureExt, StreamExt, stream::FuturesUnordered};
    use k8s_openapi::api::core::v1::Pod;

    use super::*;

    #[test]
    fn all_who_wait_for_the_first_list_wake_up() {
        let mut writer = Writer::<Pod>::new(());
        let (store, lists) = (writer.as_reader(), FirstLists::default());
        // Each future here is polled only when it is woken, as in a controller.
        let mut waiting: FuturesUnordered<_> = (0..3)
            .map(|_| lists.wait(store.wait_until_ready()))
            .collect();
        assert!(waiting.next().now_or_never().is_none());
        writer.apply_watcher_event(&Event::Init);
        writer.apply_watcher_event(&Event::InitDone);
        let ended = waiting.collect::<Vec<_>>().now_or_never();
        let ended = ended.expect("all have ended");
        assert!(ended.len() == 3 && ended.iter().all(Result::is_ok));
    }
}
