//! Reconciles an app: applies its objects and writes its status. The only IO of this controller.

use std::{sync::Arc, time::Duration};

use k8s_openapi::{
    api::{
        apps::v1::Deployment,
        core::v1::{ObjectReference, Pod},
    },
    apimachinery::pkg::apis::meta::v1::OwnerReference,
    jiff::Timestamp,
};
use kube::{Resource, ResourceExt, api::DynamicObject, runtime::controller::Action};
use ludgate_cluster::{
    crd::application::{PhApplicationStatus, Phase},
    object::DeepObject,
    writer::{NamespacedName, Writer},
};
use serde_json::json;
use tokio::sync::watch;

use super::{
    admission::QuotaAdmission,
    adoption,
    app::{Application, child_name},
    dataset_grant,
    datasets::{DatasetSource, PinnedDataset},
    desired::{self, DesiredObjects},
    inputs::{PinnedInputs, RenderContext},
    instance_type::InstanceType,
    pod,
    quota::ResourceAmounts,
    settings::{ApplicationSettings, Group},
    status::{self, Observed, ObservedSpec, PhaseMessage},
    stores::{Stores, app_label},
    unpublished::UnpublishedPhases,
};
use crate::{
    children::{Child, Children, is_of_another_controller},
    error::{Backoffs, ReconcileError},
    events::{EventPublisher, KubernetesEvent},
    metrics::ControllerMetrics,
    requests::SharedContext,
    watched::typed,
};

/// Every app is looked at again after this time, in case an event was lost.
const RESYNC: Duration = Duration::from_secs(300);

/// What reconciles of one namespace share.
pub struct ReconcileContext {
    /// The objects of the namespace.
    pub stores: Stores,
    /// Writes children.
    pub children: Children,
    /// Writes statuses.
    pub writer: Writer,
    /// Publishes changes of phases.
    pub events: EventPublisher,
    /// The changes that are not published yet.
    pub unpublished: UnpublishedPhases,
    /// Decides on quotas.
    pub admission: QuotaAdmission,
    /// The settings in force.
    pub settings: watch::Receiver<Arc<ApplicationSettings>>,
    /// The controller's metrics.
    pub metrics: ControllerMetrics,
    /// Pauses after failures, by app.
    pub backoffs: Backoffs<String>,
}

/// Applies the objects of an app, and writes its status.
///
/// # Errors
/// [`ReconcileError`]; the app is reconciled again after a pause.
pub async fn reconcile(
    object: Arc<DeepObject>,
    context: Arc<ReconcileContext>,
) -> Result<Action, ReconcileError> {
    // An object that has not been listed yet must not be taken for absent.
    if context.stores.wait_until_ready().await.is_err() {
        return Ok(Action::await_change());
    }
    let name = object.name_any();
    if object.meta().deletion_timestamp.is_some() {
        // Kubernetes deletes its children.
        context.forget(&name);
        return Ok(Action::await_change());
    }
    let mut spec = ObservedSpec {
        generation: object.meta().generation.unwrap_or_default(),
        ..ObservedSpec::default()
    };
    let (result, phase) = match Application::parse(&object) {
        Ok(app) => {
            spec.service_name = Some(app.child_name());
            spec.dropped_containers = pod::dropped_containers(&app.spec.pod_template.spec);
            let result = context.reconcile_children(&app, &object).await;
            let phase = context.observe(&app, rejection(&result));
            (result, phase)
        }
        Err(reason) => {
            let phase = PhaseMessage::error(&reason);
            let stopped = context.stop_unreadable(&object).await;
            let result = stopped.and(Err(ReconcileError::Rejected(reason)));
            (result, phase)
        }
    };
    // After a transient error the earlier status says more.
    if !matches!(result, Err(ReconcileError::Transient(_))) {
        context.write_status(&object, &spec, phase).await?;
    }
    result?;
    context.backoffs.reset(&name);
    Ok(Action::requeue(RESYNC))
}

/// The reason for which an app cannot run.
fn rejection(result: &Result<(), ReconcileError>) -> Option<&str> {
    match result {
        Err(ReconcileError::Rejected(reason)) => Some(reason),
        Ok(()) | Err(ReconcileError::Transient(_)) => None,
    }
}

impl SharedContext for ReconcileContext {
    fn backoffs(&self) -> &Backoffs<String> {
        &self.backoffs
    }

    fn metrics(&self) -> &ControllerMetrics {
        &self.metrics
    }

    fn forget(&self, app: &str) {
        self.admission.release(app);
        self.backoffs.reset(&app.to_owned());
        self.children.forget(app);
        self.unpublished.forget(app);
    }
}

