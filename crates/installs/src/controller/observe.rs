//! The observed state of one installation at one time, as input of the plan.

use std::{sync::Arc, time::Duration};

use k8s_openapi::{api::core::v1::Node, jiff::Timestamp};
use kube::{Api, ResourceExt, api::ListParams};
use ludgate_cluster::{
    crd::{
        app_target::AppNamespaceSpec, definition::ApplicationDefinition,
        installation::ApplicationInstallation, installation_status::InstallationPlacement,
    },
    deadline::with_deadline,
    object::DeepObject,
};
use ludgate_controllers::error::ReconcileError;
use ludgate_model::error_cause::chain_text;

use super::{
    annotations::{CREATED_FOR_ANNOTATION, target_name},
    attempts::ChartOnDisk,
    context::InstallationReconcile,
    operations::{ReleaseKey, RunningOperation},
    parsed,
    target_cluster::{NamespaceObject, TargetCluster},
    target_clusters::Target,
};
use crate::{
    created_namespace::{NamespaceOrigin, SeenNamespace},
    defaulting, deploy_options,
    health::WorkloadHealth,
    interval::next_due,
    placement::{
        ExistingNamespace, INSTALLS_FROM_ANNOTATION, PermittedPlacement, PlacementRefused,
        PlacementTarget, WantedPlacement,
    },
    plan::{NamespaceState, ObservedInstallation, RetryTimes, TargetState},
    release::{Release, latest},
    release_name::{check_owner, release_name},
    targets::namespace::NamespaceMeta,
    validation::namespace_keys,
};

/// Deadline of an API call.
const DEADLINE: Duration = Duration::from_secs(20);

/// An installation that is reconciled.
pub(super) struct Subject {
    /// Namespace and name.
    pub(super) key: String,
    pub(super) uid: String,
    /// With the status that was written last, which may be newer than the watch.
    pub(super) installation: ApplicationInstallation,
}

/// The observed state of an installation, of its release and of its namespace.
pub(super) struct Observation {
    pub(super) definition: Option<ApplicationDefinition>,
    pub(super) cluster: Arc<TargetCluster>,
    /// The namespace of the app.
    pub(super) target_namespace: AppNamespaceSpec,
    /// Whether the app is permitted in this namespace.
    pub(super) permission: Result<PermittedPlacement, PlacementRefused>,
    /// The placement that the status records for a permitted app.
    pub(super) placement: InstallationPlacement,
    /// Labels and annotations of the spec, without reserved ones.
    pub(super) namespace_meta: NamespaceMeta,
    /// The creator of the namespace.
    pub(super) origin: NamespaceOrigin,
    /// The UID of the namespace, if it was created for the installation.
    pub(super) created_uid: Option<String>,
    pub(super) release: ReleaseKey,
    pub(super) history: Arc<[Release]>,
    pub(super) running: Option<RunningOperation>,
    pub(super) chart: Option<Arc<ChartOnDisk>>,
    pub(super) namespace: NamespaceState,
    /// When the release is applied again without a change.
    pub(super) due: Option<Timestamp>,
    pub(super) now: Timestamp,
    state: TargetState,
    retry: RetryTimes,
}

/// What can be observed of an installation.
pub(super) enum Observed {
    /// Its release and its namespace.
    Installation(Box<Observation>),
    /// Nothing: the first list of the target is not complete yet.
    NotListed,
    /// Nothing: the target does not exist, or is refused. The text says which.
    NoTarget(String),
}

impl Subject {
    /// The name of the installation's target.
    pub(super) fn target(&self) -> &str {
        target_name(&self.installation)
    }
}

/// The namespace of an app. It may depend on the definition, so `None` if that is absent.
pub(super) fn target_namespace_of(
    object: &DeepObject,
    definition: Option<&ApplicationDefinition>,
) -> Option<String> {
    if let Some(name) = object.spec["namespace"]["name"].as_str()
        && !name.is_empty()
    {
        return Some(name.to_owned());
    }
    let installation = parsed::installation(object).ok()?;
    let own = object.namespace().unwrap_or_default();
    let definition = definition.map(|definition| &definition.spec);
    Some(defaulting::target_namespace(&installation.spec, &own, definition).name)
}

impl Observation {
    /// The input of the plan.
    pub(super) fn as_input<'a>(&'a self, subject: &'a Subject) -> ObservedInstallation<'a> {
        let own = self.running.as_ref();
        let own = own.filter(|running| running.owner == subject.uid);
        ObservedInstallation {
            installation: &subject.installation,
            definition: self.definition.as_ref(),
            target: self.state,
            namespace: self.namespace,
            history: &self.history,
            running: own.map(|running| running.kind),
            upgrade: own.and_then(RunningOperation::upgrade),
            downloaded: self.chart.as_ref().map(|chart| &chart.downloaded),
            retry: self.retry,
            is_interval_due: self.due.is_some_and(|due| due <= self.now),
            now: self.now,
        }
    }

    /// The newest revision.
    pub(super) fn latest(&self) -> Option<&Release> {
        latest(&self.history)
    }

