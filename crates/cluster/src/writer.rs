//! Writes to Kubernetes. Only controllers, labs and the API have a [`Writer`].

use std::time::Duration;

use kube::{
    Api, Client,
    api::{
        ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams, Preconditions,
    },
};
use serde_json::Value;

use crate::deadline::{ApiCallError, with_deadline};

/// Deadline of a call.
const DEADLINE: Duration = Duration::from_secs(20);

/// Writes objects of one cluster, as one field manager.
#[derive(Clone)]
pub struct Writer {
    client: Client,
    manager: &'static str,
    /// Server-side apply takes over the given fields from other managers.
    apply: PatchParams,
}

impl Writer {
    /// Writes with this client; `manager` names the owner of the written fields.
    pub fn new(client: Client, manager: &'static str) -> Writer {
        Writer {
            client,
            manager,
            apply: PatchParams::apply(manager).force(),
        }
    }

    /// The owner of the written fields.
    pub fn manager(&self) -> &'static str {
        self.manager
    }

    /// Makes an object; one of this name is not changed.
    ///
    /// # Errors
    /// See [`ApiCallError`]; the API answers 409 if there is an object of this name.
    pub async fn create(
        &self,
        kind: &ApiResource,
        namespace: &str,
        object: Value,
    ) -> Result<DynamicObject, ApiCallError> {
        let object: DynamicObject =
            serde_json::from_value(object).map_err(kube::Error::SerdeError)?;
        let parameters = PostParams {
            field_manager: Some(self.manager.to_owned()),
            ..PostParams::default()
        };
        let name = NamespacedName {
            namespace,
            name: "",
        };
        let api = self.api(kind, name);
        with_deadline(DEADLINE, api.create(&parameters, &object)).await
    }

    /// Makes an object, or sets the given fields of it (server-side apply). Fields that an earlier
    /// call set and this one does not are removed. Other managers lose the given fields.
    ///
    /// # Errors
    /// See [`ApiCallError`].
    pub async fn apply(
        &self,
        kind: &ApiResource,
        name: NamespacedName<'_>,
        object: &Value,
    ) -> Result<DynamicObject, ApiCallError> {
        self.apply_with(&self.apply, kind, name, object).await
    }

    /// Like [`Writer::apply`], but as another field manager, and without taking fields over: other
    /// managers keep theirs.
    ///
    /// # Errors
    /// See [`ApiCallError`]; the API answers 409 if another manager set one of the fields to
    /// another value.
    pub async fn apply_as(
        &self,
        manager: &str,
        kind: &ApiResource,
        name: NamespacedName<'_>,
        object: &Value,
    ) -> Result<DynamicObject, ApiCallError> {
        let parameters = PatchParams::apply(manager);
        self.apply_with(&parameters, kind, name, object).await
    }

    async fn apply_with(
        &self,
        parameters: &PatchParams,
        kind: &ApiResource,
        name: NamespacedName<'_>,
        object: &Value,
    ) -> Result<DynamicObject, ApiCallError> {
        let api = self.api(kind, name);
        let patch = Patch::Apply(object);
        let applied = api.patch(name.name, parameters, &patch);
        with_deadline(DEADLINE, applied).await
    }

    /// Sets the given fields of an object's status, as [`Writer::apply`] does.
    ///
    /// # Errors
    /// See [`ApiCallError`].
    pub async fn apply_status(
        &self,
        kind: &ApiResource,
        name: NamespacedName<'_>,
        object: &Value,
    ) -> Result<DynamicObject, ApiCallError> {
        let api = self.api(kind, name);
        let patch = Patch::Apply(object);
        let applied = api.patch_status(name.name, &self.apply, &patch);
        with_deadline(DEADLINE, applied).await
    }

    /// Changes the given fields of an object and leaves all others (JSON merge patch, RFC 7396).
    ///
    /// # Errors
    /// See [`ApiCallError`].
    pub async fn merge(
        &self,
        kind: &ApiResource,
        name: NamespacedName<'_>,
        patch: &Value,
    ) -> Result<DynamicObject, ApiCallError> {
        let api = self.api(kind, name);
        let parameters = self.merge_parameters();
        let patch = Patch::Merge(patch);
        with_deadline(DEADLINE, api.patch(name.name, &parameters, &patch)).await
    }

    /// Changes the given fields of an object's status, as [`Writer::merge`] does.
    ///
    /// # Errors
    /// See [`ApiCallError`].
    pub async fn merge_status(
        &self,
        kind: &ApiResource,
        name: NamespacedName<'_>,
        patch: &Value,
    ) -> Result<DynamicObject, ApiCallError> {
        let api = self.api(kind, name);
        let parameters = self.merge_parameters();
        let patch = Patch::Merge(patch);
        with_deadline(DEADLINE, api.patch_status(name.name, &parameters, &patch)).await
    }

    /// Deletes the object of this uid; one that is gone already is no error.
    ///
    /// # Errors
    /// See [`ApiCallError`].
    pub async fn delete(
        &self,
        kind: &ApiResource,
        name: NamespacedName<'_>,
        uid: &str,
    ) -> Result<(), ApiCallError> {
        self.delete_with(DeleteParams::background(), kind, name, uid)
            .await
    }

    /// Deletes the object of this uid after all objects whose owner references say that they block
    /// its deletion; one that is gone already is no error.
    ///
    /// # Errors
    /// See [`ApiCallError`].
    pub async fn delete_foreground(
        &self,
        kind: &ApiResource,
        name: NamespacedName<'_>,
        uid: &str,
    ) -> Result<(), ApiCallError> {
        self.delete_with(DeleteParams::foreground(), kind, name, uid)
            .await
    }

    /// Deletes the object of this uid; the containers of a pod have this many seconds to end. One
    /// that is gone already is no error.
    ///
    /// # Errors
    /// See [`ApiCallError`].
    pub async fn delete_within(
        &self,
        kind: &ApiResource,
        name: NamespacedName<'_>,
        uid: &str,
        grace_seconds: u32,
    ) -> Result<(), ApiCallError> {
        let parameters = DeleteParams::background().grace_period(grace_seconds);
        self.delete_with(parameters, kind, name, uid).await
    }

    async fn delete_with(
        &self,
        parameters: DeleteParams,
        kind: &ApiResource,
        name: NamespacedName<'_>,
        uid: &str,
    ) -> Result<(), ApiCallError> {
        let preconditions = Preconditions {
            uid: Some(uid.to_owned()),
            ..Preconditions::default()
        };
        let parameters = parameters.preconditions(preconditions);
        let api = self.api(kind, name);
        match with_deadline(DEADLINE, api.delete(name.name, &parameters)).await {
            Err(ApiCallError::Api(kube::Error::Api(status))) if status.is_not_found() => Ok(()),
            other => other.map(|_| ()),
        }
    }

    /// Reads an object; `None`: there is none.
    ///
    /// # Errors
    /// See [`ApiCallError`].
    pub async fn get(
        &self,
        kind: &ApiResource,
        name: NamespacedName<'_>,
    ) -> Result<Option<DynamicObject>, ApiCallError> {
        let api = self.api(kind, name);
        with_deadline(DEADLINE, api.get_opt(name.name)).await
    }

    fn merge_parameters(&self) -> PatchParams {
        PatchParams {
            field_manager: Some(self.manager.to_owned()),
            ..PatchParams::default()
        }
    }

    fn api(&self, kind: &ApiResource, name: NamespacedName<'_>) -> Api<DynamicObject> {
        match name.namespace.is_empty() {
            true => Api::all_with(self.client.clone(), kind),
            false => Api::namespaced_with(self.client.clone(), name.namespace, kind),
        }
    }
}

/// The namespace and name of an object.
#[derive(Clone, Copy, Debug)]
pub struct NamespacedName<'a> {
    /// The namespace; empty: the object has none, such as a namespace itself.
    pub namespace: &'a str,
    /// The name.
    pub name: &'a str,
}
