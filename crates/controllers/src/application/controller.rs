//! The controller of apps in one namespace: what leads to a reconcile, and what comes of it.

use std::{sync::Arc, time::Duration};

use futures_util::{
    StreamExt, future,
    stream::{self, BoxStream},
};
use kube::{
    Client, Resource, ResourceExt,
    runtime::{
        controller::{self, Action, Config, applier},
        reflector::ObjectRef,
        watcher,
    },
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
    children::Children,
    error::{Backoffs, ReconcileError},
    events::EventPublisher,
    metrics::ControllerMetrics,
    watched::Change,
};

/// The owner of the fields that the controller writes.
const FIELD_MANAGER: &str = "ludgate";
/// Names the controller in events.
const REPORTER: &str = "ludgate-controller";
/// Apps that are reconciled at the same time.
const CONCURRENCY: u16 = 16;

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
        let apps = stores.apps.clone();
        let events = EventPublisher::start(self.client.clone(), REPORTER);
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
        let mapper = RequestMapper {
            context: context.clone(),
        };
        let reconciled = applier(
            |object, context| Box::pin(reconcile(object, context)),
            |object, _error, context| Action::requeue(context.backoffs.next(object.name_any())),
            context.clone(),
            apps,
            mapper.requests(watches, self.settings),
            Config::default().concurrency(CONCURRENCY),
        );
        reconciled
            .for_each(|result| {
                record(&self.metrics, &context, result);
                future::ready(())
            })
            .await;
    }
}

/// The apps that a change leads to.
type Requests = BoxStream<'static, Result<ObjectRef<DeepObject>, watcher::Error>>;

/// Maps changes of objects to the apps that must be reconciled.
#[derive(Clone)]
struct RequestMapper {
    context: Arc<ReconcileContext>,
}

impl RequestMapper {
    /// Every change that may change an app or its status.
    fn requests(
        &self,
        watches: Watches,
        settings: watch::Receiver<Arc<ApplicationSettings>>,
    ) -> Requests {
        let own = |mapper: &RequestMapper, app: &DeepObject| vec![mapper.app(&app.name_any())];
        let mut all = vec![
            self.map(watches.apps.changes, own),
            self.map(watches.deployments.changes, RequestMapper::apps_of_child),
            self.map(watches.services.changes, RequestMapper::apps_of_child),
            self.map(watches.policies.changes, RequestMapper::apps_of_child),
            self.map(watches.replica_sets.changes, RequestMapper::apps_of_child),
            self.map(watches.pods.changes, RequestMapper::apps_of_child),
        ];
        for optional in watches.instance_types.into_iter().chain(watches.datasets) {
            all.push(self.map(optional.changes, |mapper, _| mapper.all_apps()));
        }
        let changed = stream::unfold(settings, |mut settings| async move {
            settings.changed().await.ok()?;
            Some((Ok(Change::Listed), settings))
        });
        all.push(self.map(changed.boxed(), |mapper, _: &()| mapper.all_apps()));
        stream::select_all(all).boxed()
    }

    fn map<K: Send + 'static>(
        &self,
        changes: BoxStream<'static, Result<Change<K>, watcher::Error>>,
        apps: impl Fn(&RequestMapper, &K) -> Vec<ObjectRef<DeepObject>> + Send + 'static,
    ) -> Requests {
        let mapper = self.clone();
        let requests = changes.flat_map(move |change| {
            let requests = match change {
                Ok(Change::Object(object)) => apps(&mapper, &object).into_iter().map(Ok).collect(),
                Ok(Change::Listed) => mapper.all_apps().into_iter().map(Ok).collect(),
                Err(error) => vec![Err(error)],
            };
            stream::iter(requests)
        });
        requests.boxed()
    }

    fn app(&self, name: &str) -> ObjectRef<DeepObject> {
        let stores = &self.context.stores;
        ObjectRef::new_with(name, stores.kinds.apps.clone()).within(&stores.namespace)
    }

    fn all_apps(&self) -> Vec<ObjectRef<DeepObject>> {
        let apps = self.context.stores.apps.state();
        apps.iter().map(|app| self.app(&app.name_any())).collect()
    }

    /// The app of a child, and the apps that wait for their group's quota: a child that ends may
    /// let one run.
    fn apps_of_child<K: Resource>(&self, child: &K) -> Vec<ObjectRef<DeepObject>> {
        let own = app_label(child).and_then(app_name);
        let own = own.into_iter().map(|name| self.app(name));
        let pending = self.context.admission.pending();
        own.chain(pending.iter().map(|name| self.app(name)))
            .collect()
    }
}

/// The result of a reconcile, or a failure of a watch.
type ReconcileResult =
    Result<(ObjectRef<DeepObject>, Action), controller::Error<ReconcileError, watcher::Error>>;

fn record(metrics: &ControllerMetrics, context: &ReconcileContext, result: ReconcileResult) {
    match result {
        Ok((_, _)) => metrics.succeeded(),
        Err(controller::Error::ReconcilerFailed(error, app)) => {
            metrics.failed(&error);
            match error {
                ReconcileError::Transient(error) => {
                    tracing::warn!(app = app.name, %error, "cannot reconcile the app");
                }
                // Its status says so, and was logged.
                ReconcileError::Rejected(_) => {}
            }
        }
        // It was deleted: a request can come from its children.
        Err(controller::Error::ObjectNotFound(app)) => context.forget(&app.name),
        Err(controller::Error::QueueError(error)) => {
            metrics.watch_failed();
            tracing::warn!(%error, "cannot watch the cluster");
        }
        Err(controller::Error::RunnerError(error)) => {
            tracing::error!(%error, "the controller lost a watch");
        }
    }
}
