//! Reconciles a viewer: applies its objects, writes its status, and deletes it with its claim. The
//! only IO of this controller.

use std::{sync::Arc, time::Duration};

use k8s_openapi::{
    api::{
        apps::v1::Deployment,
        core::v1::{PersistentVolumeClaim, Pod},
    },
    apimachinery::pkg::apis::meta::v1::OwnerReference,
    jiff::Timestamp,
};
use kube::{Resource, ResourceExt, runtime::controller::Action};
use ludgate_cluster::{
    crd::viewer::{PVCViewerStatus, VIEWER_PREFIX},
    object::DeepObject,
    writer::{NamespacedName, Writer},
};
use serde_json::json;
use tokio::sync::watch;

use super::{
    default_networking,
    desired::{self, CLAIM_UID_ANNOTATION, ViewerContext, ViewerObjects},
    idle_timing::{self, idle_timing},
    parsed::{Viewer, has_claim},
    placement::{ClaimUse, Placement},
    settings::ViewerSettings,
    status::{self, ObservedViewer},
    stop_reason::StopReason,
    stores::{ViewerStores, viewer_label},
};
use crate::{
    children::{Child, Children},
    error::{Backoffs, ReconcileError},
    events::{EventPublisher, KubernetesEvent},
    idle::{decision::IdleDecision, gateway_activity::GatewayActivity},
    metrics::ControllerMetrics,
    requests::SharedContext,
    watched::typed,
};

/// Every viewer is looked at again after this time, in case an event was lost.
const RESYNC: Duration = Duration::from_secs(300);

/// The volumes of a Deployment's pods.
const POD_VOLUMES: &str = "/spec/template/spec/volumes";

/// What reconciles of one namespace share.
pub struct ViewerReconcile {
    /// The objects of the namespace.
    pub stores: ViewerStores,
    /// Writes children.
    pub children: Children,
    /// Writes statuses, and deletes viewers.
    pub writer: Writer,
    /// Publishes why viewers stop.
    pub events: EventPublisher,
    /// The uses of viewers.
    pub activity: GatewayActivity,
    /// The settings in force.
    pub settings: watch::Receiver<Arc<ViewerSettings>>,
    /// The controller's metrics.
    pub metrics: ControllerMetrics,
    /// Pauses after failures, by viewer.
    pub backoffs: Backoffs<String>,
}

/// What a reconcile found out about a viewer.
#[derive(Default)]
struct ReconciledViewer {
    url: Option<String>,
    stop: Option<StopReason>,
    /// When it may become idle.
    next_check: Option<Duration>,
}

/// Applies the objects of a viewer, and writes its status; or deletes it if its claim is gone.
///
/// # Errors
/// [`ReconcileError`]; the viewer is reconciled again after a pause.
pub async fn reconcile(
    object: Arc<DeepObject>,
    context: Arc<ViewerReconcile>,
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
    if context.is_claim_gone(&object) {
        context.delete(&object).await?;
        return Ok(Action::await_change());
    }
    let mut viewer = ReconciledViewer::default();
    let result = context.reconcile_children(&object, &mut viewer).await;
    let is_transient = matches!(result, Err(ReconcileError::Transient(_)));
    if let Err(ReconcileError::Rejected(reason)) = &result {
        viewer.stop = Some(StopReason::Refused(reason.clone()));
    }
    // After a transient error the earlier status says more.
    if !is_transient {
        context.write_status(&object, &viewer).await?;
    }
    result?;
    context.backoffs.reset(&name);
    let next_check = viewer.next_check.unwrap_or(RESYNC);
    Ok(Action::requeue(next_check.min(RESYNC)))
}

impl SharedContext for ViewerReconcile {
    fn backoffs(&self) -> &Backoffs<String> {
        &self.backoffs
    }

    fn metrics(&self) -> &ControllerMetrics {
        &self.metrics
    }

    fn forget(&self, viewer: &str) {
        self.backoffs.reset(&viewer.to_owned());
        self.children.forget(viewer);
        self.activity.unwatch(&self.app_id(viewer));
    }
}

impl ViewerReconcile {
    /// The id of a viewer in the gateways.
    fn app_id(&self, viewer: &str) -> String {
        format!("{}/{viewer}", self.stores.namespace)
    }