impl ReconcileContext {
    async fn reconcile_children(
        &self,
        app: &Application,
        object: &DeepObject,
    ) -> Result<(), ReconcileError> {
        let Some(owner) = object.controller_owner_ref(&self.stores.kinds.apps) else {
            return Err(rejected("the object has no name or uid"));
        };
        let deployment = self.stores.deployment(&app.child_name());
        if app.is_stopped() {
            self.admission.release(&app.name);
            // Needs nothing else, so it works whatever else is wrong.
            return self.stop(&owner, deployment.as_deref()).await;
        }
        let settings = self.settings.borrow().clone();
        let live = deployment.as_deref();
        let adopted = live.filter(|live| {
            is_of_another_controller(live, &owner) && adoption::keeps_pods(app, live, &settings)
        });
        let pinned = live.and_then(|live| PinnedInputs::from_deployment(app, live));
        let mut inputs = match pinned {
            Some(inputs) => inputs,
            None => self.resolve_inputs(app, &settings).await?,
        };
        inputs.adopted = adopted.map(|_| adoption::pod_hash(app));
        // An app that runs goes on when its group is removed. Then no quota applies.
        let group = settings.groups.get(&app.spec.group_name);
        let quota = group.map(|group| group.quota).unwrap_or_default();
        let amounts = match adopted {
            // Its pods may have limits of an earlier form of the instance type.
            Some(live) => ResourceAmounts::from_containers(
                &live.data["spec"]["template"]["spec"]["containers"],
            ),
            None => ResourceAmounts::from_instance_type(&inputs.instance_type),
        };
        let context = RenderContext {
            app,
            inputs: &inputs,
            settings: &settings,
        };
        let desired = desired::objects(context).map_err(ReconcileError::Rejected)?;
        self.admission
            .admit(app, quota, amounts, &self.stores)
            .map_err(ReconcileError::Rejected)?;
        let owned = Owned {
            app,
            owner: &owner,
            adopted,
        };
        self.prune(&owned, &desired).await?;
        let applied = self.apply(&owned, desired).await;
        if matches!(applied, Err(ReconcileError::Rejected(_))) {
            // If it runs nevertheless, its Deployment counts.
            self.admission.release(&app.name);
        }
        applied
    }

    async fn stop(
        &self,
        owner: &OwnerReference,
        deployment: Option<&DynamicObject>,
    ) -> Result<(), ReconcileError> {
        let Some(deployment) = deployment else {
            return Ok(());
        };
        let kind = &self.stores.kinds.deployments;
        self.children.scale_to_zero(owner, kind, deployment).await
    }

    /// Stops an app of which nothing else can be read.
    async fn stop_unreadable(&self, object: &DeepObject) -> Result<(), ReconcileError> {
        let owner = object.controller_owner_ref(&self.stores.kinds.apps);
        let (Some(owner), Some(true)) = (owner, object.spec["stop"].as_bool()) else {
            return Ok(());
        };
        let deployment = self.stores.deployment(&child_name(&object.name_any()));
        self.stop(&owner, deployment.as_deref()).await
    }

    async fn resolve_inputs(
        &self,
        app: &Application,
        settings: &ApplicationSettings,
    ) -> Result<PinnedInputs, ReconcileError> {
        let name = &app.spec.group_name;
        let group = settings.groups.get(name);
        let group = group.ok_or_else(|| rejected(&format!("group {name} does not exist")))?;
        let wanted = &app.spec.instance_type;
        let instance_type = self.instance_type(wanted, settings)?;
        if !settings.may_have(group, wanted) {
            return Err(rejected(&format!(
                "instance type {wanted} is for other groups"
            )));
        }
        Ok(PinnedInputs {
            datasets: self.datasets(group, settings).await?,
            ..PinnedInputs::resolve(app, group, &instance_type, settings)
        })
    }

    /// The datasets that the apps of a group get. An app does not start without one of them.
    async fn datasets(
        &self,
        group: &Group,
        settings: &ApplicationSettings,
    ) -> Result<Vec<PinnedDataset>, ReconcileError> {
        let granted = dataset_grant::granted(&group.datasets, &settings.datasets);
        if !granted.is_empty() && !self.stores.are_datasets_known().await {
            return Err(rejected("the datasets of the cluster cannot be listed"));
        }
        let pinned = granted.into_iter().map(|(name, access)| {
            let in_cluster = self.stores.datasets.as_ref();
            let object = in_cluster.and_then(|all| all.find(|it| it.name_any() == name));
            let Some(object) = object else {
                return Err(rejected(&format!("dataset {name} does not exist")));
            };
            let source = DatasetSource::from_spec(name, &object.data["spec"]);
            Ok(PinnedDataset {
                name: name.to_owned(),
                access,
                source: source.map_err(ReconcileError::Rejected)?,
            })
        });
        pinned.collect()
    }

    fn instance_type(
        &self,
        name: &str,
        settings: &ApplicationSettings,
    ) -> Result<InstanceType, ReconcileError> {
        let in_cluster = self.stores.instance_types.as_ref();
        if let Some(object) = in_cluster.and_then(|all| all.find(|it| it.name_any() == name)) {
            let parsed = InstanceType::from_spec(name, &object.data["spec"]);
            return parsed.map_err(ReconcileError::Rejected);
        }
        let known = settings.instance_types.get(name).cloned();
        known.ok_or_else(|| rejected(&format!("instance type {name} does not exist")))
    }

