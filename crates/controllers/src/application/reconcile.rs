//! Makes the objects of an app, and writes its status. The only IO of this controller.

use std::{sync::Arc, time::Duration};

use k8s_openapi::{api::apps::v1::Deployment, jiff::Timestamp};
use kube::{Resource, ResourceExt, api::DynamicObject, runtime::controller::Action};
use ludgate_cluster::{
    crd::application::PhApplicationStatus,
    writer::{Place, Writer},
};
use serde_json::{Value, json};
use tokio::sync::watch;

use super::{
    admission::Admission,
    app::Application,
    desired,
    inputs::Inputs,
    instance_type::InstanceType,
    pod::PodParts,
    quota::Amounts,
    settings::ApplicationSettings,
    status::{self, Observed},
    stores::Stores,
};
use crate::{
    children::{Child, Children},
    error::{Backoffs, ReconcileError},
};

/// Every app is looked at again after this time, in case an event was lost.
const RESYNC: Duration = Duration::from_secs(300);

/// What reconciles of one namespace share.
pub struct Context {
    /// What is known of the namespace.
    pub stores: Stores,
    /// Writes objects.
    pub children: Children,
    /// Writes statuses.
    pub writer: Writer,
    /// Decides on quotas.
    pub admission: Admission,
    /// The settings in force.
    pub settings: watch::Receiver<Arc<ApplicationSettings>>,
    /// Pauses after failures.
    pub backoffs: Backoffs<String>,
}

/// Makes an app as it should be, and says in its status what became of it.
///
/// # Errors
/// [`ReconcileError`]; the app is reconciled again after a pause.
pub async fn reconcile(
    object: Arc<DynamicObject>,
    context: Arc<Context>,
) -> Result<Action, ReconcileError> {
    let name = object.name_any();
    if object.metadata.deletion_timestamp.is_some() {
        // Its children go with it.
        context.admission.release(&object.uid().unwrap_or_default());
        context.backoffs.reset(&name);
        return Ok(Action::await_change());
    }
    let made = match Application::read(&object) {
        Ok(app) => context.make(&app, &object).await,
        Err(reason) => Err(ReconcileError::Refused(reason)),
    };
    let refusal = match &made {
        Err(ReconcileError::Refused(reason)) => Some(reason.as_str()),
        Ok(()) | Err(ReconcileError::Transient(_)) => None,
    };
    context.report(&object, refusal).await?;
    made?;
    context.backoffs.reset(&name);
    Ok(Action::requeue(RESYNC))
}

impl Context {
    async fn make(&self, app: &Application, object: &DynamicObject) -> Result<(), ReconcileError> {
        let deployment = self.deployment(app);
        if app.is_stopped() {
            self.admission.release(&app.uid);
            return self.stop(app, deployment.as_deref()).await;
        }
        let settings = self.settings.borrow().clone();
        let inputs = match deployment
            .as_deref()
            .and_then(|live| Inputs::in_use(app, live))
        {
            Some(inputs) => inputs,
            None => self.current_inputs(app, &settings)?,
        };
        let group = settings.groups.get(&app.spec.group_name);
        let quota = group.map(|group| group.quota).unwrap_or_default();
        let amounts = Amounts::from_instance_type(&inputs.instance_type);
        self.admission
            .admit(app, quota, amounts, &self.stores)
            .map_err(ReconcileError::Refused)?;
        let parts = PodParts {
            app,
            inputs: &inputs,
            settings: &settings,
        };
        let objects = desired::objects(parts, 1).map_err(ReconcileError::Refused)?;
        self.apply(app, object, objects).await
    }

    fn deployment(&self, app: &Application) -> Option<Arc<DynamicObject>> {
        let stores = &self.stores;
        stores.find(
            &stores.deployments,
            &stores.kinds.deployments,
            &app.child_name(),
        )
    }

    fn current_inputs(
        &self,
        app: &Application,
        settings: &ApplicationSettings,
    ) -> Result<Inputs, ReconcileError> {
        let group_name = &app.spec.group_name;
        let group = settings.groups.get(group_name);
        let group = group.ok_or_else(|| refused(format!("group {group_name} does not exist")))?;
        let instance_type = self.instance_type(&app.spec.instance_type, settings)?;
        Ok(Inputs::current(app, group, &instance_type))
    }