    /// Whether the claim is being deleted, or the claim that the viewer was made for is gone. A
    /// claim that never existed may still come.
    fn is_claim_gone(&self, object: &DeepObject) -> bool {
        let Some(claim) = object.spec["pvc"].as_str() else {
            return false;
        };
        match self.stores.claim(claim) {
            Some(claim) => claim.metadata.deletion_timestamp.is_some(),
            None => {
                let deployment = self.stores.deployment(&child_name(object));
                // Not of an earlier viewer of this name, and not for another claim.
                deployment.is_some_and(|deployment| {
                    let mut owners = deployment.owner_references().iter();
                    owners.any(|owner| Some(&owner.uid) == object.meta().uid.as_ref())
                        && deployment.annotations().contains_key(CLAIM_UID_ANNOTATION)
                        && has_claim(deployment.data.pointer(POD_VOLUMES), claim)
                })
            }
        }
    }

    /// Deletes a viewer after its children: a claim is kept until no pod uses it.
    async fn delete(&self, object: &DeepObject) -> Result<(), ReconcileError> {
        let (namespace, name) = (object.namespace().unwrap_or_default(), object.name_any());
        let place = NamespacedName {
            namespace: &namespace,
            name: &name,
        };
        let uid = object.uid().unwrap_or_default();
        self.metrics.wrote();
        let kind = &self.stores.kinds.viewers;
        self.writer.delete_foreground(kind, place, &uid).await?;
        let claim = object.spec["pvc"].as_str();
        tracing::info!(viewer = name, claim, "deleted with its claim");
        Ok(())
    }

    async fn reconcile_children(
        &self,
        object: &DeepObject,
        reconciled: &mut ReconciledViewer,
    ) -> Result<(), ReconcileError> {
        let Some(owner) = self.owner(object) else {
            let reason = "the object has no name or uid".to_owned();
            return Err(ReconcileError::Rejected(reason));
        };
        let settings = self.settings.borrow().clone();
        let viewer = match Viewer::parse(object) {
            Ok(viewer) => default_networking::complete(viewer, &settings),
            Err(error) => {
                reconciled.stop = Some(StopReason::Invalid(error));
                return self.stop(object, &owner).await;
            }
        };
        let placement = self.placement(&viewer, &settings);
        let idle = self.decide_idle(object, &viewer, &settings);
        reconciled.next_check = idle.next_check();
        let idle_after = idle_timing::idle_after(&viewer, &settings);
        let unused = idle_after.filter(|_| idle == IdleDecision::Idle);
        let stop = StopReason::new(&placement, unused);
        let claim = self.stores.claim(&viewer.claim);
        let claim_uid = claim.and_then(|claim| claim.uid());
        let context = ViewerContext {
            viewer: &viewer,
            settings: &settings,
            placement: &placement,
            stop: stop.as_ref(),
            claim_uid: claim_uid.as_deref(),
        };
        reconciled.url = viewer.url().map(str::to_owned);
        match desired::objects(context) {
            Ok(objects) => {
                reconciled.stop = stop;
                self.prune(&viewer, &owner, &objects).await?;
                self.apply(&owner, objects).await
            }
            Err(stop) => {
                reconciled.stop = Some(stop);
                self.stop(object, &owner).await
            }
        }
    }

    /// The owner of the viewer's children. A viewer that is deleted in the foreground waits for
    /// them.
    fn owner(&self, object: &DeepObject) -> Option<OwnerReference> {
        let owner = object.controller_owner_ref(&self.stores.kinds.viewers)?;
        Some(OwnerReference {
            block_owner_deletion: Some(true),
            ..owner
        })
    }

    fn placement(&self, viewer: &Viewer, settings: &ViewerSettings) -> Placement {
        let claim = self.stores.claim(&viewer.claim);
        let pods = self.stores.pods_of_claim(&viewer.claim);
        let pods: Vec<&Pod> = pods.iter().map(|pod| &**pod).collect();
        let claim = ClaimUse {
            access_modes: claim.as_deref().and_then(access_modes),
            pods: &pods,
        };
        Placement::new(viewer, settings, claim)
    }

    fn decide_idle(
        &self,
        object: &DeepObject,
        viewer: &Viewer,
        settings: &ViewerSettings,
    ) -> IdleDecision {
        let status = earlier_status(object);
        let deployment = self.stores.deployment(&viewer.child_name());
        let timing = idle_timing(
            viewer,
            settings,
            &status,
            deployment.as_deref(),
            Timestamp::now(),
        );
        self.activity.decide(&self.app_id(&viewer.name), timing)
    }

