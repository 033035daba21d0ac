//! What the controller of apps watches in a namespace.

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::{
    apps::v1::{Deployment, ReplicaSet},
    core::v1::{Pod, Service},
    networking::v1::NetworkPolicy,
};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{ApiResource, DynamicObject, PartialObjectMeta},
    runtime::reflector::{Store, store::WriterDropped},
};
use ludgate_cluster::{
    crd::application::{APP_LABEL, PhApplication},
    object::DeepObject,
};

use tokio::time::timeout;

use super::desired::GROUP_LABEL;
use crate::{
    pods::is_active,
    watched::{self, FirstLists, WatchSettings, Watched},
};

/// Longest wait for the first list of datasets.
const DATASETS: Duration = Duration::from_secs(5);

/// The kinds of objects.
#[derive(Clone, Debug)]
pub struct Kinds {
    /// PhApplications.
    pub apps: ApiResource,
    /// Deployments.
    pub deployments: ApiResource,
    /// Services.
    pub services: ApiResource,
    /// NetworkPolicies.
    pub policies: ApiResource,
}

impl Default for Kinds {
    fn default() -> Self {
        Kinds {
            apps: ApiResource::erase::<PhApplication>(&()),
            deployments: ApiResource::erase::<Deployment>(&()),
            services: ApiResource::erase::<Service>(&()),
            policies: ApiResource::erase::<NetworkPolicy>(&()),
        }
    }
}

/// PrimeHub's kinds that a cluster need not have; `None`: it does not know the kind.
#[derive(Clone, Debug, Default)]
pub struct OptionalKinds {
    /// InstanceTypes.
    pub instance_types: Option<ApiResource>,
    /// Datasets.
    pub datasets: Option<ApiResource>,
}

/// The objects of a namespace as of the last events. Clones share them.
#[derive(Clone)]
pub struct Stores {
    /// PhApplications.
    pub apps: Store<DeepObject>,
    /// Deployments of apps.
    pub deployments: Store<DynamicObject>,
    /// Services of apps.
    pub services: Store<DynamicObject>,
    /// NetworkPolicies of apps.
    pub policies: Store<DynamicObject>,
    /// ReplicaSets of apps, without their specs.
    pub replica_sets: Store<PartialObjectMeta<ReplicaSet>>,
    /// Pods of groups: of apps, and others that count for the quota.
    pub pods: Store<Pod>,
    /// InstanceTypes; `None`: the cluster does not know the kind.
    pub instance_types: Option<Store<DynamicObject>>,
    /// Datasets; `None`: the cluster does not know the kind.
    pub datasets: Option<Store<DynamicObject>>,
    /// The namespace.
    pub namespace: String,
    /// The kinds.
    pub kinds: Kinds,
    first_lists: FirstLists,
    datasets_listed: FirstLists,
}

/// The watches of a namespace.
pub struct Watches {
    /// PhApplications.
    pub apps: Watched<DeepObject>,
    /// Deployments of apps.
    pub deployments: Watched<DynamicObject>,
    /// Services of apps.
    pub services: Watched<DynamicObject>,
    /// NetworkPolicies of apps.
    pub policies: Watched<DynamicObject>,
    /// ReplicaSets of apps.
    pub replica_sets: Watched<PartialObjectMeta<ReplicaSet>>,
    /// Pods of groups.
    pub pods: Watched<Pod>,
    /// InstanceTypes.
    pub instance_types: Option<Watched<DynamicObject>>,
    /// Datasets.
    pub datasets: Option<Watched<DynamicObject>>,
}