    /// Whether there is a release, and the installation owns it.
    pub(super) fn has_own_release(&self, subject: &Subject) -> bool {
        let status = subject.installation.status.as_ref();
        let recorded = status.and_then(|status| status.helm_release.as_ref()?.name.as_deref());
        let latest = self.latest();
        latest.is_some() && check_owner(latest, &subject.uid, recorded).is_ok()
    }

    /// The health of the release's workloads; `None`: unknown.
    pub(super) fn health(&self) -> Option<WorkloadHealth> {
        let ReleaseKey {
            namespace, release, ..
        } = &self.release;
        self.cluster.health(namespace, release)
    }

    /// Whether the release may be removed: its namespace is permitted now, or was permitted when
    /// the release was installed.
    pub(super) fn may_uninstall(&self, subject: &Subject) -> bool {
        let status = subject.installation.status.as_ref();
        let placed = status.and_then(|status| status.placement.as_ref());
        let owner = self.latest().and_then(|latest| latest.owner.as_deref());
        self.permission.is_ok()
            || placed == Some(&self.placement)
            || owner == Some(subject.uid.as_str())
    }

    /// Whether another installation's process changes this release.
    pub(super) fn is_busy_for_other(&self, subject: &Subject) -> bool {
        let running = self.running.as_ref();
        running.is_some_and(|running| running.owner != subject.uid)
    }

    /// The options of Helm.
    pub(super) fn options(&self, subject: &Subject) -> deploy_options::EffectiveOptions {
        let definition = self.definition.as_ref().map(|definition| &definition.spec);
        deploy_options::effective(&subject.installation.spec, definition)
    }
}

impl InstallationReconcile {
    /// The object with the status that was written last, which the watch may not report yet.
    pub(super) fn subject(
        &self,
        object: &DeepObject,
        mut installation: ApplicationInstallation,
    ) -> Subject {
        let key = parsed::key(object);
        let uid = object.uid().unwrap_or_default();
        let version = object.resource_version().unwrap_or_default();
        let written = self
            .memory
            .with(&key, &uid, |remembered| remembered.status_after(&version));
        if let Some(written) = written {
            installation.status = Some(written);
        }
        Subject {
            key,
            uid,
            installation,
        }
    }

    /// Observes an installation.
    ///
    /// # Errors
    /// The history of the release cannot be read.
    pub(super) async fn observe(&self, subject: &Subject) -> Result<Observed, ReconcileError> {
        let target = subject.target();
        let cluster = match self.clusters.get(target) {
            Some(Target::Usable(cluster)) if cluster.is_listed() => cluster,
            Some(Target::Usable(_)) => return Ok(Observed::NotListed),
            Some(Target::Refused(reason)) => {
                let text = format!("target \"{target}\" is refused: {reason}");
                return Ok(Observed::NoTarget(text));
            }
            None => {
                let text = format!("there is no target \"{target}\"");
                return Ok(Observed::NoTarget(text));
            }
        };
        let observation = self.observe_on(subject, cluster).await?;
        Ok(Observed::Installation(Box::new(observation)))
    }

    /// Observes an installation whose target is listed.
    async fn observe_on(
        &self,
        subject: &Subject,
        cluster: Arc<TargetCluster>,
    ) -> Result<Observation, ReconcileError> {
        let target = subject.target();
        let installation = &subject.installation;
        let name = &installation.spec.application_ref.name;
        let definition = self.stores.definition(name);
        let own = installation.namespace().unwrap_or_default();
        let spec = definition.as_ref().map(|definition| &definition.spec);
        let target_namespace = defaulting::target_namespace(&installation.spec, &own, spec);
        let release = release_key(installation, target, &target_namespace.name);
        // Before the history: an operation that ends in between has written all of it.
        let running = self.operations.get(&release);
        let history = cluster
            .history(&release.namespace, &release.release)
            .await?;
        let now = Timestamp::now();
        let (chart, retry) = self.memory.with(&subject.key, &subject.uid, |remembered| {
            (remembered.chart.clone(), remembered.retry_times())
        });
        let due = next_due(&installation.spec, last_deployed(&history));
        let state = self.target_state(&cluster).await;
        let found = cluster.namespace(&target_namespace.name);
        let found = found.as_deref();
        let origin = origin(subject, found);
        let created_uid = found
            .filter(|_| origin.is_created())
            .and_then(ResourceExt::uid);
        let permission = self.settings().placement_rules().check(WantedPlacement {
            own: &own,
            target: placement_target(&cluster),
            namespace: &target_namespace,
            existing: found.map(|found| existing_namespace(found, origin)),
            definition: definition.as_ref(),
        });
        let may_label = permission.as_ref().is_ok_and(|it| it.may_label);
        let default = spec.and_then(|spec| spec.default_namespace.as_ref());
        let namespace_meta = match may_label {
            true => namespace_meta(&target_namespace, default),
            false => NamespaceMeta::unlabelled(&target_namespace.name),
        };
        let namespace = NamespaceState {
            exists: found.is_some(),
            is_terminating: found.is_some_and(|it| it.metadata.deletion_timestamp.is_some()),
            is_prepared: origin.is_recorded()
                && found.is_some_and(|found| {
                    !may_label || namespace_meta.is_applied(&found.metadata, &release.release)
                }),
            is_created_here: origin.is_created(),
            is_shared: found.is_some() && self.is_shared(subject, &cluster, &release),
        };
        let placement = InstallationPlacement {
            target: target.to_owned(),
            namespace: target_namespace.name.clone(),
        };
        Ok(Observation {
            definition,
            cluster,
            target_namespace,
            permission,
            placement,
            namespace_meta,
            origin,
            created_uid,
            release,
            history,
            running,
            chart,
            namespace,
            due,
            now,
            state,
            retry,
        })
    }

