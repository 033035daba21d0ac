//! The controller of apps in one namespace: what leads to a reconcile, and what comes of it.

use std::{sync::Arc, time::Duration};

use futures_util::{
    StreamExt,
    stream::{self, BoxStream},
};
use kube::{
    Client, Resource, ResourceExt,
    runtime::{reflector::ObjectRef, watcher},
};
use ludgate_cluster::{object::DeepObject, writer::Writer};
use tokio::sync::watch;

use super::{
    admission::QuotaAdmission,
    app::app_name,
    reconcile::{ReconcileContext, reconcile},
    settings::ApplicationSettings,
    stores::{Kinds, OptionalKinds, Watches, app_label},
    unpublished::UnpublishedPhases,
};
use crate::{
    children::{Children, FIELD_MANAGER},
    error::Backoffs,
    events::EventPublisher,
    metrics::ControllerMetrics,
    requests::{ReconcileRequests, ReconciledKind},
    watched::Change,
};

/// The controller of apps in one namespace.
pub struct ApplicationController {
    /// The client.
    pub client: Client,
    /// The namespace.
    pub namespace: String,
    /// How long a watch lasts.
    pub watch: Duration,
    /// The settings; every app is looked at again when they change.
    pub settings: watch::Receiver<Arc<ApplicationSettings>>,
    /// The kinds that the cluster may have.
    pub optional_kinds: OptionalKinds,
    /// The metrics.
    pub metrics: ControllerMetrics,
}

impl ApplicationController {
    /// Runs until it is dropped.
    pub async fn run(self) {
        let kinds = Kinds::default();
        let (client, namespace) = (&self.client, &self.namespace);
        let watches = Watches::new(client, namespace, &kinds, self.optional_kinds, self.watch);
        let stores = watches.stores(namespace, &kinds);
        let events = EventPublisher::start(self.client.clone());
        let writer = Writer::new(self.client, FIELD_MANAGER);
        let context = Arc::new(ReconcileContext {
            stores,
            children: Children::new(writer.clone(), self.metrics.clone()),
            writer,
            events,
            unpublished: UnpublishedPhases::default(),
            admission: QuotaAdmission::default(),
            settings: self.settings.clone(),
            metrics: self.metrics.clone(),
            backoffs: Backoffs::default(),
        });
        let reconciled = ReconciledKind {
            store: context.stores.apps.clone(),
            kind: kinds.apps,
            namespace: self.namespace,
        };
        let mapper = RequestMapper {
            apps: reconciled,
            context: context.clone(),
        };
        let requests = mapper.requests(watches, self.settings);
        mapper.apps.run(context, requests, reconcile).await;
    }
}

/// Maps changes of objects to the apps that must be reconciled.
#[derive(Clone)]
struct RequestMapper {
    apps: ReconciledKind,
    context: Arc<ReconcileContext>,
}

impl RequestMapper {
    /// Every change that may change an app or its status.
    fn requests(
        &self,
        watches: Watches,
        settings: watch::Receiver<Arc<ApplicationSettings>>,
    ) -> ReconcileRequests {
        let apps = self.apps.clone();
        let own = move |app: &DeepObject| vec![apps.named(&app.name_any())];
        let mut all = vec![
            self.apps.requests(watches.apps.changes, own),
            self.by_child(watches.deployments.changes),
            self.by_child(watches.services.changes),
            self.by_child(watches.policies.changes),
            self.by_child(watches.replica_sets.changes),
            self.by_child(watches.pods.changes),
            self.apps.requests_by_settings(settings),
        ];
        for optional in watches.instance_types.into_iter().chain(watches.datasets) {
            let apps = self.apps.clone();
            all.push(self.apps.requests(optional.changes, move |_| apps.all()));
        }
        stream::select_all(all).boxed()
    }

    fn by_child<K: Resource + Send + 'static>(
        &self,
        changes: BoxStream<'static, Result<Change<K>, watcher::Error>>,
    ) -> ReconcileRequests {
        let mapper = self.clone();
        self.apps
            .requests(changes, move |child| mapper.apps_of_child(child))
    }

    /// The app of a child, and the apps that wait for their group's quota: a child that ends may
    /// let one run.
    fn apps_of_child<K: Resource>(&self, child: &K) -> Vec<ObjectRef<DeepObject>> {
        let own = app_label(child).and_then(app_name);
        let own = own.into_iter().map(|name| self.apps.named(name));
        let pending = self.context.admission.pending();
        own.chain(pending.iter().map(|name| self.apps.named(name)))
            .collect()
    }
}
