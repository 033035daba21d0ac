//! Writes to Kubernetes. Only controllers have a [`Writer`].

use std::time::Duration;

use kube::{
    Api, Client,
    api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, Preconditions},
};
use serde_json::Value;
use tokio::time::timeout;

/// Deadline of a call. The caller tries again, so a hanging connection must not block it.
const DEADLINE: Duration = Duration::from_secs(20);

/// The reasons for which a write fails.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The API did not answer in time; the write may have taken effect.
    #[error("no answer from the Kubernetes API in {} seconds", DEADLINE.as_secs())]
    Timeout,
    /// The API refused, or cannot be reached.
    #[error(transparent)]
    Api(#[from] kube::Error),
}

/// Writes objects of one cluster, as one field manager.
#[derive(Clone)]
pub struct Writer {
    client: Client,
    manager: &'static str,
}

impl Writer {
    /// Writes with this client; `manager` names the owner of the written fields.
    pub fn new(client: Client, manager: &'static str) -> Writer {
        Writer { client, manager }
    }

    /// Makes an object, or sets the given fields of it (server-side apply). Fields that an earlier
    /// call set and this one does not are removed. Other managers lose the given fields.
    ///
    /// # Errors
    /// See [`WriteError`].
    pub async fn apply(
        &self,
        kind: &ApiResource,
        name: NamespacedName<'_>,
        object: &Value,
    ) -> Result<DynamicObject, WriteError> {
        let parameters = PatchParams::apply(self.manager).force();
        let api = self.api(kind, name);
        let patch = Patch::Apply(object);
        bounded(api.patch(name.name, &parameters, &patch)).await
    }

    /// Sets the given fields of an object's status, as [`Writer::apply`] does.
    ///
    /// # Errors
    /// See [`WriteError`].
    pub async fn apply_status(
        &self,
        kind: &ApiResource,
        name: NamespacedName<'_>,
        object: &Value,
    ) -> Result<DynamicObject, WriteError> {
        let parameters = PatchParams::apply(self.manager).force();
        let api = self.api(kind, name);
        let patch = Patch::Apply(object);
        bounded(api.patch_status(name.name, &parameters, &patch)).await
    }

    /// Changes the given fields of an object and leaves all others (JSON merge patch, RFC 7396).
    ///
    /// # Errors
    /// See [`WriteError`].
    pub async fn merge(
        &self,
        kind: &ApiResource,
        name: NamespacedName<'_>,
        patch: &Value,
    ) -> Result<DynamicObject, WriteError> {
        let parameters = PatchParams {
            field_manager: Some(self.manager.to_owned()),
            ..PatchParams::default()
        };
        let api = self.api(kind, name);
        bounded(api.patch(name.name, &parameters, &Patch::Merge(patch))).await
    }

    /// Deletes the object of this uid; one that is gone already is no error.
    ///
    /// # Errors
    /// See [`WriteError`].
    pub async fn delete(
        &self,
        kind: &ApiResource,
        name: NamespacedName<'_>,
        uid: &str,
    ) -> Result<(), WriteError> {
        let preconditions = Preconditions {
            uid: Some(uid.to_owned()),
            ..Preconditions::default()
        };
        let parameters = DeleteParams::background().preconditions(preconditions);
        let api = self.api(kind, name);
        match bounded(api.delete(name.name, &parameters)).await {
            Err(WriteError::Api(kube::Error::Api(status))) if status.is_not_found() => Ok(()),
            other => other.map(|_| ()),
        }
    }

    /// Reads an object; `None`: there is none.
    ///
    /// # Errors
    /// See [`WriteError`].
    pub async fn get(
        &self,
        kind: &ApiResource,
        name: NamespacedName<'_>,
    ) -> Result<Option<DynamicObject>, WriteError> {
        let api = self.api(kind, name);
        bounded(api.get_opt(name.name)).await
    }

    fn api(&self, kind: &ApiResource, name: NamespacedName<'_>) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), name.namespace, kind)
    }
}

/// The namespace and name of an object.
#[derive(Clone, Copy, Debug)]
pub struct NamespacedName<'a> {
    /// The namespace.
    pub namespace: &'a str,
    /// The name.
    pub name: &'a str,
}

async fn bounded<T>(call: impl Future<Output = kube::Result<T>>) -> Result<T, WriteError> {
    match timeout(DEADLINE, call).await {
        Ok(result) => Ok(result?),
        Err(_elapsed) => Err(WriteError::Timeout),
    }
}
