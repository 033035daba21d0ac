//! What leads to a reconcile: changes of installations, definitions, Secrets and targets, and the
//! ends of tasks. Each is mapped to the installations that it may concern.

use std::sync::{Arc, atomic::Ordering};

use futures_util::{
    StreamExt, future,
    stream::{self, BoxStream},
};
use kube::{
    ResourceExt,
    runtime::{
        controller::{self, Action, Config, applier},
        reflector::ObjectRef,
        watcher,
    },
};
use ludgate_cluster::{crd::chart_source::SecretKeyRef, object::DeepObject};
use ludgate_controllers::{error::ReconcileError, watched::Change};
use serde_json::Value;
use tokio::sync::{broadcast, mpsc, watch};

use super::{
    annotations::target_name,
    context::InstallationReconcile,
    observe::target_namespace_of,
    parsed,
    reconcile::reconcile,
    settings::InstallationSettings,
    stores::{InstallationStores, InstallationWatches, SecretMeta, holds_credentials},
    target_cluster::TargetChange,
};
use crate::{release_name::release_name, stuck::OperationKind};

/// Installations that are reconciled at the same time. Helm and downloads are not among them.
const CONCURRENCY: u16 = 16;

/// Installations to reconcile, or a failure of a watch.
type Requests = BoxStream<'static, Result<ObjectRef<DeepObject>, watcher::Error>>;

/// The streams that lead to a reconcile.
pub(super) struct RequestSources {
    pub(super) watches: InstallationWatches,
    pub(super) targets: broadcast::Receiver<TargetChange>,
    pub(super) settings: watch::Receiver<Arc<InstallationSettings>>,
    /// The ends of tasks.
    pub(super) ended: mpsc::UnboundedReceiver<ObjectRef<DeepObject>>,
}

/// Reconciles the requested installations until it is dropped.
pub(super) async fn run(context: Arc<InstallationReconcile>, sources: RequestSources) {
    let requests = all_requests(&context, sources);
    let store = context.stores.installations.clone();
    let results = applier(
        |object, context| Box::pin(reconcile(object, context)),
        |object: Arc<DeepObject>, _error: &ReconcileError, context: Arc<InstallationReconcile>| {
            Action::requeue(context.backoffs.next(parsed::key(&*object)))
        },
        context.clone(),
        store,
        requests,
        Config::default().concurrency(CONCURRENCY),
    );
    results
        .for_each(|result| {
            record(result, &context);
            future::ready(())
        })
        .await;
}

fn all_requests(context: &Arc<InstallationReconcile>, sources: RequestSources) -> Requests {
    let RequestSources {
        watches,
        targets,
        settings,
        ended,
    } = sources;
    let stores = &context.stores;
    let own = stores.clone();
    let listing = context.clone();
    let installations = watches.installations.changes.inspect(move |change| {
        if matches!(change, Ok(Change::Listed)) {
            listing.is_listed.store(true, Ordering::Release);
        }
    });
    let of_definition = stores.clone();
    let with_secrets = context.clone();
    let of_settings = stream::unfold(settings, |mut settings| async move {
        settings.changed().await.ok()?;
        Some((Ok(Change::<()>::Listed), settings))
    });
    let of_targets = stream::unfold(targets, |mut targets| async move {
        match targets.recv().await {
            Ok(change) => Some((Ok(Change::Object(change)), targets)),
            // Which changes were lost is not known.
            Err(broadcast::error::RecvError::Lagged(_)) => Some((Ok(Change::Listed), targets)),
            Err(broadcast::error::RecvError::Closed) => None,
        }
    });
    let ended = stream::unfold(ended, |mut ended| async move {
        let request = ended.recv().await?;
        Some((Ok(request), ended))
    });
    let target_context = context.clone();
    stream::select_all([
        requests(context, installations.boxed(), move |object| {
            vec![own.request(object)]
        }),
        requests(context, watches.definitions.changes, move |definition| {
            let name = definition.name_any();
            of_definition.requests(|object| parsed::definition_name(object) == Some(&*name))
        }),
        requests(context, watches.secrets.changes, move |secret| {
            of_credentials(&with_secrets, secret)
        }),
        requests(context, of_targets.boxed(), move |change| {
            of_target(&target_context.stores, change)
        }),
        requests(context, of_settings.boxed(), |()| Vec::new()),
        ended.boxed(),
    ])
    .boxed()
}

