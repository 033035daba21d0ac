//! The controller of apps in one namespace: what leads to a reconcile, and what comes of it.

use std::sync::Arc;

use futures_util::{
    Stream, StreamExt, future,
    stream::{self, BoxStream},
};
use kube::{
    Client, ResourceExt,
    api::{ApiResource, DynamicObject},
    runtime::{
        controller::{self, Action, Config, applier},
        reflector::{ObjectRef, Store},
        watcher,
    },
};
use ludgate_cluster::writer::Writer;
use tokio::sync::watch;

use super::{
    admission::Admission,
    reconcile::{Context, reconcile},
    settings::ApplicationSettings,
    stores::{Kinds, Watches, app_label},
};
use crate::{
    children::Children,
    error::{Backoffs, ReconcileError},
    metrics::ControllerMetrics,
};

/// The owner of the fields that the controller writes.
const FIELD_MANAGER: &str = "ludgate";
/// Apps that are reconciled at the same time.
const CONCURRENCY: u16 = 16;

/// The controller of apps in one namespace.
pub struct ApplicationController {
    /// The client.
    pub client: Client,
    /// The namespace.
    pub namespace: String,
    /// The settings; every app is looked at again when they change.
    pub settings: watch::Receiver<Arc<ApplicationSettings>>,
    /// The kind InstanceType, if the cluster has it.
    pub instance_types: Option<ApiResource>,
    /// The metrics.
    pub metrics: ControllerMetrics,
}

/// What is to be reconciled.
type Requests = BoxStream<'static, Result<ObjectRef<DynamicObject>, watcher::Error>>;

impl ApplicationController {
    /// Runs until it is dropped.
    pub async fn run(self) {
        let kinds = Kinds::default();
        let watches = Watches::new(&self.client, &self.namespace, &kinds, self.instance_types);
        let stores = watches.stores(&self.namespace, &kinds);
        let apps = stores.apps.clone();
        let ready = stores.clone();
        let writer = Writer::new(self.client, FIELD_MANAGER);
        let context = Arc::new(Context {
            stores,
            children: Children::new(writer.clone()),
            writer,
            admission: Admission::default(),
            settings: self.settings.clone(),
            backoffs: Backoffs::default(),
        });
        let requests = requests(watches, self.settings, &context);
        let metrics = self.metrics;
        let reconciled = applier(
            move |object, context| {
                let ready = ready.clone();
                Box::pin(async move {
                    // Without this, the first reconciles would not see what exists.
                    let _ = ready.wait_until_ready().await;
                    reconcile(object, context).await
                })
            },
            |object, _error, context| Action::requeue(context.backoffs.next(object.name_any())),
            context,
            apps,
            requests,
            Config::default().concurrency(CONCURRENCY),
        );
        reconciled
            .for_each(|result| {
                report(&metrics, result);
                future::ready(())
            })
            .await;
    }
}

/// Every change that may change an app or its status.
fn requests(
    watches: Watches,
    settings: watch::Receiver<Arc<ApplicationSettings>>,
    context: &Arc<Context>,
) -> impl Stream<Item = Result<ObjectRef<DynamicObject>, watcher::Error>> + use<> {
    let stores = &context.stores;
    let (kind, namespace) = (stores.kinds.apps.clone(), stores.namespace.clone());
    let app = move |id: &str| ObjectRef::new_with(id, kind.clone()).within(&namespace);
    let own = app.clone();
    let apps = watches.apps.changes;
    let mut all: Vec<Requests> = vec![apps.map(move |it| it.map(|it| own(&it.name_any()))).boxed()];
    for children in [watches.deployments, watches.services, watches.policies] {
        let (app, waiting) = (app.clone(), context.clone());
        all.push(by_label(children.changes, app, waiting));
    }
    let (by, waiting) = (app.clone(), context.clone());
    all.push(by_label(watches.replica_sets.changes, by, waiting));
    let (by, waiting) = (app, context.clone());
    all.push(by_label(watches.pods.changes, by, waiting));
    if let Some(types) = watches.instance_types {
        let apps = stores.apps.clone();
        let every = types.changes.flat_map(move |change| match change {
            Ok(_) => stream::iter(every_app(&apps).map(Ok).collect::<Vec<_>>()),
            Err(error) => stream::iter(vec![Err(error)]),
        });
        all.push(every.boxed());
    }
    let apps = stores.apps.clone();
    let changed = stream::unfold(settings, |mut settings| async move {
        settings.changed().await.ok()?;
        Some(((), settings))
    });
    all.push(
        changed
            .flat_map(move |()| stream::iter(every_app(&apps).map(Ok).collect::<Vec<_>>()))
            .boxed(),
    );
    stream::select_all(all)
}

/// The app that a child's label names, and the apps that wait for room: a child that ends makes
/// some.
fn by_label<K: kube::Resource + Send + 'static>(
    changes: BoxStream<'static, Result<K, watcher::Error>>,
    app: impl Fn(&str) -> ObjectRef<DynamicObject> + Send + 'static,
    context: Arc<Context>,
) -> Requests {
    changes
        .flat_map(move |change| {
            let named = match change {
                Ok(object) => {
                    let own = app_label(&object).and_then(|label| label.strip_prefix("app-"));
                    let waiting = context.admission.waiting();
                    let names = own.into_iter().chain(waiting.iter().map(String::as_str));
                    names.map(|name| Ok(app(name))).collect()
                }
                Err(error) => vec![Err(error)],
            };
            stream::iter(named)
        })
        .boxed()
}

fn every_app(
    apps: &Store<DynamicObject>,
) -> impl Iterator<Item = ObjectRef<DynamicObject>> + use<> {
    apps.state()
        .into_iter()
        .map(|app| ObjectRef::from_obj_with(&*app, apps_kind()))
}

fn apps_kind() -> ApiResource {
    Kinds::default().apps
}

fn report(
    metrics: &ControllerMetrics,
    result: Result<
        (ObjectRef<DynamicObject>, Action),
        controller::Error<ReconcileError, watcher::Error>,
    >,
) {
    match result {
        Ok((_, _)) => metrics.succeeded(),
        Err(controller::Error::ReconcilerFailed(error, app)) => {
            metrics.failed(&error);
            tracing::warn!(app = app.name, %error, "cannot reconcile the app");
        }
        // It was deleted between its event and now.
        Err(controller::Error::ObjectNotFound(_)) => {}
        Err(controller::Error::QueueError(error)) => {
            metrics.watch_failed();
            tracing::warn!(%error, "cannot watch the cluster");
        }
        Err(controller::Error::RunnerError(error)) => {
            tracing::error!(%error, "the controller lost a watch");
        }
    }
}
