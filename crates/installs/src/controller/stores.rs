//! What the controller of installations watches in its own cluster, besides releases and
//! namespaces.

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::Secret;
use kube::{
    Api, Client, Resource, ResourceExt,
    api::ApiResource,
    core::PartialObjectMeta,
    runtime::reflector::{ObjectRef, Store, store::WriterDropped},
};
use ludgate_cluster::{
    crd::{
        definition::{ApplicationDefinition, SECRET_TYPE_ANNOTATION},
        installation::ApplicationInstallation,
    },
    object::DeepObject,
};
use ludgate_controllers::watched::{FirstLists, WatchSettings, Watched};

use super::parsed;

/// Labels and annotations of a Secret. Its data is not sent.
pub(super) type SecretMeta = PartialObjectMeta<Secret>;

/// The kinds of custom resources.
#[derive(Clone, Debug)]
pub(super) struct InstallationKinds {
    pub(super) installations: ApiResource,
    pub(super) definitions: ApiResource,
}

impl InstallationKinds {
    pub(super) fn new() -> InstallationKinds {
        InstallationKinds {
            installations: ApiResource::erase::<ApplicationInstallation>(&()),
            definitions: ApiResource::erase::<ApplicationDefinition>(&()),
        }
    }
}

/// The objects as of the last events. Clones share them.
#[derive(Clone)]
pub(super) struct InstallationStores {
    /// Installations of the namespace, or of all.
    pub(super) installations: Store<DeepObject>,
    /// All definitions.
    pub(super) definitions: Store<DeepObject>,
    /// The Secrets of the home namespace.
    pub(super) secrets: Store<SecretMeta>,
    pub(super) kinds: InstallationKinds,
    first_lists: FirstLists,
}

/// The watches.
pub(super) struct InstallationWatches {
    pub(super) installations: Watched<DeepObject>,
    pub(super) definitions: Watched<DeepObject>,
    pub(super) secrets: Watched<SecretMeta>,
}

/// What is watched.
#[derive(Clone, Copy, Debug)]
pub(super) struct WatchScope<'a> {
    /// The namespace of the installations; `None`: all.
    pub(super) namespace: Option<&'a str>,
    /// The namespace of the Secrets with credentials.
    pub(super) home: &'a str,
    /// How long a watch lasts.
    pub(super) length: Duration,
}

impl InstallationStores {
    /// Watches objects.
    pub(super) fn watch(
        client: &Client,
        scope: WatchScope<'_>,
    ) -> (InstallationStores, InstallationWatches) {
        let kinds = InstallationKinds::new();
        let all = WatchSettings {
            label: None,
            length: scope.length,
        };
        let api = match scope.namespace {
            Some(namespace) => {
                Api::namespaced_with(client.clone(), namespace, &kinds.installations)
            }
            None => Api::all_with(client.clone(), &kinds.installations),
        };
        let installations = Watched::<DeepObject>::new(api, kinds.installations.clone(), all);
        let api = Api::all_with(client.clone(), &kinds.definitions);
        let definitions = Watched::<DeepObject>::new(api, kinds.definitions.clone(), all);
        let api: Api<SecretMeta> = Api::namespaced(client.clone(), scope.home);
        let secrets = Watched::new(api, (), all);
        let stores = InstallationStores {
            installations: installations.store.clone(),
            definitions: definitions.store.clone(),
            secrets: secrets.store.clone(),
            kinds,
            first_lists: FirstLists::default(),
        };
        let watches = InstallationWatches {
            installations,
            definitions,
            secrets,
        };
        (stores, watches)
    }

    /// Waits until definitions and Secrets have been listed. `applier` waits for installations.
    ///
    /// # Errors
    /// A watch has ended for good.
    pub(super) async fn wait_until_ready(&self) -> Result<(), WriterDropped> {
        self.first_lists.wait(self.all_listed()).await
    }

    async fn all_listed(&self) -> Result<(), WriterDropped> {
        self.definitions.wait_until_ready().await?;
        self.secrets.wait_until_ready().await
    }

    /// The definition of this name. One that cannot be read is like none: its installations stay.
    pub(super) fn definition(&self, name: &str) -> Option<ApplicationDefinition> {
        let place = ObjectRef::new_with(name, self.kinds.definitions.clone());
        let object = self.definitions.get(&place)?;
        parsed::definition(&object).ok()
    }

    /// All definitions that can be read.
    pub(super) fn all_definitions(&self) -> Vec<ApplicationDefinition> {
        let objects = self.definitions.state();
        objects
            .iter()
            .filter_map(|object| parsed::definition(object).ok())
            .collect()
    }

    /// All installations that can be read.
    pub(super) fn all_installations(&self) -> Vec<ApplicationInstallation> {
        let objects = self.installations.state();
        objects
            .iter()
            .filter_map(|object| parsed::installation(object).ok())
            .collect()
    }

    /// An installation, as a request to reconcile it.
    pub(super) fn request(&self, object: &impl Resource) -> ObjectRef<DeepObject> {
        let namespace = object.meta().namespace.as_deref().unwrap_or_default();
        let name = object.meta().name.as_deref().unwrap_or_default();
        ObjectRef::new_with(name, self.kinds.installations.clone()).within(namespace)
    }

    /// The installations for which this holds, as requests to reconcile them.
    pub(super) fn requests(
        &self,
        is_meant: impl Fn(&DeepObject) -> bool,
    ) -> Vec<ObjectRef<DeepObject>> {
        let objects: Vec<Arc<DeepObject>> = self.installations.state();
        let meant = objects.iter().filter(|object| is_meant(object));
        meant.map(|object| self.request(&**object)).collect()
    }
}

/// Whether definitions may name a Secret. Those without the annotation may be anything.
pub(super) fn holds_credentials(secret: &impl Resource) -> bool {
    secret.annotations().contains_key(SECRET_TYPE_ANNOTATION)
}
