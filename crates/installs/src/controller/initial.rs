//! Makes the apps that an annotation of a Namespace or of a target's Secret lists, each once.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{Namespace, ObjectReference, Secret};
use kube::{Resource, ResourceExt, api::ApiResource};
use ludgate_cluster::{
    crd::{definition::ApplicationDefinition, installation::ApplicationInstallation},
    deadline::ApiCallError,
    writer::NamespacedName,
};
use ludgate_controllers::events::KubernetesEvent;
use serde_json::{Value, json};

use super::{
    annotations::TARGET_LABEL, context::InstallationReconcile, settings::HOME_TARGET,
    target_clusters::Target,
};
use crate::{
    initial::{
        INITIAL_ANNOTATION, INITIAL_DONE_ANNOTATION, InitialScope, InitialStep,
        REJECTED_ANNOTATION, next_step,
    },
    placement::INSTALLS_FROM_ANNOTATION,
};

/// The reason of the Event of a failure.
const FAILED: &str = "ApplicationInstallationFailed";

/// An object with the annotation.
struct Annotated {
    kind: ApiResource,
    /// Whether it is a Namespace, or else the Secret of a target.
    is_namespace: bool,
    reference: ObjectReference,
    version: Option<String>,
    annotations: BTreeMap<String, String>,
    /// The cluster of the apps.
    target: String,
}

impl InstallationReconcile {
    /// Makes the listed apps. `scope` is the only watched namespace; `None`: all are.
    ///
    /// # Errors
    /// The first failure. The annotation stays, and what was made stays. The lists of other objects
    /// do not wait for it.
    pub(super) async fn reconcile_initial(&self, scope: Option<&str>) -> Result<(), ApiCallError> {
        let annotated = self.annotated(scope);
        if annotated.is_empty() {
            return Ok(());
        }
        let definitions = self.stores.all_definitions();
        let installations = self.stores.installations.state();
        let existing: BTreeSet<(String, String)> = installations
            .iter()
            .map(|object| (object.namespace().unwrap_or_default(), object.name_any()))
            .collect();
        let mut result = Ok(());
        for object in annotated {
            let reference = object.reference.clone();
            let made = self
                .initial_apps_of(object, scope, &definitions, existing.clone())
                .await;
            if let Err(error) = &made {
                self.publish_failure(reference, error.to_string());
            }
            result = result.and(made);
        }
        result
    }

    /// Publishes a Warning about an object with the annotation.
    fn publish_failure(&self, mut object: ObjectReference, note: String) {
        // An Event of an object without a namespace would be in the namespace `default`, where the
        // controller has no rights.
        if object.namespace.is_none() {
            object.namespace.clone_from(&object.name);
        }
        self.events.publish(KubernetesEvent {
            object,
            is_warning: true,
            reason: FAILED.to_owned(),
            note,
            // Repeated failures are counted in one Event.
            generation: Some(0),
        });
    }

    /// The Namespaces of the scope and the Secrets of targets that have the annotation.
    fn annotated(&self, scope: Option<&str>) -> Vec<Annotated> {
        let mut found = Vec::new();
        if let Some(Target::Usable(home)) = self.clusters.get(HOME_TARGET) {
            for namespace in home.all_namespaces() {
                let is_watched = scope.is_none_or(|scope| scope == namespace.name_any());
                if is_watched && namespace.annotations().contains_key(INITIAL_ANNOTATION) {
                    found.push(Annotated {
                        kind: ApiResource::erase::<Namespace>(&()),
                        is_namespace: true,
                        reference: namespace.object_ref(&()),
                        version: namespace.resource_version(),
                        annotations: namespace.annotations().clone(),
                        target: HOME_TARGET.to_owned(),
                    });
                }
            }
        }
        for secret in self.stores.secrets.state() {
            let target = secret.labels().get(TARGET_LABEL);
            if let Some(target) = target
                && secret.annotations().contains_key(INITIAL_ANNOTATION)
            {
                found.push(Annotated {
                    kind: ApiResource::erase::<Secret>(&()),
                    is_namespace: false,
                    reference: secret.object_ref(&()),
                    version: secret.resource_version(),
                    annotations: secret.annotations().clone(),
                    target: target.clone(),
                });
            }
        }
        found
    }

    async fn initial_apps_of(
        &self,
        object: Annotated,
        scope: Option<&str>,
        definitions: &[ApplicationDefinition],
        mut existing: BTreeSet<(String, String)>,
    ) -> Result<(), ApiCallError> {
        let target = self.clusters.get(&object.target);
        let is_ready = match target {
            Some(Target::Usable(cluster)) => cluster.is_listed() && !cluster.is_paused,
            Some(Target::Refused(_)) | None => false,
        };
        let permitted = match object.is_namespace {
            true => InitialScope::Namespace(object.reference.name.as_deref().unwrap_or_default()),
            false => InitialScope::Target {
                installs_from: object
                    .annotations
                    .get(INSTALLS_FROM_ANNOTATION)
                    .map(String::as_str),
                default: scope,
            },
        };
        // The second pass finds all of them made.
        for _ in 0..2 {
            let annotations = &object.annotations;
            let step = next_step(annotations, is_ready, definitions, &existing, permitted);
            match step {
                InitialStep::Nothing | InitialStep::Wait => return Ok(()),
                InitialStep::Create(installations) => {
                    for installation in installations {
                        let installation = self.for_target(&object, installation);
                        self.create_installation(&installation).await?;
                        let namespace = installation.namespace().unwrap_or_default();
                        existing.insert((namespace, installation.name_any()));
                    }
                }
                InitialStep::Finish => {
                    let changes = json!({
                        INITIAL_ANNOTATION: null, INITIAL_DONE_ANNOTATION: "true",
                    });
                    return self.annotate(&object, &changes).await;
                }
                InitialStep::Reject { text, reason } => {
                    let note = format!("{INITIAL_ANNOTATION} cannot be read: {reason}");
                    self.publish_failure(object.reference.clone(), note);
                    let changes = json!({
                        INITIAL_ANNOTATION: null, REJECTED_ANNOTATION: text,
                    });
                    return self.annotate(&object, &changes).await;
                }
            }
        }
        Ok(())
    }

    fn for_target(
        &self,
        object: &Annotated,
        mut installation: ApplicationInstallation,
    ) -> ApplicationInstallation {
        if object.target != HOME_TARGET {
            let labels = installation.metadata.labels.get_or_insert_default();
            labels.insert(TARGET_LABEL.to_owned(), object.target.clone());
        }
        installation
    }

    /// Changes annotations, if the object is still the one that was read.
    async fn annotate(&self, object: &Annotated, changes: &Value) -> Result<(), ApiCallError> {
        let patch = json!({ "metadata": {
            "resourceVersion": object.version, "annotations": changes,
        } });
        let namespace = object.reference.namespace.clone().unwrap_or_default();
        let name = object.reference.name.clone().unwrap_or_default();
        let place = NamespacedName {
            namespace: &namespace,
            name: &name,
        };
        self.metrics.wrote();
        self.writer.merge(&object.kind, place, &patch).await?;
        Ok(())
    }
}
