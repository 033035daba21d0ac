//! The objects of one category in one namespace, as the watches show them.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use futures_util::{
    StreamExt, future,
    stream::{self, BoxStream},
};
use k8s_openapi::api::{
    batch::v1::Job,
    core::v1::{PersistentVolumeClaim, Pod, Service},
    networking::v1::NetworkPolicy,
};
use kube::{
    Api, Client, ResourceExt,
    api::{ApiResource, DynamicObject},
    runtime::reflector::{Store, store::WriterDropped},
};
use ludgate_cluster::writer::NamespacedName;
use ludgate_controllers::watched::{WatchSettings, Watched};

use crate::metadata::{CATEGORY_LABEL, USER_LABEL};

/// Which objects are watched.
#[derive(Clone, Copy)]
pub(super) struct OwnedSelection<'s> {
    /// Value of their label.
    pub(super) category: &'static str,
    /// Where they are.
    pub(super) namespace: &'s str,
    /// How long a watch lasts.
    pub(super) length: Duration,
}

/// An object with its kind.
#[derive(Clone, Debug)]
pub(super) struct OwnedObject {
    pub(super) kind: Arc<ApiResource>,
    pub(super) object: Arc<DynamicObject>,
}

impl OwnedObject {
    pub(super) fn uid(&self) -> String {
        self.object.uid().unwrap_or_default()
    }

    pub(super) fn name(&self) -> NamespacedName<'_> {
        let metadata = &self.object.metadata;
        NamespacedName {
            namespace: metadata.namespace.as_deref().unwrap_or_default(),
            name: metadata.name.as_deref().unwrap_or_default(),
        }
    }

    pub(super) fn is(&self, kind: &str) -> bool {
        self.kind.kind == kind
    }

    fn username(&self) -> Option<&str> {
        self.object.labels().get(USER_LABEL).map(String::as_str)
    }
}

/// Objects of one kind.
struct OwnedStore {
    kind: Arc<ApiResource>,
    objects: Store<DynamicObject>,
}

/// The objects of one category. Clones share them.
#[derive(Clone)]
pub(super) struct OwnedStores(Arc<[OwnedStore]>);

impl OwnedStores {
    /// Watches the objects. The stores follow while the changes are polled.
    pub(super) fn watch(
        client: &Client,
        selection: OwnedSelection<'_>,
    ) -> (OwnedStores, BoxStream<'static, ()>) {
        let label = format!("{CATEGORY_LABEL}={}", selection.category);
        let settings = WatchSettings {
            label: Some(&label),
            length: selection.length,
        };
        // Objects are deleted in this order: the address first, the data last. The policy stays
        // as long as there is a pod.
        let kinds = [
            ApiResource::erase::<Service>(&()),
            ApiResource::erase::<Job>(&()),
            ApiResource::erase::<Pod>(&()),
            ApiResource::erase::<NetworkPolicy>(&()),
            ApiResource::erase::<PersistentVolumeClaim>(&()),
        ];
        let mut changes = Vec::new();
        let stores = kinds.map(|kind| {
            let api = Api::namespaced_with(client.clone(), selection.namespace, &kind);
            let watched = Watched::<DynamicObject>::new(api, kind.clone(), settings);
            let plural = kind.plural.clone();
            changes.push(watched.changes.filter_map(move |change| {
                if let Err(error) = &change {
                    tracing::warn!(kind = plural, %error, "cannot watch the cluster");
                }
                future::ready(change.ok().map(|_| ()))
            }));
            OwnedStore {
                kind: Arc::new(kind),
                objects: watched.store,
            }
        });
        (
            OwnedStores(Arc::new(stores)),
            stream::select_all(changes).boxed(),
        )
    }

    /// Waits until all kinds have been listed.
    ///
    /// # Errors
    /// A watch has ended for good.
    pub(super) async fn wait_until_ready(&self) -> Result<(), WriterDropped> {
        for store in self.0.iter() {
            store.objects.wait_until_ready().await?;
        }
        Ok(())
    }

    /// All objects, in the order of deletion.
    pub(super) fn all(&self) -> Vec<OwnedObject> {
        let of_store = |store: &OwnedStore| {
            let objects = store.objects.state().into_iter();
            let owned = objects.map(|object| OwnedObject {
                kind: store.kind.clone(),
                object,
            });
            owned.collect::<Vec<OwnedObject>>()
        };
        self.0.iter().flat_map(of_store).collect()
    }

    /// The objects of a person, in the order of deletion.
    pub(super) fn of_user(&self, username: &str) -> Vec<OwnedObject> {
        let mut objects = self.all();
        objects.retain(|object| object.username() == Some(username));
        objects
    }

    /// The objects by person.
    pub(super) fn by_user(&self) -> BTreeMap<String, Vec<OwnedObject>> {
        let mut by_user: BTreeMap<String, Vec<OwnedObject>> = BTreeMap::new();
        for object in self.all() {
            if let Some(username) = object.username() {
                by_user.entry(username.to_owned()).or_default().push(object);
            }
        }
        by_user
    }
}
