//! What leads to a reconcile: changes of watched objects, mapped to the objects that a controller
//! reconciles; and what comes of it.

use std::{future::Future, sync::Arc};

use futures_util::{
    StreamExt, future,
    stream::{self, BoxStream},
};
use kube::{
    ResourceExt,
    api::ApiResource,
    runtime::{
        controller::{self, Action, Config, applier},
        reflector::{ObjectRef, Store},
        watcher,
    },
};
use ludgate_cluster::object::DeepObject;
use tokio::sync::watch;

use crate::{
    error::{Backoffs, ReconcileError},
    metrics::ControllerMetrics,
    watched::Change,
};

/// Objects of a kind that are reconciled at the same time.
const CONCURRENCY: u16 = 16;

/// Objects to reconcile, or a failure of a watch.
pub type ReconcileRequests = BoxStream<'static, Result<ObjectRef<DeepObject>, watcher::Error>>;

/// The result of a reconcile, or a failure of a watch.
type ReconcileResult =
    Result<(ObjectRef<DeepObject>, Action), controller::Error<ReconcileError, watcher::Error>>;

/// What the reconciles of one controller in one namespace share.
pub trait SharedContext: Send + Sync + 'static {
    /// Pauses after failures, by object.
    fn backoffs(&self) -> &Backoffs<String>;
    /// The controller's metrics.
    fn metrics(&self) -> &ControllerMetrics;
    /// Forgets an object that is gone.
    fn forget(&self, object: &str);
}

/// The objects of one kind in one namespace, which a controller reconciles.
#[derive(Clone)]
pub struct ReconciledKind {
    /// The objects as of the last events.
    pub store: Store<DeepObject>,
    /// Their kind.
    pub kind: ApiResource,
    /// Their namespace.
    pub namespace: String,
}

impl ReconciledKind {
    /// The object of this name.
    pub fn named(&self, name: &str) -> ObjectRef<DeepObject> {
        ObjectRef::new_with(name, self.kind.clone()).within(&self.namespace)
    }

    /// All objects.
    pub fn all(&self) -> Vec<ObjectRef<DeepObject>> {
        let objects = self.store.state();
        let names = objects.iter().map(|object| self.named(&object.name_any()));
        names.collect()
    }

    /// The objects that `map` names for each change. After a list, all.
    pub fn requests<K: Send + 'static>(
        &self,
        changes: BoxStream<'static, Result<Change<K>, watcher::Error>>,
        map: impl Fn(&K) -> Vec<ObjectRef<DeepObject>> + Send + 'static,
    ) -> ReconcileRequests {
        let reconciled = self.clone();
        let requests = changes.flat_map(move |change| {
            let requests = match change {
                Ok(Change::Object(object)) => map(&object).into_iter().map(Ok).collect(),
                Ok(Change::Listed) => reconciled.all().into_iter().map(Ok).collect(),
                Err(error) => vec![Err(error)],
            };
            stream::iter(requests)
        });
        requests.boxed()
    }

    /// Reconciles the requested objects until it is dropped.
    pub async fn run<C: SharedContext, F>(
        self,
        context: Arc<C>,
        requests: ReconcileRequests,
        mut reconcile: impl FnMut(Arc<DeepObject>, Arc<C>) -> F,
    ) where
        F: Future<Output = Result<Action, ReconcileError>> + Send + 'static,
    {
        let results = applier(
            |object, context| Box::pin(reconcile(object, context)),
            |object, _error, context: Arc<C>| {
                Action::requeue(context.backoffs().next(object.name_any()))
            },
            context.clone(),
            self.store,
            requests,
            Config::default().concurrency(CONCURRENCY),
        );
        results
            .for_each(|result| {
                record(result, &*context);
                future::ready(())
            })
            .await;
    }

    /// All objects, whenever the settings change.
    pub fn requests_by_settings<S: Send + Sync + 'static>(
        &self,
        settings: watch::Receiver<Arc<S>>,
    ) -> ReconcileRequests {
        let changed = stream::unfold(settings, |mut settings| async move {
            settings.changed().await.ok()?;
            Some((Ok(Change::<()>::Listed), settings))
        });
        self.requests(changed.boxed(), |()| Vec::new())
    }
}

fn record(result: ReconcileResult, context: &impl SharedContext) {
    let metrics = context.metrics();
    match result {
        Ok((_, _)) => metrics.succeeded(),
        Err(controller::Error::ReconcilerFailed(error, object)) => {
            metrics.failed(&error);
            match error {
                ReconcileError::Transient(error) => {
                    let kind = object.dyntype.kind;
                    tracing::warn!(kind, object = object.name, %error, "cannot reconcile");
                }
                // The status says so, and was logged.
                ReconcileError::Rejected(_) => {}
            }
        }
        // It was deleted: a request can come from its children.
        Err(controller::Error::ObjectNotFound(object)) => context.forget(&object.name),
        Err(controller::Error::QueueError(error)) => {
            metrics.watch_failed();
            tracing::warn!(%error, "cannot watch the cluster");
        }
        Err(controller::Error::RunnerError(error)) => {
            tracing::error!(%error, "the controller lost a watch");
        }
    }
}
