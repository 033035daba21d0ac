//! Definitions and installations in clusters.

use std::time::Duration;

use kube::{
    Api, Client, Resource, ResourceExt,
    api::{ApiResource, DynamicObject, ListParams},
};
use ludgate_cluster::{
    crd::{definition::ApplicationDefinition, installation::ApplicationInstallation},
    deadline::{ApiCallError, with_deadline},
    merge_patch,
    writer::{NamespacedName, Writer},
};
use ludgate_installs::resource_json::error::ResourceError;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value, json};

use super::{answer::from_cluster, call::InstallationName};

/// Deadline of a read.
const DEADLINE: Duration = Duration::from_secs(6);
/// Definitions in messages, as Kubernetes names them in its own.
pub(super) const DEFINITIONS: &str = "applicationdefinitions.apps.kubermatic.k8c.io";
/// Installations in messages.
pub(super) const INSTALLATIONS: &str = "applicationinstallations.apps.kubermatic.k8c.io";

/// All definitions, by name.
///
/// # Errors
/// The cluster does not answer, or refuses to.
pub(super) async fn definitions(
    client: &Client,
) -> Result<Vec<ApplicationDefinition>, ResourceError> {
    list(Api::all_with(
        client.clone(),
        &kind::<ApplicationDefinition>(),
    ))
    .await
}

/// A definition; `None`: there is none.
///
/// # Errors
/// The cluster does not answer, or the object cannot be read.
pub(super) async fn definition(
    client: &Client,
    name: &str,
) -> Result<Option<ApplicationDefinition>, ResourceError> {
    let api = Api::all_with(client.clone(), &kind::<ApplicationDefinition>());
    find(api, DEFINITIONS, name).await
}

/// The installations of a namespace; `None`: of all.
///
/// # Errors
/// The cluster does not answer, or refuses to.
pub(super) async fn installations(
    client: &Client,
    namespace: Option<&str>,
) -> Result<Vec<ApplicationInstallation>, ResourceError> {
    let kind = kind::<ApplicationInstallation>();
    list(match namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &kind),
        None => Api::all_with(client.clone(), &kind),
    })
    .await
}

/// An installation; `None`: there is none.
///
/// # Errors
/// The cluster does not answer, or the object cannot be read.
pub(super) async fn installation(
    client: &Client,
    name: &InstallationName,
) -> Result<Option<ApplicationInstallation>, ResourceError> {
    let kind = kind::<ApplicationInstallation>();
    let api = Api::namespaced_with(client.clone(), &name.namespace, &kind);
    find(api, INSTALLATIONS, &name.name).await
}

/// Makes an object.
///
/// # Errors
/// See [`ApiCallError`]; 404: its namespace does not exist.
pub(super) async fn create<K>(writer: &Writer, object: &K) -> Result<K, ApiCallError>
where
    K: Resource<DynamicType = ()> + Serialize + DeserializeOwned,
{
    let namespace = object.namespace().unwrap_or_default();
    let value = serde_json::to_value(object).map_err(kube::Error::SerdeError)?;
    let created = writer.create(&kind::<K>(), &namespace, value).await?;
    typed(created)
}

/// Makes a namespace.
///
/// # Errors
/// See [`ApiCallError`].
pub(super) async fn create_namespace(writer: &Writer, name: &str) -> Result<(), ApiCallError> {
    let kind = kind::<k8s_openapi::api::core::v1::Namespace>();
    let object = json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name },
    });
    writer.create(&kind, "", object).await?;
    Ok(())
}

/// Makes the second object of the first. Fields that this program does not know stay.
///
/// # Errors
/// See [`ApiCallError`]; 409: the object is another version by now.
pub(super) async fn change<K>(writer: &Writer, before: &K, after: &K) -> Result<K, ApiCallError>
where
    K: Resource<DynamicType = ()> + Serialize + DeserializeOwned,
{
    let namespace = before.namespace().unwrap_or_default();
    let name = before.name_any();
    let name = NamespacedName {
        namespace: &namespace,
        name: &name,
    };
    let patch = patch(before, after);
    typed(writer.merge(&kind::<K>(), name, &patch).await?)
}

