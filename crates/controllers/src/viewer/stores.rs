//! What the controller of viewers watches in a namespace.

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{PersistentVolumeClaim, Pod, Service},
    networking::v1::NetworkPolicy,
};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{ApiResource, DynamicObject},
    core::GroupVersionKind,
    runtime::reflector::{ObjectRef, Store, store::WriterDropped},
};
use ludgate_cluster::{
    crd::viewer::{NAME_LABEL, PART_OF, PART_OF_LABEL, PVCViewer},
    object::DeepObject,
};

use super::{placement::mounts, settings::Publication};
use crate::watched::{self, FirstLists, WatchSettings, Watched};

/// The kinds of objects.
#[derive(Clone, Debug)]
pub struct ViewerKinds {
    /// PVCViewers.
    pub viewers: ApiResource,
    /// Deployments.
    pub deployments: ApiResource,
    /// Services.
    pub services: ApiResource,
    /// NetworkPolicies.
    pub policies: ApiResource,
    /// The kind that publishes viewers; `None`: Ludgate's gateway needs none.
    pub routes: Option<ApiResource>,
}

impl ViewerKinds {
    /// The kinds that this form of publication needs.
    pub fn new(publication: &Publication) -> ViewerKinds {
        ViewerKinds {
            viewers: ApiResource::erase::<PVCViewer>(&()),
            deployments: ApiResource::erase::<Deployment>(&()),
            services: ApiResource::erase::<Service>(&()),
            policies: ApiResource::erase::<NetworkPolicy>(&()),
            routes: match publication {
                Publication::Ludgate => None,
                Publication::VirtualService { .. } => Some(kind(
                    "networking.istio.io",
                    "v1alpha3",
                    "VirtualService",
                    "virtualservices",
                )),
                Publication::HttpRoute { .. } => Some(kind(
                    "gateway.networking.k8s.io",
                    "v1",
                    "HTTPRoute",
                    "httproutes",
                )),
            },
        }
    }
}

fn kind(group: &str, version: &str, kind: &str, plural: &str) -> ApiResource {
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural)
}

/// The objects of a namespace as of the last events. Clones share them.
#[derive(Clone)]
pub struct ViewerStores {
    /// PVCViewers.
    pub viewers: Store<DeepObject>,
    /// Deployments of viewers.
    pub deployments: Store<DynamicObject>,
    /// Services of viewers.
    pub services: Store<DynamicObject>,
    /// NetworkPolicies of viewers.
    pub policies: Store<DynamicObject>,
    /// Routes of viewers.
    pub routes: Option<Store<DynamicObject>>,
    /// All pods: of viewers, and others that use their claims.
    pub pods: Store<Pod>,
    /// All claims.
    pub claims: Store<PersistentVolumeClaim>,
    /// The namespace.
    pub namespace: String,
    /// The kinds.
    pub kinds: ViewerKinds,
    first_lists: FirstLists,
}

/// The watches of a namespace.
pub struct ViewerWatches {
    /// PVCViewers.
    pub viewers: Watched<DeepObject>,
    /// Deployments, Services, NetworkPolicies and routes of viewers.
    pub children: Vec<Watched<DynamicObject>>,
    /// All pods.
    pub pods: Watched<Pod>,
    /// All claims.
    pub claims: Watched<PersistentVolumeClaim>,
}

impl ViewerStores {
    /// Watches a namespace. `length` is how long a watch lasts.
    pub fn watch(
        client: &Client,
        namespace: &str,
        kinds: ViewerKinds,
        length: Duration,
    ) -> (ViewerStores, ViewerWatches) {
        let all = WatchSettings {
            label: None,
            length,
        };
        let part_of = format!("{PART_OF_LABEL}={PART_OF}");
        let of_viewers = WatchSettings {
            label: Some(&part_of),
            length,
        };
        let children = |kind: &ApiResource| {
            let api = Api::namespaced_with(client.clone(), namespace, kind);
            Watched::<DynamicObject>::new(api, kind.clone(), of_viewers)
        };
        let viewers = Api::namespaced_with(client.clone(), namespace, &kinds.viewers);
        let viewers = Watched::new(viewers, kinds.viewers.clone(), all);
        let pods = Watched::new(Api::namespaced(client.clone(), namespace), (), all);
        let claims = Watched::new(Api::namespaced(client.clone(), namespace), (), all);
        let deployments = children(&kinds.deployments);
        let services = children(&kinds.services);
        let policies = children(&kinds.policies);
        let routes = kinds.routes.as_ref().map(children);
        let stores = ViewerStores {
            viewers: viewers.store.clone(),
            deployments: deployments.store.clone(),
            services: services.store.clone(),
            policies: policies.store.clone(),
            routes: routes.as_ref().map(|watched| watched.store.clone()),
            pods: pods.store.clone(),
            claims: claims.store.clone(),
            namespace: namespace.to_owned(),
            kinds,
            first_lists: FirstLists::default(),
        };
        let mut children = vec![deployments, services, policies];
        children.extend(routes);
        let watches = ViewerWatches {
            viewers,
            children,
            pods,
            claims,
        };
        (stores, watches)
    }

    /// Waits until all kinds but viewers have been listed. `applier` waits for the viewers.
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
        if let Some(routes) = &self.routes {
            routes.wait_until_ready().await?;
        }
        self.claims.wait_until_ready().await?;
        self.pods.wait_until_ready().await
    }

    /// A child of this name.
    pub fn child(
        &self,
        store: &Store<DynamicObject>,
        kind: &ApiResource,
        name: &str,
    ) -> Option<Arc<DynamicObject>> {
        watched::find(store, kind, &self.namespace, name)
    }

    /// The Deployment of this name.
    pub fn deployment(&self, name: &str) -> Option<Arc<DynamicObject>> {
        self.child(&self.deployments, &self.kinds.deployments, name)
    }

    /// The claim of this name.
    pub fn claim(&self, name: &str) -> Option<Arc<PersistentVolumeClaim>> {
        self.claims
            .get(&ObjectRef::new(name).within(&self.namespace))
    }

    /// The pods that mount a claim.
    pub fn pods_of_claim(&self, claim: &str) -> Vec<Arc<Pod>> {
        self.pods.state_filter(|pod| mounts(pod, claim))
    }

    /// The pods of a viewer.
    pub fn pods_of_viewer(&self, viewer: &str) -> Vec<Arc<Pod>> {
        self.pods
            .state_filter(|pod| viewer_label(pod) == Some(viewer))
    }

    /// The names of the viewers of a claim.
    pub fn viewers_of_claim(&self, claim: &str) -> Vec<String> {
        let viewers = self
            .viewers
            .state_filter(|viewer| viewer.spec["pvc"] == claim);
        viewers.iter().map(|viewer| viewer.name_any()).collect()
    }
}

/// The name of the viewer that an object belongs to.
pub fn viewer_label(object: &impl Resource) -> Option<&str> {
    let labels = object.labels();
    let name = labels.get(NAME_LABEL)?;
    let is_part = labels.get(PART_OF_LABEL).map(String::as_str) == Some(PART_OF);
    is_part.then_some(name)
}