    /// Ends the pod of a viewer of which nothing else can be made.
    async fn stop(
        &self,
        object: &DeepObject,
        owner: &OwnerReference,
    ) -> Result<(), ReconcileError> {
        let Some(deployment) = self.stores.deployment(&child_name(object)) else {
            return Ok(());
        };
        let kind = &self.stores.kinds.deployments;
        self.children.scale_to_zero(owner, kind, &deployment).await
    }

    /// Deletes the Service and the route of a viewer without networking.
    async fn prune(
        &self,
        viewer: &Viewer,
        owner: &OwnerReference,
        objects: &ViewerObjects,
    ) -> Result<(), ReconcileError> {
        let stores = &self.stores;
        let services = Some((&stores.services, &stores.kinds.services));
        let routes = stores.routes.as_ref().zip(stores.kinds.routes.as_ref());
        let unwanted = [
            services.filter(|_| objects.service.is_none()),
            routes.filter(|_| objects.route.is_none()),
        ];
        for (store, kind) in unwanted.into_iter().flatten() {
            let children = store.state_filter(|child| viewer_label(child) == Some(&viewer.name));
            for child in children {
                self.children.delete(owner, kind, &child).await?;
            }
        }
        Ok(())
    }

    /// Applies all objects, the policy first: no pod runs before it.
    async fn apply(
        &self,
        owner: &OwnerReference,
        objects: ViewerObjects,
    ) -> Result<(), ReconcileError> {
        let stores = &self.stores;
        let kinds = &stores.kinds;
        let route = stores.routes.as_ref().zip(kinds.routes.as_ref());
        let wanted = [
            Some((&stores.policies, &kinds.policies, objects.policy)),
            objects
                .service
                .map(|service| (&stores.services, &kinds.services, service)),
            route
                .zip(objects.route)
                .map(|((store, kind), route)| (store, kind, route)),
            Some((&stores.deployments, &kinds.deployments, objects.deployment)),
        ];
        for (store, kind, desired) in wanted.into_iter().flatten() {
            let name = desired["metadata"]["name"].as_str().unwrap_or_default();
            let live = stores.child(store, kind, name);
            let child = Child {
                kind,
                live: live.as_deref(),
                desired,
            };
            self.children.apply(owner, child).await?;
        }
        Ok(())
    }

    /// Writes the status, if it changed. It is replaced as a whole: one that another controller
    /// wrote may list a condition twice, which server-side apply refuses.
    async fn write_status(
        &self,
        object: &DeepObject,
        reconciled: &ReconciledViewer,
    ) -> Result<(), ReconcileError> {
        let before = earlier_status(object);
        let generation = object.meta().generation.unwrap_or_default();
        let deployment: Option<Deployment> = self
            .stores
            .deployment(&child_name(object))
            .and_then(|live| typed(&live));
        let (namespace, name) = (object.namespace().unwrap_or_default(), object.name_any());
        let pods = self.stores.pods_of_viewer(&name);
        let pods: Vec<&Pod> = pods.iter().map(|pod| &**pod).collect();
        let observed = ObservedViewer {
            generation,
            url: reconciled.url.as_deref(),
            stop: reconciled.stop.as_ref(),
            deployment: deployment.as_ref(),
            pods: &pods,
        };
        let status = status::status(observed, &before, &Timestamp::now().to_string());
        if status == before {
            return Ok(());
        }
        let kind = &self.stores.kinds.viewers;
        if let Some(change) = status::change(&before, reconciled.stop.as_ref()) {
            tracing::info!(
                viewer = name,
                reason = change.reason,
                message = change.note,
                "changed"
            );
            self.events.publish(KubernetesEvent {
                object: object.object_ref(kind),
                is_warning: change.is_warning,
                reason: change.reason,
                note: change.note,
                generation: Some(generation),
            });
        }
        let place = NamespacedName {
            namespace: &namespace,
            name: &name,
        };
        let patch = json!({ "status": {
            "conditions": status.conditions,
            "ready": status.ready,
            "url": status.url,
            "observedGeneration": status.observed_generation,
        } });
        self.metrics.wrote();
        self.writer.merge_status(kind, place, &patch).await?;
        Ok(())
    }
}

/// The name of a viewer's objects, whatever its spec.
fn child_name(object: &DeepObject) -> String {
    format!("{VIEWER_PREFIX}{}", object.name_any())
}

/// The status, or an empty one if another controller wrote it in another form.
fn earlier_status(object: &DeepObject) -> PVCViewerStatus {
    serde_json::from_value(object.status.clone()).unwrap_or_default()
}

fn access_modes(claim: &PersistentVolumeClaim) -> Option<&[String]> {
    claim.spec.as_ref()?.access_modes.as_deref()
}
