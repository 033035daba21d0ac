//! Starting a lab: its objects in their order, then its pod until that runs.

use std::{sync::Arc, time::Duration};

use kube::ResourceExt;
use ludgate_cluster::writer::NamespacedName;
use ludgate_model::secret::Secret;
use tokio_util::sync::CancellationToken;

use super::{
    lab::Lab,
    lab_service::{LabService, locked},
    operation::Operation,
    operation_end::{LabEnd, OperationEnd},
    outcome::Stopped,
    pod_wait::{AwaitedPod, PodStart, account_ready},
    retry::Limits,
    source_secrets::source_secrets,
    spawn_plan::{SpawnPlan, SpawnWork},
    writes::LabWrites,
};
use crate::{
    events::LabEvent,
    objects::{DesiredLab, LabContext, LabRequest, SourceSecrets, desired},
    state::LabStatus,
};

/// Why a lab does not run, and how it is then.
struct Unstarted {
    stopped: Stopped,
    status: LabStatus,
}

impl From<Stopped> for Unstarted {
    fn from(stopped: Stopped) -> Unstarted {
        Unstarted {
            stopped,
            status: LabStatus::Failed,
        }
    }
}

impl LabService {
    /// Runs a spawn in a task of its own, for as long as this process leads.
    pub(super) fn start_spawn(
        &self,
        leading: CancellationToken,
        lab: Arc<Lab>,
        operation: Arc<Operation>,
        work: SpawnWork,
    ) {
        let (service, lab_of, running) = (self.clone(), lab.clone(), operation.clone());
        let work = async move { service.run_spawn(&lab_of, &running, work).await };
        self.run_while_leading(leading, lab, operation, work);
    }

    /// Does what is left of a spawn.
    pub(super) async fn run_spawn(
        &self,
        lab: &Lab,
        operation: &Arc<Operation>,
        work: SpawnWork,
    ) -> OperationEnd {
        let limits = self.limits(operation, self.lab_config().spawn_timeout);
        let user = &lab.username;
        match self.spawned(lab, operation, &limits, work).await {
            Ok(()) => {
                tracing::info!(user, "the lab runs");
                let complete = LabEvent::spawn_complete(user, self.dialect());
                OperationEnd::new(LabEnd::Running, [complete])
            }
            Err(Unstarted {
                stopped: Stopped::Cancelled,
                ..
            }) => {
                tracing::info!(user, "the start of the lab is cancelled");
                OperationEnd::new(LabEnd::Cancelled, [LabEvent::cancelled()])
            }
            Err(Unstarted { stopped, status }) => {
                let reason = stopped.text();
                tracing::warn!(user, reason, "cannot start the lab");
                let names = self.names(user);
                let pod = self.0.stores.pod(&names.namespace, &names.lab);
                let last = stopped.event().into_iter();
                let last = last.chain([LabEvent::spawn_failed()]);
                let has_pod = pod.is_some();
                OperationEnd::new(LabEnd::Stopped { status, has_pod }, last)
            }
        }
    }

    /// What ends an operation before its time.
    pub(super) fn limits(&self, operation: &Operation, limit: Duration) -> Limits {
        let limits = Limits::new(limit, operation.cancel.clone(), self.0.permits.clone());
        let lock = operation.lock();
        limits.within(lock.map(|lock| lock.validity()))
    }

    async fn spawned(
        &self,
        lab: &Lab,
        operation: &Operation,
        limits: &Limits,
        work: SpawnWork,
    ) -> Result<(), Unstarted> {
        let names = self.names(&lab.username);
        let name = NamespacedName {
            namespace: &names.namespace,
            name: &names.lab,
        };
        let uid = match work {
            SpawnWork::Make(plan) => {
                let uid = self.make_objects(lab, operation, limits, &plan).await?;
                self.share_pod(operation, &uid).await;
                uid
            }
            SpawnWork::Await(Some(uid)) => uid,
            SpawnWork::Await(None) => {
                let pod = self.0.stores.pod(name.namespace, name.name);
                let gone = || Stopped::Impossible("the pod of the lab is gone".to_owned());
                pod.and_then(|pod| pod.uid()).ok_or_else(gone)?
            }
        };
        operation.log.push(LabEvent::objects_created());
        let pod = AwaitedPod {
            client: &self.0.client,
            watch: self.0.settings.watch,
            stores: &self.0.stores,
            lab,
            name,
            uid: &uid,
        };
        let ended = |reason: String, status| Unstarted {
            stopped: Stopped::Impossible(reason),
            status,
        };
        match pod.started(operation, limits).await? {
            PodStart::Running => Ok(()),
            PodStart::Ended(phase) => {
                let reason = format!("The pod of the lab ended with phase {phase}");
                Err(ended(reason, LabStatus::Terminated))
            }
            PodStart::Deleted => {
                let reason = "The pod of the lab was deleted".to_owned();
                Err(ended(reason, LabStatus::Failed))
            }
        }
    }

    /// Makes all objects, and returns the uid of the pod.
    async fn make_objects(
        &self,
        lab: &Lab,
        operation: &Operation,
        limits: &Limits,
        plan: &SpawnPlan,
    ) -> Result<String, Stopped> {
        if plan.is_replacement {
            let [begin, pod, namespace, done] = LabEvent::replacement_steps(&lab.username);
            operation.log.push(begin);
            self.delete_objects(lab, operation, limits, [pod, namespace])
                .await?;
            operation.log.push(done);
        }
        let writes = LabWrites {
            writer: &self.0.writer,
            stores: &self.0.stores,
            lab,
            limits,
        };
        let own = &self.0.settings.namespace;
        let secrets = source_secrets(&writes, self.lab_config(), own).await?;
        let objects = self.desired(plan, &secrets)?;
        writes.make_namespace(&objects.namespace).await?;
        for object in objects.before_pod() {
            writes.apply(object).await?;
        }
        let names = self.names(&lab.username);
        let watch = self.0.settings.watch;
        account_ready(&writes, &self.0.client, watch, &names.namespace).await?;
        let pod = writes.apply(&objects.pod).await?;
        Ok(pod.uid().unwrap_or_default())
    }

    fn desired(&self, plan: &SpawnPlan, secrets: &SourceSecrets) -> Result<DesiredLab, Stopped> {
        let settings = &self.0.settings;
        let context = LabContext {
            config: self.lab_config(),
            dialect: settings.dialect,
            urls: &settings.urls,
            discovery: settings.discovery.as_ref(),
            peers: &settings.peers,
            helper_image: settings.helper_image.as_ref(),
        };
        let request = LabRequest {
            user: &plan.user,
            token: plan.token.as_ref().map_or("", Secret::expose),
            specification: &plan.specification,
            image: &plan.image,
            is_provisioned: locked(&self.0.provisioned).contains(&plan.user.username),
            secrets,
        };
        desired(context, request).map_err(|error| Stopped::Impossible(error.to_string()))
    }

    pub(super) fn mark_provisioned(&self, username: &str) {
        locked(&self.0.provisioned).insert(username.to_owned());
    }
}
