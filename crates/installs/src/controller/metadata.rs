//! Writes to installations outside of their status: the finalizer, the namespace and target that
//! they are bound to, the interval of their definition, and their deletion.

use kube::{Resource, ResourceExt};
use ludgate_cluster::{crd::installation::CLEANUP_FINALIZER, writer::NamespacedName};
use ludgate_controllers::{error::ReconcileError, events::KubernetesEvent};
use serde_json::{Value, json};

use super::{
    annotations::BOUND_TARGET_ANNOTATION,
    context::InstallationReconcile,
    observe::{Observation, Subject},
};
use crate::withdrawal::Withdrawal;

impl InstallationReconcile {
    /// Adds the finalizer, and binds the installation to its target.
    pub(super) async fn add_finalizer(&self, subject: &Subject) -> Result<(), ReconcileError> {
        let mut finalizers = subject.installation.finalizers().to_vec();
        finalizers.push(CLEANUP_FINALIZER.to_owned());
        let patch = json!({ "metadata": {
            "resourceVersion": subject.installation.resource_version(),
            "finalizers": finalizers,
            "annotations": { BOUND_TARGET_ANNOTATION: subject.target() },
        } });
        self.merge(subject, &patch).await
    }

    /// Lets a deleted installation go.
    pub(super) async fn remove_finalizer(&self, subject: &Subject) -> Result<(), ReconcileError> {
        let mut finalizers = subject.installation.finalizers().to_vec();
        finalizers.retain(|finalizer| finalizer != CLEANUP_FINALIZER);
        // The list is replaced as a whole, so it must be that of the current object.
        let patch = json!({ "metadata": {
            "resourceVersion": subject.installation.resource_version(),
            "finalizers": finalizers,
        } });
        self.merge(subject, &patch).await
    }

    /// Writes the namespace of the app to the spec, if the author named none: it would otherwise
    /// change with the definition. Returns whether something was written.
    pub(super) async fn pin_namespace(
        &self,
        subject: &Subject,
        observation: &Observation,
    ) -> Result<bool, ReconcileError> {
        let spec = &subject.installation.spec;
        let is_named = spec
            .namespace
            .as_ref()
            .is_some_and(|namespace| !namespace.name.is_empty());
        let is_deleted = subject.installation.meta().deletion_timestamp.is_some();
        if is_named || is_deleted || observation.definition.is_none() {
            return Ok(false);
        }
        let patch = json!({ "spec": { "namespace": observation.target_namespace } });
        self.merge(subject, &patch).await?;
        Ok(true)
    }

    /// Writes the interval of the definition to the spec.
    pub(super) async fn set_interval(
        &self,
        subject: &Subject,
        interval: &str,
    ) -> Result<(), ReconcileError> {
        let patch = json!({ "spec": { "reconciliationInterval": interval } });
        self.merge(subject, &patch).await
    }

    /// Deletes an installation whose version is withdrawn.
    pub(super) async fn delete_installation(
        &self,
        subject: &Subject,
        withdrawal: Withdrawal,
    ) -> Result<(), ReconcileError> {
        let message = withdrawal.message(&subject.installation);
        self.publish_warning(subject, withdrawal.reason(), &message);
        let (namespace, name) = place(subject);
        let place = NamespacedName {
            namespace: &namespace,
            name: &name,
        };
        let kind = &self.stores.kinds.installations;
        self.metrics.wrote();
        self.writer.delete(kind, place, &subject.uid).await?;
        tracing::info!(installation = subject.key, message, "deleted");
        Ok(())
    }

    /// Publishes a Warning about an installation.
    pub(super) fn publish_warning(&self, subject: &Subject, reason: &str, note: &str) {
        self.events.publish(KubernetesEvent {
            object: subject.installation.object_ref(&()),
            is_warning: true,
            reason: reason.to_owned(),
            note: note.to_owned(),
            generation: subject.installation.metadata.generation,
        });
    }

    async fn merge(&self, subject: &Subject, patch: &Value) -> Result<(), ReconcileError> {
        let (namespace, name) = place(subject);
        let place = NamespacedName {
            namespace: &namespace,
            name: &name,
        };
        let kind = &self.stores.kinds.installations;
        self.metrics.wrote();
        self.writer.merge(kind, place, patch).await?;
        Ok(())
    }
}

/// The namespace and name of an installation.
pub(super) fn place(subject: &Subject) -> (String, String) {
    let installation = &subject.installation;
    (
        installation.namespace().unwrap_or_default(),
        installation.name_any(),
    )
}
