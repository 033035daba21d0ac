//! The namespace of an app: made and labelled before Helm runs, deleted after it if it was created
//! for the installation and its policy says so.

use k8s_openapi::api::core::v1::Namespace;
use kube::{ResourceExt, api::ApiResource};
use ludgate_cluster::{
    crd::installation_status::CreatedNamespace, deadline::ApiCallError, writer::NamespacedName,
};
use ludgate_controllers::error::ReconcileError;
use serde_json::json;

use super::{
    annotations::CREATED_FOR_ANNOTATION,
    context::InstallationReconcile,
    observe::{Observation, Subject},
    report::earlier_status,
};
use crate::{
    created_namespace::{NamespaceOrigin, begun, created},
    placement::{INSTALLS_FROM_ANNOTATION, PermittedPlacement},
    targets::namespace::field_conflict,
};

/// `Err`: the label or annotation that another writer set, for the status.
pub(super) type Prepared = Result<(), String>;

impl InstallationReconcile {
    /// Makes the namespace if there is none, and gives it the labels and annotations of the
    /// installation, where it may set them. Earlier ones of the installation go. Those of others
    /// stay: `Err` names one that differs.
    ///
    /// # Errors
    /// A call failed.
    pub(super) async fn prepare_namespace(
        &self,
        subject: &mut Subject,
        observation: &Observation,
        permitted: PermittedPlacement,
    ) -> Result<Prepared, ReconcileError> {
        let name = &observation.target_namespace.name;
        let meta = &observation.namespace_meta;
        if !observation.namespace.exists {
            if !self
                .create_namespace(subject, observation, permitted)
                .await?
            {
                // Another writer was faster. The next observation shows the origin.
                return Ok(Ok(()));
            }
            if meta.is_empty() {
                return Ok(Ok(()));
            }
        } else if !self.record_origin(subject, observation).await? {
            // What the installation may set depends on the record.
            return Ok(Ok(()));
        }
        self.metrics.wrote();
        let owner = &observation.release.release;
        match meta.apply(&observation.cluster.writer, owner).await {
            Ok(()) => Ok(Ok(())),
            Err(error) => match field_conflict(&error) {
                Some(conflict) => Ok(Err(format!("namespace \"{name}\": {conflict}"))),
                None => Err(error.into()),
            },
        }
    }

    /// Creates the namespace, and records that. Returns whether it did. The status says first that
    /// it begins, so that a crash leaves no namespace that could be taken for another writer's.
    async fn create_namespace(
        &self,
        subject: &mut Subject,
        observation: &Observation,
        permitted: PermittedPlacement,
    ) -> Result<bool, ReconcileError> {
        let name = &observation.target_namespace.name;
        self.record_created(subject, Some(begun(name))).await?;
        let mut annotations = json!({ CREATED_FOR_ANNOTATION: subject.uid });
        if permitted.is_new_for_all {
            // Any installation of that namespace could have created it.
            let own = subject.installation.namespace().unwrap_or_default();
            annotations[INSTALLS_FROM_ANNOTATION] = own.into();
        }
        // Server-side apply would remove the annotations again with the next call.
        let object = json!({
            "apiVersion": "v1", "kind": "Namespace",
            "metadata": { "name": name, "annotations": annotations },
        });
        let kind = ApiResource::erase::<Namespace>(&());
        self.metrics.wrote();
        match observation.cluster.writer.create(&kind, "", object).await {
            Ok(made) => {
                tracing::info!(namespace = name, "created a namespace");
                let uid = made.uid().unwrap_or_default();
                self.record_created(subject, Some(created(name, &uid)))
                    .await?;
                Ok(true)
            }
            Err(ApiCallError::Api(kube::Error::Api(status))) if status.code == 409 => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Records whether a namespace was created for the installation, after a creation whose end is
    /// not known. Returns whether the record was complete.
    async fn record_origin(
        &self,
        subject: &mut Subject,
        observation: &Observation,
    ) -> Result<bool, ReconcileError> {
        let name = &observation.target_namespace.name;
        match observation.origin {
            NamespaceOrigin::Created | NamespaceOrigin::Other => Ok(true),
            NamespaceOrigin::OtherUnrecorded => {
                self.record_created(subject, None).await?;
                Ok(false)
            }
            NamespaceOrigin::CreatedUnrecorded => {
                let found = observation.cluster.namespace(name);
                let uid = found.and_then(|found| found.uid()).unwrap_or_default();
                self.record_created(subject, Some(created(name, &uid)))
                    .await?;
                Ok(false)
            }
        }
    }

    async fn record_created(
        &self,
        subject: &mut Subject,
        record: Option<CreatedNamespace>,
    ) -> Result<(), ReconcileError> {
        let mut after = earlier_status(subject);
        after.created_namespace = record;
        self.write_status(subject, after).await
    }

    /// Deletes the namespace that was created for the installation.
    pub(super) async fn delete_namespace(
        &self,
        observation: &Observation,
    ) -> Result<(), ReconcileError> {
        let name = &observation.target_namespace.name;
        // Another namespace of this name has another UID.
        let Some(uid) = &observation.created_uid else {
            return Ok(());
        };
        let kind = ApiResource::erase::<Namespace>(&());
        let place = NamespacedName {
            namespace: "",
            name,
        };
        self.metrics.wrote();
        observation.cluster.writer.delete(&kind, place, uid).await?;
        tracing::info!(namespace = name, "deleted a namespace with its app");
        Ok(())
    }
}
