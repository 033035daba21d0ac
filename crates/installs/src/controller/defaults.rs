//! Makes the default and enforced apps of the clusters, and restores enforced ones.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Namespace;
use kube::{ResourceExt, api::ApiResource};
use ludgate_cluster::{
    crd::{
        definition::{ApplicationDefinition, ENFORCED_ANNOTATION},
        installation::ApplicationInstallation,
    },
    deadline::ApiCallError,
    merge_patch,
    writer::NamespacedName,
};
use serde_json::{Value, json};

use super::{
    annotations::{DEFAULTED_TARGETS_ANNOTATION, TARGET_LABEL, selector_name, target_name},
    context::InstallationReconcile,
    settings::HOME_TARGET,
    target_cluster::TargetCluster,
    target_clusters::Target,
};
use crate::{
    defaults::{DefaultsAction, DefaultsTarget, actions},
    initial::{INITIAL_ANNOTATION, INITIAL_DONE_ANNOTATION},
};

impl InstallationReconcile {
    /// Makes, restores and releases the apps of all targets. `scope` is the namespace of the
    /// installations; `None`: all.
    ///
    /// # Errors
    /// The first failure. What was done stays done, and the other apps do not wait for it.
    pub(super) async fn reconcile_defaults(&self, scope: Option<&str>) -> Result<(), ApiCallError> {
        let definitions = self.stores.all_definitions();
        let installations = self.stores.all_installations();
        let mut result = Ok(());
        for target in self.clusters.usable() {
            let Some(Target::Usable(cluster)) = self.clusters.get(&target) else {
                continue;
            };
            if !cluster.is_listed() || cluster.is_paused {
                continue;
            }
            let existing: Vec<ApplicationInstallation> = installations
                .iter()
                .filter(|installation| target_name(*installation) == target)
                .cloned()
                .collect();
            let done = self
                .defaults_of(&cluster, &definitions, &existing, scope)
                .await;
            result = result.and(done);
        }
        result
    }

    async fn defaults_of(
        &self,
        cluster: &TargetCluster,
        definitions: &[ApplicationDefinition],
        existing: &[ApplicationInstallation],
        scope: Option<&str>,
    ) -> Result<(), ApiCallError> {
        let settings = self.settings();
        let target = DefaultsTarget {
            name: selector_name(&cluster.name, &settings.cluster_name),
            namespace: settings.default_namespace.as_deref().or(scope),
            has_initial_apps: self.has_initial_apps(cluster),
            has_default_apps: self.defaulted_targets().contains(&cluster.name),
        };
        let mut result = Ok(());
        for action in actions(definitions, existing, target) {
            let done = match action {
                DefaultsAction::Create(installation) => {
                    self.create_default(cluster, *installation).await
                }
                DefaultsAction::Replace(installation) => self.replace(&installation).await,
                DefaultsAction::Release { namespace, name } => {
                    self.release(&namespace, &name).await
                }
            };
            // The other apps do not wait for one that is refused.
            result = result.and(done);
        }
        result?;
        if !target.has_default_apps {
            self.remember_defaults(&cluster.name).await?;
        }
        Ok(())
    }

    /// Whether initial apps of a cluster were listed, now or earlier: at the home namespace, or at
    /// the Secret of the target.
    fn has_initial_apps(&self, cluster: &TargetCluster) -> bool {
        let is_listed = |annotations: &BTreeMap<String, String>| {
            annotations.contains_key(INITIAL_ANNOTATION)
                || annotations.contains_key(INITIAL_DONE_ANNOTATION)
        };
        if cluster.is_home() {
            let home = self.settings().home_namespace.clone();
            let home = cluster.namespace(&home);
            return home.is_some_and(|home| is_listed(home.annotations()));
        }
        let secrets = self.stores.secrets.state();
        let mut of_target = secrets
            .iter()
            .filter(|secret| secret.labels().get(TARGET_LABEL) == Some(&cluster.name));
        of_target.any(|secret| is_listed(secret.annotations()))
    }

    /// The targets whose default apps were created.
    fn defaulted_targets(&self) -> Vec<String> {
        let home = self.settings().home_namespace.clone();
        let Some(Target::Usable(cluster)) = self.clusters.get(HOME_TARGET) else {
            return Vec::new();
        };
        let home = cluster.namespace(&home);
        let text = home.and_then(|home| {
            let annotation = home.annotations().get(DEFAULTED_TARGETS_ANNOTATION);
            annotation.cloned()
        });
        let text = text.unwrap_or_default();
        text.split_whitespace().map(str::to_owned).collect()
    }