/// The installations that `map` names for each change. After a list, all.
fn requests<K: Send + 'static>(
    context: &Arc<InstallationReconcile>,
    changes: BoxStream<'static, Result<Change<K>, watcher::Error>>,
    map: impl Fn(&K) -> Vec<ObjectRef<DeepObject>> + Send + 'static,
) -> Requests {
    let context = context.clone();
    let requests = changes.flat_map(move |change| {
        context.changed.notify_one();
        let stores = &context.stores;
        let requests: Vec<_> = match change {
            Ok(Change::Object(object)) => map(&object).into_iter().map(Ok).collect(),
            Ok(Change::Listed) => stores.requests(|_| true).into_iter().map(Ok).collect(),
            Err(error) => vec![Err(error)],
        };
        stream::iter(requests)
    });
    requests.boxed()
}

/// The installations whose definitions name a Secret. They try again at once.
fn of_credentials(
    context: &InstallationReconcile,
    secret: &SecretMeta,
) -> Vec<ObjectRef<DeepObject>> {
    if !holds_credentials(secret) {
        return Vec::new();
    }
    let name = secret.name_any();
    let definitions = context.stores.definitions.state();
    let definitions: Vec<String> = definitions
        .iter()
        .filter(|definition| names_secret(&definition.spec["versions"], &name))
        .map(|definition| definition.name_any())
        .collect();
    let is_meant = |object: &DeepObject| {
        parsed::definition_name(object)
            .is_some_and(|name| definitions.iter().any(|definition| definition == name))
    };
    for object in context.stores.installations.state() {
        if is_meant(&object) {
            let uid = object.uid().unwrap_or_default();
            let key = parsed::key(&*object);
            context
                .memory
                .with(&key, &uid, |it| it.reset(OperationKind::Apply));
        }
    }
    context.stores.requests(is_meant)
}

/// Whether a key of this Secret is named anywhere in these versions.
fn names_secret(value: &Value, secret: &str) -> bool {
    match value {
        Value::Object(fields) => {
            let key: Option<SecretKeyRef> = match fields.contains_key("key") {
                true => serde_json::from_value(value.clone()).ok(),
                false => None,
            };
            key.is_some_and(|key| key.name == secret)
                || fields.values().any(|field| names_secret(field, secret))
        }
        Value::Array(items) => items.iter().any(|item| names_secret(item, secret)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// The installations that a change of a target may concern.
fn of_target(stores: &InstallationStores, change: &TargetChange) -> Vec<ObjectRef<DeepObject>> {
    let namespace_of = |object: &DeepObject| {
        let name = parsed::definition_name(object);
        let definition = name.and_then(|name| stores.definition(name));
        target_namespace_of(object, definition.as_ref())
    };
    match change {
        TargetChange::Target(target) => stores.requests(|object| target_name(object) == target),
        TargetChange::Namespace { target, namespace } => stores.requests(|object| {
            target_name(object) == target && namespace_of(object).as_ref() == Some(namespace)
        }),
        TargetChange::Release {
            target,
            namespace,
            release,
        } => stores.requests(|object| {
            let own = object.namespace().unwrap_or_default();
            target_name(object) == target
                && release_name(&own, &object.name_any()) == *release
                && namespace_of(object).as_ref() == Some(namespace)
        }),
    }
}

/// The result of a reconcile, or a failure of a watch.
type ReconcileResult =
    Result<(ObjectRef<DeepObject>, Action), controller::Error<ReconcileError, watcher::Error>>;

fn record(result: ReconcileResult, context: &InstallationReconcile) {
    let metrics = &context.metrics;
    match result {
        Ok((_, _)) => metrics.succeeded(),
        Err(controller::Error::ReconcilerFailed(error, object)) => {
            metrics.failed(&error);
            tracing::warn!(installation = object.name, %error, "cannot reconcile");
        }
        // It was deleted: a request can come from other objects.
        Err(controller::Error::ObjectNotFound(object)) => {
            let namespace = object.namespace.unwrap_or_default();
            context.forget(&format!("{namespace}/{}", object.name));
        }
        Err(controller::Error::QueueError(error)) => {
            metrics.watch_failed();
            tracing::warn!(%error, "cannot watch the cluster");
        }
        Err(controller::Error::RunnerError(error)) => {
            tracing::error!(%error, "the controller lost a watch");
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_secret_is_found_wherever_a_version_names_it() {
        let helm = json!({ "username": { "name": "a", "key": "u" }, "password": { "key": "x" } });
        let versions = json!([{ "template": { "source": { "git": { "credentials": {
            "method": "token", "token": { "name": "b", "key": "t" },
        } } }, "templateCredentials": { "helmCredentials": helm } } }]);
        for (secret, wanted) in [("a", true), ("b", true), ("u", false), ("c", false)] {
            assert_eq!(names_secret(&versions, secret), wanted, "{secret}");
        }
    }
}