    async fn target_state(&self, cluster: &TargetCluster) -> TargetState {
        if cluster.is_paused {
            return TargetState::Paused;
        }
        if !self.settings().needs_nodes {
            return TargetState::Ready;
        }
        let nodes: Api<Node> = Api::all(cluster.client.clone());
        let one = ListParams::default().limit(1);
        match with_deadline(DEADLINE, nodes.list_metadata(&one)).await {
            Ok(nodes) if nodes.items.is_empty() => TargetState::NoNodes,
            Ok(_) => TargetState::Ready,
            Err(error) => {
                // There may be nodes, so the pods may be scheduled.
                let reason = chain_text(&error);
                tracing::warn!(
                    reason,
                    "cannot list nodes for controller.installations.wait_for_nodes"
                );
                TargetState::Ready
            }
        }
    }

    /// Whether the namespace of a release also has other releases or installations.
    fn is_shared(&self, subject: &Subject, cluster: &TargetCluster, release: &ReleaseKey) -> bool {
        // The other installations matter only for the deletion of the namespace.
        let is_deleted = subject.installation.metadata.deletion_timestamp.is_some();
        let namespace = &release.namespace;
        let others = cluster.releases.names_in(namespace);
        others.iter().any(|name| *name != release.release)
            || (is_deleted && self.is_wanted_by_others(subject, namespace))
    }

    /// Whether other installations have their app in this namespace of the same target.
    fn is_wanted_by_others(&self, subject: &Subject, namespace: &str) -> bool {
        let objects = self.stores.installations.state();
        let others = objects
            .iter()
            .filter(|object| object.uid().as_deref() != Some(subject.uid.as_str()))
            .filter(|object| target_name(&***object) == subject.target());
        let mut namespaces = others.filter_map(|object| {
            let name = parsed::definition_name(object);
            let definition = name.and_then(|name| self.stores.definition(name));
            target_namespace_of(object, definition.as_ref())
        });
        namespaces.any(|found| found == namespace)
    }
}

/// The creator of a namespace; [`NamespaceOrigin::Other`] if it does not exist.
fn origin(subject: &Subject, found: Option<&NamespaceObject>) -> NamespaceOrigin {
    let Some(found) = found else {
        return NamespaceOrigin::Other;
    };
    let status = subject.installation.status.as_ref();
    let record = status.and_then(|status| status.created_namespace.as_ref());
    let (name, uid) = (found.name_any(), found.uid().unwrap_or_default());
    let seen = SeenNamespace {
        name: &name,
        uid: &uid,
        created_for: annotation(found, CREATED_FOR_ANNOTATION),
    };
    NamespaceOrigin::new(record, &subject.uid, seen)
}

fn annotation<'a>(object: &'a NamespaceObject, key: &str) -> Option<&'a str> {
    object.annotations().get(key).map(String::as_str)
}

fn existing_namespace(found: &NamespaceObject, origin: NamespaceOrigin) -> ExistingNamespace<'_> {
    ExistingNamespace {
        installs_from: annotation(found, INSTALLS_FROM_ANNOTATION),
        is_created_here: origin.is_created(),
    }
}

/// The release of an installation.
fn release_key(
    installation: &ApplicationInstallation,
    target: &str,
    namespace: &str,
) -> ReleaseKey {
    let own = installation.namespace().unwrap_or_default();
    ReleaseKey {
        target: target.to_owned(),
        namespace: namespace.to_owned(),
        release: release_name(&own, &installation.name_any()),
    }
}

/// When the newest revision was deployed.
fn last_deployed(history: &[Release]) -> Option<Timestamp> {
    latest(history)?.last_deployed.as_deref()?.parse().ok()
}

fn placement_target(cluster: &TargetCluster) -> PlacementTarget<'_> {
    match cluster.is_home() {
        true => PlacementTarget::Home,
        false => PlacementTarget::Secret {
            name: &cluster.name,
            installs_from: cluster.installs_from.as_deref(),
        },
    }
}

/// The labels and annotations of an installation's namespace, without reserved ones.
fn namespace_meta(wanted: &AppNamespaceSpec, default: Option<&AppNamespaceSpec>) -> NamespaceMeta {
    let labels = default.and_then(|default| default.labels.as_ref());
    let annotations = default.and_then(|default| default.annotations.as_ref());
    NamespaceMeta {
        name: wanted.name.clone(),
        labels: namespace_keys::permitted(wanted.labels.as_ref(), labels),
        annotations: namespace_keys::permitted(wanted.annotations.as_ref(), annotations),
    }
}