    async fn remember_defaults(&self, target: &str) -> Result<(), ApiCallError> {
        let mut targets = self.defaulted_targets();
        targets.push(target.to_owned());
        targets.sort();
        targets.dedup();
        let annotations = json!({ DEFAULTED_TARGETS_ANNOTATION: targets.join(" ") });
        let patch = json!({ "metadata": { "annotations": annotations } });
        let home = self.settings().home_namespace.clone();
        let kind = ApiResource::erase::<Namespace>(&());
        let place = NamespacedName {
            namespace: "",
            name: &home,
        };
        self.metrics.wrote();
        self.writer.merge(&kind, place, &patch).await?;
        Ok(())
    }

    async fn create_default(
        &self,
        cluster: &TargetCluster,
        mut installation: ApplicationInstallation,
    ) -> Result<(), ApiCallError> {
        if !cluster.is_home() {
            let labels = installation.metadata.labels.get_or_insert_default();
            labels.insert(TARGET_LABEL.to_owned(), cluster.name.clone());
        }
        self.create_installation(&installation).await
    }

    /// Creates an installation, and its namespace if there is none. One that exists stays.
    pub(super) async fn create_installation(
        &self,
        installation: &ApplicationInstallation,
    ) -> Result<(), ApiCallError> {
        let namespace = installation.namespace().unwrap_or_default();
        let is_known = match self.clusters.get(HOME_TARGET) {
            Some(Target::Usable(home)) => home.namespace(&namespace).is_some(),
            Some(Target::Refused(_)) | None => false,
        };
        if !is_known {
            let kind = ApiResource::erase::<Namespace>(&());
            let object = json!({
                "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": namespace },
            });
            self.metrics.wrote();
            ignore_existing(self.writer.create(&kind, "", object).await)?;
        }
        let kind = &self.stores.kinds.installations;
        self.metrics.wrote();
        let object = to_value(installation);
        let name = installation.name_any();
        if ignore_existing(self.writer.create(kind, &namespace, object).await)? {
            tracing::info!(namespace, name, "created an installation");
            return Ok(());
        }
        let existing = self
            .stores
            .installations
            .get(&self.stores.request(installation));
        let wanted = target_name(installation);
        if existing.is_some_and(|existing| target_name(&*existing) != wanted) {
            tracing::warn!(
                namespace,
                name,
                wanted,
                "cannot create an installation: one of its name is on another target"
            );
        }
        Ok(())
    }

    /// Writes the spec, the labels and the annotations of an enforced app.
    async fn replace(&self, installation: &ApplicationInstallation) -> Result<(), ApiCallError> {
        let wanted = to_value(installation);
        let (namespace, name) = (
            installation.namespace().unwrap_or_default(),
            installation.name_any(),
        );
        let before = self
            .stores
            .installations
            .get(&self.stores.request(installation));
        // Fields that are no longer wanted must go, so the difference is patched.
        let before = before.map_or(Value::Null, |before| before.spec.clone());
        let patch = json!({
            "metadata": {
                "labels": wanted["metadata"]["labels"],
                "annotations": wanted["metadata"]["annotations"],
            },
            "spec": merge_patch::between(&before, &wanted["spec"]),
        });
        self.patch(&namespace, &name, &patch).await?;
        tracing::info!(namespace, name, "restored an enforced installation");
        Ok(())
    }

    /// The definition of an installation is no longer enforced.
    async fn release(&self, namespace: &str, name: &str) -> Result<(), ApiCallError> {
        let patch = json!({ "metadata": { "annotations": { ENFORCED_ANNOTATION: "false" } } });
        self.patch(namespace, name, &patch).await
    }

    async fn patch(&self, namespace: &str, name: &str, patch: &Value) -> Result<(), ApiCallError> {
        let place = NamespacedName { namespace, name };
        let kind = &self.stores.kinds.installations;
        self.metrics.wrote();
        self.writer.merge(kind, place, patch).await?;
        Ok(())
    }
}

/// An object without the fields that the API server sets.
fn to_value(installation: &ApplicationInstallation) -> Value {
    let mut object = serde_json::to_value(installation).unwrap_or_default();
    if let Some(object) = object.as_object_mut() {
        object.remove("status");
    }
    object
}

/// Whether the object was made. Another process, or this one before a crash, may have made it.
fn ignore_existing<T>(made: Result<T, ApiCallError>) -> Result<bool, ApiCallError> {
    match made {
        Ok(_) => Ok(true),
        Err(ApiCallError::Api(kube::Error::Api(status))) if status.code == 409 => Ok(false),
        Err(error) => Err(error),
    }
}
