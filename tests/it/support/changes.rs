//! Objects and their changes, as a watch of the test's own shows them.

use std::{fmt::Debug, time::Duration};

use futures_util::{StreamExt, future, stream::BoxStream};
use kube::{
    Api, Resource,
    runtime::{WatchStreamExt, watcher},
};
use serde::de::DeserializeOwned;

/// Longest wait for pods: kubelet takes its time on a busy machine, and waits longer after each
/// crash of a container.
pub const POD_PATIENCE: Duration = Duration::from_secs(120);

/// The selected objects as they are, then each of their changes, in order. None is lost between two
/// waits.
pub struct Changes<K>(BoxStream<'static, K>);

impl<K: Clone + Debug + DeserializeOwned + Resource + Send + 'static> Changes<K> {
    pub fn new(api: Api<K>, selected: watcher::Config) -> Changes<K> {
        let changes = watcher(api, selected).default_backoff().applied_objects();
        Changes(changes.filter_map(|it| future::ready(it.ok())).boxed())
    }

    /// Those of one object.
    pub fn named(api: Api<K>, name: &str) -> Changes<K> {
        let selected = watcher::Config::default().fields(&format!("metadata.name={name}"));
        Changes::new(api, selected)
    }

    /// Waits until an object is as wanted.
    pub async fn until(&mut self, mut wanted: impl FnMut(&K) -> bool) -> K {
        let mut last = None;
        let found = async {
            loop {
                let object = self.0.next().await.expect("a watch does not end");
                if wanted(&object) {
                    return object;
                }
                last = Some(object);
            }
        };
        let waited = tokio::time::timeout(POD_PATIENCE, found).await;
        waited.unwrap_or_else(|_| panic!("not as wanted: {last:?}"))
    }
}
