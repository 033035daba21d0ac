//! The controller of viewers in one namespace: what leads to a reconcile.

use std::{sync::Arc, time::Duration};

use futures_util::{StreamExt, stream};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::{Client, Resource, ResourceExt, runtime::reflector::ObjectRef};
use ludgate_cluster::{object::DeepObject, writer::Writer};
use tokio::sync::watch;

use super::{
    reconcile::{ViewerReconcile, reconcile},
    settings::ViewerSettings,
    stores::{ViewerKinds, ViewerStores, ViewerWatches, viewer_label},
};
use crate::{
    children::{Children, FIELD_MANAGER},
    error::Backoffs,
    events::EventPublisher,
    idle::gateway_activity::GatewayActivity,
    metrics::ControllerMetrics,
    requests::{ReconcileRequests, ReconciledKind},
    watched::Change,
};

/// The controller of viewers in one namespace.
pub struct ViewerController {
    /// The client.
    pub client: Client,
    /// The namespace.
    pub namespace: String,
    /// How long a watch lasts.
    pub watch: Duration,
    /// The settings; every viewer is looked at again when they change, except for the form of
    /// publication, which is taken once.
    pub settings: watch::Receiver<Arc<ViewerSettings>>,
    /// The uses of viewers, as the gateways report them.
    pub activity: GatewayActivity,
    /// The metrics.
    pub metrics: ControllerMetrics,
}

impl ViewerController {
    /// Runs until it is dropped.
    pub async fn run(self) {
        let kinds = ViewerKinds::new(&self.settings.borrow().publication);
        let (stores, watches) =
            ViewerStores::watch(&self.client, &self.namespace, kinds, self.watch);
        let viewers = ReconciledKind {
            store: stores.viewers.clone(),
            kind: stores.kinds.viewers.clone(),
            namespace: self.namespace,
        };
        let events = EventPublisher::start(self.client.clone());
        let writer = Writer::new(self.client, FIELD_MANAGER);
        let context = Arc::new(ViewerReconcile {
            stores: stores.clone(),
            children: Children::new(writer.clone(), self.metrics.clone()),
            writer,
            events,
            activity: self.activity.clone(),
            settings: self.settings.clone(),
            metrics: self.metrics.clone(),
            backoffs: Backoffs::default(),
        });
        let mapper = ViewerRequests { viewers, stores };
        let requests = mapper.requests(watches, self.settings, &self.activity);
        mapper.viewers.run(context, requests, reconcile).await;
    }
}

/// Maps changes of objects to the viewers that must be reconciled.
#[derive(Clone)]
struct ViewerRequests {
    viewers: ReconciledKind,
    stores: ViewerStores,
}

impl ViewerRequests {
    /// Every change that may change a viewer's objects or its status.
    fn requests(
        &self,
        watches: ViewerWatches,
        settings: watch::Receiver<Arc<ViewerSettings>>,
        activity: &GatewayActivity,
    ) -> ReconcileRequests {
        let viewers = self.viewers.clone();
        let own = move |viewer: &DeepObject| vec![viewers.named(&viewer.name_any())];
        let of_pod = self.clone();
        let of_claim = self.clone();
        let of_use = self.viewers.clone();
        let uses = activity.subscribe();
        let uses = uses.map(|app| Ok(Change::Object(app))).boxed();
        let mut all = vec![
            self.viewers.requests(watches.viewers.changes, own),
            self.viewers
                .requests(watches.pods.changes, move |pod| of_pod.viewers_of_pod(pod)),
            self.viewers.requests(
                watches.claims.changes,
                move |claim: &PersistentVolumeClaim| of_claim.viewers_of_claim(&claim.name_any()),
            ),
            self.viewers.requests_by_settings(settings),
            self.viewers.requests(uses, move |app: &String| {
                let name = app.strip_prefix(&of_use.namespace);
                let name = name.and_then(|rest| rest.strip_prefix('/'));
                name.map(|name| of_use.named(name)).into_iter().collect()
            }),
        ];
        for children in watches.children {
            let mapper = self.clone();
            all.push(self.viewers.requests(children.changes, move |child| {
                mapper.viewer_of(child).into_iter().collect()
            }));
        }
        stream::select_all(all).boxed()
    }

    fn viewer_of<K: Resource>(&self, child: &K) -> Option<ObjectRef<DeepObject>> {
        viewer_label(child).map(|name| self.viewers.named(name))
    }

    /// The viewer of a pod; else the viewers of the claims that it mounts.
    fn viewers_of_pod(&self, pod: &Pod) -> Vec<ObjectRef<DeepObject>> {
        if let Some(viewer) = self.viewer_of(pod) {
            return vec![viewer];
        }
        let volumes = pod.spec.iter().flat_map(|spec| &spec.volumes).flatten();
        let claims = volumes.filter_map(|volume| volume.persistent_volume_claim.as_ref());
        claims
            .flat_map(|source| self.viewers_of_claim(&source.claim_name))
            .collect()
    }

    fn viewers_of_claim(&self, claim: &str) -> Vec<ObjectRef<DeepObject>> {
        let names = self.stores.viewers_of_claim(claim);
        names.iter().map(|name| self.viewers.named(name)).collect()
    }
}