    /// Deletes Services and policies that are no longer wanted.
    async fn prune(
        &self,
        owned: &Owned<'_>,
        desired: &DesiredObjects,
    ) -> Result<(), ReconcileError> {
        let stores = &self.stores;
        let label = owned.app.child_name();
        for (store, kind) in [
            (&stores.policies, &stores.kinds.policies),
            (&stores.services, &stores.kinds.services),
        ] {
            let unwanted = store.state_filter(|child| {
                app_label(child) == Some(&label) && !desired.has(&kind.kind, &child.name_any())
            });
            for child in unwanted {
                self.children.delete(owned.owner, kind, &child).await?;
            }
        }
        Ok(())
    }

    /// Applies all objects, the policies first: no pod runs before its policies.
    async fn apply(
        &self,
        owned: &Owned<'_>,
        desired: DesiredObjects,
    ) -> Result<(), ReconcileError> {
        let stores = &self.stores;
        let kinds = &stores.kinds;
        let policies = desired.policies.into_iter();
        let policies = policies.map(|object| (&stores.policies, &kinds.policies, object));
        let service = desired.service.into_iter();
        let service = service.map(|object| (&stores.services, &kinds.services, object));
        let annotations = desired.deployment["metadata"]["annotations"].clone();
        let deployment = (&stores.deployments, &kinds.deployments, desired.deployment);
        let deployment = owned.adopted.is_none().then_some(deployment);
        for (store, kind, desired) in policies.chain(service).chain(deployment) {
            let name = desired["metadata"]["name"].as_str().unwrap_or_default();
            let live = stores.find(store, kind, name);
            let child = Child {
                kind,
                live: live.as_deref(),
                desired,
            };
            self.children.apply(owned.owner, child).await?;
        }
        if let Some(live) = owned.adopted {
            // Its inputs are all that it gets.
            let kind = &kinds.deployments;
            self.children
                .annotate(owned.owner, kind, live, &annotations)
                .await?;
        }
        Ok(())
    }

    fn observe(&self, app: &Application, rejection: Option<&str>) -> PhaseMessage {
        let live = self.stores.deployment(&app.child_name());
        let replica_set = live
            .as_deref()
            .and_then(|live| self.stores.current_replica_set(live));
        let pinned = live
            .as_deref()
            .and_then(|live| PinnedInputs::from_deployment(app, live));
        let deployment: Option<Deployment> = live.and_then(|live| typed(&live));
        let pods = self.stores.pods_of_app(&app.child_name());
        let pods: Vec<&Pod> = pods.iter().map(|pod| &**pod).collect();
        let observed = Observed {
            deployment: deployment.as_ref(),
            is_applied: pinned.is_some(),
            pods: &pods,
            replica_set: replica_set.as_deref(),
        };
        status::phase(app, rejection, observed)
    }

    /// Writes the status, if it changed.
    async fn write_status(
        &self,
        object: &DeepObject,
        spec: &ObservedSpec,
        phase: PhaseMessage,
    ) -> Result<(), ReconcileError> {
        let before: PhApplicationStatus =
            serde_json::from_value(object.status.clone()).unwrap_or_default();
        let now = Timestamp::now().to_string();
        let status = phase.to_status(spec, &before, &now);
        let (namespace, name) = (object.namespace().unwrap_or_default(), object.name_any());
        let kind = &self.stores.kinds.apps;
        if status != before {
            tracing::info!(
                app = name,
                phase = phase.phase.as_str(),
                message = phase.message,
                "the app has another status"
            );
            if (&status.phase, &status.message) != (&before.phase, &before.message) {
                self.unpublished.insert(&name, phase.clone());
            }
            let place = NamespacedName {
                namespace: &namespace,
                name: &name,
            };
            let patch = json!({
                "apiVersion": kind.api_version,
                "kind": kind.kind,
                "metadata": { "name": name },
                "status": status,
            });
            self.metrics.wrote();
            self.writer.apply_status(kind, place, &patch).await?;
        }
        if self.unpublished.confirm(&name, &phase) {
            let object = object.object_ref(kind);
            self.events
                .publish(phase_event(object, spec.generation, phase));
        }
        Ok(())
    }
}

/// The Event of a new phase. Refusals of this controller share one reason and differ in their
/// notes, so they are not counted as one.
fn phase_event(object: ObjectReference, generation: i64, phase: PhaseMessage) -> KubernetesEvent {
    let is_warning = phase.phase == Phase::Error;
    let is_counted = !is_warning || phase.failure.is_some();
    KubernetesEvent {
        object,
        is_warning,
        reason: phase.failure.unwrap_or_else(|| phase.phase.as_str().into()),
        note: phase.message,
        generation: is_counted.then_some(generation),
    }
}

/// An app as the owner of its children.
struct Owned<'a> {
    app: &'a Application,
    owner: &'a OwnerReference,
    /// Its Deployment, if that is another controller's and keeps its pods.
    adopted: Option<&'a DynamicObject>,
}

fn rejected(reason: &str) -> ReconcileError {
    ReconcileError::Rejected(reason.to_owned())
}
