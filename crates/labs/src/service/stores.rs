//! The objects of all labs, as the watches show them.

use std::{sync::Arc, time::Duration};

use futures_util::{
    StreamExt, future,
    stream::{self, BoxStream},
};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod, ResourceQuota};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{ApiResource, DynamicObject},
    runtime::reflector::{ObjectRef, Store, store::WriterDropped},
};
use ludgate_controllers::watched::{Change, WatchSettings, Watched, find};
use serde_json::Value;

use crate::{
    metadata::{CATEGORY_LABEL, USER_LABEL},
    names::LabNames,
};

/// Value of the label of objects of labs.
const CATEGORY: &str = "lab";

/// Whose objects have changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum LabChange {
    /// A person's.
    Of(String),
    /// All may have.
    All,
}

/// Objects of one kind.
#[derive(Clone)]
struct KindStore {
    kind: ApiResource,
    objects: Store<DynamicObject>,
}

/// The objects of all labs. Clones share them.
#[derive(Clone)]
pub(super) struct LabStores {
    namespaces: KindStore,
    pods: KindStore,
    config_maps: KindStore,
    quotas: KindStore,
}

/// The objects of one lab.
#[derive(Clone, Debug)]
pub(super) struct FoundLab {
    pub(super) namespace: Option<Arc<DynamicObject>>,
    pub(super) pod: Option<Arc<DynamicObject>>,
    pub(super) env: Option<Arc<DynamicObject>>,
    pub(super) quota: Option<Arc<DynamicObject>>,
}

impl LabStores {
    /// Watches the objects with the label of labs in all namespaces. `length` is how long a watch
    /// lasts. The stores follow while the changes are polled.
    pub(super) fn watch(
        client: &Client,
        length: Duration,
    ) -> (LabStores, BoxStream<'static, LabChange>) {
        let label = format!("{CATEGORY_LABEL}={CATEGORY}");
        let settings = WatchSettings {
            label: Some(&label),
            length,
        };
        let mut changes = Vec::new();
        let mut watched = |kind: ApiResource| {
            let api = Api::all_with(client.clone(), &kind);
            let watched = Watched::<DynamicObject>::new(api, kind.clone(), settings);
            let plural = kind.plural.clone();
            changes.push(watched.changes.filter_map(move |change| {
                future::ready(match change {
                    Ok(Change::Listed) => Some(LabChange::All),
                    Ok(Change::Object(object)) => username(&object).map(LabChange::Of),
                    Err(error) => {
                        tracing::warn!(kind = plural, %error, "cannot watch the cluster");
                        None
                    }
                })
            }));
            KindStore {
                kind,
                objects: watched.store,
            }
        };
        let stores = LabStores {
            namespaces: watched(ApiResource::erase::<Namespace>(&())),
            pods: watched(ApiResource::erase::<Pod>(&())),
            config_maps: watched(ApiResource::erase::<ConfigMap>(&())),
            quotas: watched(ApiResource::erase::<ResourceQuota>(&())),
        };
        (stores, stream::select_all(changes).boxed())
    }

    /// Waits until all kinds have been listed. Only the last of several callers would wake up.
    ///
    /// # Errors
    /// A watch has ended for good.
    pub(super) async fn wait_until_ready(&self) -> Result<(), WriterDropped> {
        for store in [
            &self.namespaces,
            &self.pods,
            &self.config_maps,
            &self.quotas,
        ] {
            store.objects.wait_until_ready().await?;
        }
        Ok(())
    }

    /// The objects of a lab.
    pub(super) fn found(&self, names: &LabNames) -> FoundLab {
        let named = |store: &KindStore, name: &str| {
            find(&store.objects, &store.kind, &names.namespace, name)
        };
        FoundLab {
            namespace: self.namespace(&names.namespace),
            pod: named(&self.pods, &names.lab),
            env: named(&self.config_maps, &names.env),
            quota: named(&self.quotas, &names.lab),
        }
    }

    /// The namespace of this name.
    pub(super) fn namespace(&self, name: &str) -> Option<Arc<DynamicObject>> {
        let KindStore { kind, objects } = &self.namespaces;
        objects.get(&ObjectRef::new_with(name, kind.clone()))
    }

    /// The pod of this name.
    pub(super) fn pod(&self, namespace: &str, name: &str) -> Option<Arc<DynamicObject>> {
        find(&self.pods.objects, &self.pods.kind, namespace, name)
    }

    /// The persons that have a namespace.
    pub(super) fn usernames(&self) -> Vec<String> {
        let namespaces = self.namespaces.objects.state();
        namespaces.iter().filter_map(|it| username(it)).collect()
    }
}

/// Whether an object is part of a person's lab.
pub(super) fn is_of_lab(object: &DynamicObject, username: &str) -> bool {
    let labels = object.labels();
    let is = |label: &str, value: &str| labels.get(label).is_some_and(|found| found == value);
    is(CATEGORY_LABEL, CATEGORY) && is(USER_LABEL, username)
}

fn username(object: &DynamicObject) -> Option<String> {
    object.labels().get(USER_LABEL).cloned()
}

/// The phase of a pod.
pub(super) fn phase(pod: &DynamicObject) -> Option<&str> {
    pod.data["status"]["phase"].as_str()
}

/// Whether an object is being deleted.
pub(super) fn is_ending(object: &DynamicObject) -> bool {
    object.meta().deletion_timestamp.is_some()
}

/// An object as JSON.
pub(super) fn json(object: &DynamicObject) -> Value {
    serde_json::to_value(object).unwrap_or_default()
}