/// Deletes an object, unless there is another one of its name by now.
///
/// # Errors
/// See [`ApiCallError`].
pub(super) async fn delete<K>(writer: &Writer, object: &K) -> Result<(), ApiCallError>
where
    K: Resource<DynamicType = ()>,
{
    let namespace = object.namespace().unwrap_or_default();
    let name = object.name_any();
    let uid = object.uid().unwrap_or_default();
    let name = NamespacedName {
        namespace: &namespace,
        name: &name,
    };
    writer.delete(&kind::<K>(), name, &uid).await
}

/// The merge patch of labels, annotations and spec.
fn patch(before: &impl Serialize, after: &impl Serialize) -> Value {
    let before = serde_json::to_value(before).unwrap_or_default();
    let after = serde_json::to_value(after).unwrap_or_default();
    let between = |pointer: &str| {
        let part = |object: &Value| match object.pointer(pointer) {
            None | Some(Value::Null) => Value::Object(Map::new()),
            Some(part) => part.clone(),
        };
        merge_patch::between(&part(&before), &part(&after))
    };
    json!({
        "metadata": {
            "resourceVersion": before["metadata"]["resourceVersion"],
            "labels": between("/metadata/labels"),
            "annotations": between("/metadata/annotations"),
        },
        "spec": between("/spec"),
    })
}

fn kind<K: Resource<DynamicType = ()>>() -> ApiResource {
    ApiResource::erase::<K>(&())
}

fn typed<K: DeserializeOwned>(object: DynamicObject) -> Result<K, ApiCallError> {
    let value = serde_json::to_value(object).and_then(serde_json::from_value);
    Ok(value.map_err(kube::Error::SerdeError)?)
}

/// Objects that cannot be read are left out: one of them must not hide all others.
async fn list<K: DeserializeOwned>(api: Api<DynamicObject>) -> Result<Vec<K>, ResourceError> {
    let parameters = ListParams::default();
    let listed = with_deadline(DEADLINE, api.list(&parameters)).await;
    let listed = listed.map_err(from_cluster)?;
    let read = |object: DynamicObject| {
        let name = object.name_any();
        match typed(object) {
            Ok(object) => Some(object),
            Err(error) => {
                tracing::warn!(name, %error, "an object is not listed");
                None
            }
        }
    };
    Ok(listed.items.into_iter().filter_map(read).collect())
}

async fn find<K: DeserializeOwned>(
    api: Api<DynamicObject>,
    resource: &str,
    name: &str,
) -> Result<Option<K>, ResourceError> {
    let found = with_deadline(DEADLINE, api.get_opt(name)).await;
    let Some(object) = found.map_err(from_cluster)? else {
        return Ok(None);
    };
    let read = typed(object).map_err(|error| {
        tracing::warn!(name, %error, "an object cannot be read");
        ResourceError::new(500, format!("{resource} \"{name}\" cannot be read"))
    });
    read.map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_patch_is_for_one_version_and_has_labels_annotations_and_spec() {
        let before = json!({
            "metadata": { "resourceVersion": "7", "labels": { "a": "1", "b": "2" } },
            "spec": { "x": 1, "y": { "z": 1 } },
            "status": { "s": 1 },
        });
        let after = json!({
            "metadata": { "resourceVersion": "7", "labels": { "a": "1" }, "annotations": { "c": "3" } },
            "spec": { "y": { "z": 2 } },
            "status": { "s": 2 },
        });
        let wanted = json!({
            "metadata": {
                "resourceVersion": "7",
                "labels": { "a": "1", "b": null },
                "annotations": { "c": "3" },
            },
            "spec": { "x": null, "y": { "z": 2 } },
        });
        assert_eq!(patch(&before, &after), wanted);
    }
}