    fn instance_type(
        &self,
        name: &str,
        settings: &ApplicationSettings,
    ) -> Result<InstanceType, ReconcileError> {
        let in_cluster = self.stores.instance_types.as_ref();
        if let Some(object) = in_cluster.and_then(|all| all.find(|it| it.name_any() == name)) {
            return InstanceType::from_spec(name, &object.data["spec"]).map_err(refused);
        }
        let known = settings.instance_types.get(name);
        known
            .cloned()
            .ok_or_else(|| refused(format!("instance type {name} does not exist")))
    }

    /// Ends the pods. Nothing else is needed for it, so it works whatever else is wrong.
    async fn stop(
        &self,
        app: &Application,
        deployment: Option<&DynamicObject>,
    ) -> Result<(), ReconcileError> {
        let Some(deployment) = deployment else {
            return Ok(());
        };
        if deployment.data["spec"]["replicas"].as_u64() == Some(0) {
            return Ok(());
        }
        let name = app.child_name();
        let place = Place {
            namespace: &app.namespace,
            name: &name,
        };
        let kind = &self.stores.kinds.deployments;
        let patch = json!({ "spec": { "replicas": 0 } });
        self.writer.merge(kind, place, &patch).await?;
        Ok(())
    }

    async fn apply(
        &self,
        app: &Application,
        object: &DynamicObject,
        objects: Vec<Value>,
    ) -> Result<(), ReconcileError> {
        let stores = &self.stores;
        let Some(owner) = object.controller_owner_ref(&stores.kinds.apps) else {
            return Err(refused("the object has no name or uid".to_owned()));
        };
        let is_wanted = |kind: &str, name: &str| {
            objects
                .iter()
                .any(|object| object["kind"] == kind && object["metadata"]["name"] == name)
        };
        for (store, kind) in [
            (&stores.policies, &stores.kinds.policies),
            (&stores.services, &stores.kinds.services),
        ] {
            let label = app.child_name();
            let unwanted = store.state_filter(|child| {
                super::stores::app_label(child) == Some(&label)
                    && !is_wanted(&kind.kind, &child.name_any())
            });
            let unwanted = unwanted.iter().map(|child| &**child);
            self.children.prune(&owner, kind, unwanted).await?;
        }
        for desired in objects {
            let (store, kind) = match desired["kind"].as_str() {
                Some("Deployment") => (&stores.deployments, &stores.kinds.deployments),
                Some("Service") => (&stores.services, &stores.kinds.services),
                _ => (&stores.policies, &stores.kinds.policies),
            };
            let name = desired["metadata"]["name"].as_str().unwrap_or_default();
            let live = stores.find(store, kind, name);
            let child = Child {
                kind,
                live: live.as_deref(),
                desired,
            };
            self.children.apply(&owner, child).await?;
        }
        Ok(())
    }

    /// Writes the status, if it changed.
    async fn report(
        &self,
        object: &DynamicObject,
        refusal: Option<&str>,
    ) -> Result<(), ReconcileError> {
        let before: PhApplicationStatus =
            serde_json::from_value(object.data["status"].clone()).unwrap_or_default();
        let now = Timestamp::now().to_string();
        let status = match Application::read(object) {
            Ok(app) => self.status(&app, refusal).to_status(&app, &before, &now),
            Err(reason) => status::unreadable(object, &reason, &before, &now),
        };
        if status == before {
            return Ok(());
        }
        let (namespace, name) = (object.namespace().unwrap_or_default(), object.name_any());
        let kind = &self.stores.kinds.apps;
        let place = Place {
            namespace: &namespace,
            name: &name,
        };
        let patch = json!({
            "apiVersion": kind.api_version,
            "kind": kind.kind,
            "metadata": { "name": name },
            "status": status,
        });
        self.writer.apply_status(kind, place, &patch).await?;
        Ok(())
    }

    fn status(&self, app: &Application, refusal: Option<&str>) -> status::PhaseMessage {
        let live = self.deployment(app);
        let replica_set = live
            .as_deref()
            .and_then(|live| self.stores.current_replica_set(live));
        let inputs = live.as_deref().and_then(|live| Inputs::in_use(app, live));
        let deployment: Option<Deployment> = live.and_then(|live| {
            let value = serde_json::to_value(&*live).ok()?;
            serde_json::from_value(value).ok()
        });
        let pods = self.stores.pods_of_app(&app.child_name());
        let pods: Vec<_> = pods.iter().map(|pod| &**pod).collect();
        let observed = Observed {
            deployment: deployment.as_ref(),
            is_applied: inputs.is_some(),
            pods: &pods,
            replica_set: replica_set.as_deref(),
        };
        status::phase(app, refusal, observed)
    }
}

fn refused(reason: String) -> ReconcileError {
    ReconcileError::Refused(reason)
}