impl Watches {
    /// Watches a namespace. `length` is how long a watch lasts.
    pub fn new(
        client: &Client,
        namespace: &str,
        kinds: &Kinds,
        optional: OptionalKinds,
        length: Duration,
    ) -> Watches {
        let api = |kind: &ApiResource| -> Api<DynamicObject> {
            Api::namespaced_with(client.clone(), namespace, kind)
        };
        let all = WatchSettings {
            label: None,
            length,
        };
        let of_apps = WatchSettings {
            label: Some(APP_LABEL),
            length,
        };
        let of_groups = WatchSettings {
            label: Some(GROUP_LABEL),
            length,
        };
        let children = |kind: &ApiResource| Watched::new(api(kind), kind.clone(), of_apps);
        let whole = |kind: ApiResource| Watched::new(api(&kind), kind, all);
        let apps = Api::namespaced_with(client.clone(), namespace, &kinds.apps);
        let replica_sets = Api::namespaced(client.clone(), namespace);
        let pods = Api::namespaced(client.clone(), namespace);
        Watches {
            apps: Watched::new(apps, kinds.apps.clone(), all),
            deployments: children(&kinds.deployments),
            services: children(&kinds.services),
            policies: children(&kinds.policies),
            replica_sets: Watched::new(replica_sets, (), of_apps),
            pods: Watched::new(pods, (), of_groups),
            instance_types: optional.instance_types.map(whole),
            datasets: optional.datasets.map(whole),
        }
    }

    /// The stores of these watches.
    pub fn stores(&self, namespace: &str, kinds: &Kinds) -> Stores {
        let store = |watched: &Watched<DynamicObject>| watched.store.clone();
        Stores {
            apps: self.apps.store.clone(),
            deployments: self.deployments.store.clone(),
            services: self.services.store.clone(),
            policies: self.policies.store.clone(),
            replica_sets: self.replica_sets.store.clone(),
            pods: self.pods.store.clone(),
            instance_types: self.instance_types.as_ref().map(store),
            datasets: self.datasets.as_ref().map(store),
            namespace: namespace.to_owned(),
            kinds: kinds.clone(),
            first_lists: FirstLists::default(),
            datasets_listed: FirstLists::default(),
        }
    }
}

impl Stores {
    /// Waits until all kinds but apps and datasets have been listed. `applier` waits for the apps.
    ///
    /// # Errors
    /// A watch has ended for good.
    pub async fn wait_until_ready(&self) -> Result<(), WriterDropped> {
        self.first_lists.wait(self.all_listed()).await
    }

    async fn all_listed(&self) -> Result<(), WriterDropped> {
        for store in [&self.deployments, &self.services, &self.policies] {
            store.wait_until_ready().await?;
        }
        if let Some(types) = &self.instance_types {
            types.wait_until_ready().await?;
        }
        self.replica_sets.wait_until_ready().await?;
        self.pods.wait_until_ready().await
    }

    /// Waits for the list of datasets, for a short time: without the right to list them, apps that
    /// get none must not wait.
    pub async fn are_datasets_known(&self) -> bool {
        match &self.datasets {
            Some(datasets) => {
                let listed = self.datasets_listed.wait(datasets.wait_until_ready());
                let listed = timeout(DATASETS, listed).await;
                matches!(listed, Ok(Ok(())))
            }
            None => true,
        }
    }

    /// An object of this name.
    pub fn find(
        &self,
        store: &Store<DynamicObject>,
        kind: &ApiResource,
        name: &str,
    ) -> Option<Arc<DynamicObject>> {
        watched::find(store, kind, &self.namespace, name)
    }

    /// The Deployment of this name.
    pub fn deployment(&self, name: &str) -> Option<Arc<DynamicObject>> {
        self.find(&self.deployments, &self.kinds.deployments, name)
    }

    /// The pods of an app that run or start.
    pub fn pods_of_app(&self, child_name: &str) -> Vec<Arc<Pod>> {
        let is_its = |pod: &Pod| app_label(pod) == Some(child_name) && is_active(pod);
        self.pods.state_filter(is_its)
    }

    /// The uid of the ReplicaSet of a Deployment's current revision.
    pub fn current_replica_set(&self, deployment: &DynamicObject) -> Option<String> {
        const REVISION: &str = "deployment.kubernetes.io/revision";
        let revision = deployment.annotations().get(REVISION)?;
        let uid = deployment.uid()?;
        let is_current = |set: &PartialObjectMeta<ReplicaSet>| {
            set.owner_references().iter().any(|owner| owner.uid == uid)
                && set.annotations().get(REVISION) == Some(revision)
        };
        self.replica_sets.find(is_current)?.uid()
    }
}

/// The name of the Deployment that an object belongs to.
pub fn app_label(object: &impl Resource) -> Option<&str> {
    object.labels().get(APP_LABEL).map(String::as_str)
}
