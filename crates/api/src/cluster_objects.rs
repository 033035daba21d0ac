//! The objects in the cluster: apps, templates, instance types, datasets and pods. This is the only
//! part of the API that calls Kubernetes, besides logs.

use std::{collections::BTreeSet, time::Duration};

use k8s_openapi::api::core::v1::{Pod, Service};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{ApiResource, DynamicObject, ListParams},
    core::GroupVersionKind,
};
use ludgate_cluster::{
    Cluster,
    crd::{application::PhApplication, template::PhAppTemplate},
    deadline::{ApiCallError, with_deadline},
    merge_patch,
    writer::{NamespacedName, Writer},
};
use ludgate_controllers::application::app::child_name;
use serde_json::{Value, json};

use crate::{
    app_record::AppRecord,
    error::OperationError,
    platform::{OfferedInstanceType, PlatformSettings},
    template_import::ImportedTemplate,
};

/// Deadline of a read; a request with several must end in ten seconds.
const DEADLINE: Duration = Duration::from_secs(6);
/// Owner of the fields that the API writes.
const FIELD_MANAGER: &str = "ludgate-api";
/// Label of the pods of all apps.
const POD_LABEL: &str = "app=primehub-app";
/// The kind in messages, as Kubernetes has it in its own.
const APPS: &str = "phapplications.primehub.io";
/// The kind in messages.
const TEMPLATES: &str = "phapptemplates.primehub.io";

/// Reads and writes objects.
#[derive(Clone)]
pub struct ClusterObjects {
    client: Client,
    writer: Writer,
    namespaces: Vec<String>,
    apps: ApiResource,
    services: ApiResource,
    templates: ApiResource,
    instance_types: ApiResource,
    datasets: ApiResource,
}

/// A pod of an app.
#[derive(Clone, Debug)]
pub struct AppPod {
    /// Value of the label with the app.
    pub app_label: String,
    /// Its name.
    pub name: String,
}

/// A dataset.
#[derive(Clone, Debug)]
pub struct DatasetRecord {
    /// Its name.
    pub name: String,
    /// The spec of its object.
    pub spec: Value,
}

/// An app that does not exist, or that a person may not see.
pub fn no_app(id: &str) -> OperationError {
    OperationError::NotFound {
        kind: APPS,
        name: id.to_owned(),
    }
}

/// A template that does not exist.
pub fn no_template(id: &str) -> OperationError {
    OperationError::NotFound {
        kind: TEMPLATES,
        name: id.to_owned(),
    }
}

impl ClusterObjects {
    /// The objects in the namespaces of a cluster. New apps get into the first.
    pub fn new(cluster: &Cluster) -> ClusterObjects {
        let kind = |name: &str, plural: &str| {
            let kind = GroupVersionKind::gvk("primehub.io", "v1alpha1", name);
            ApiResource::from_gvk_with_plural(&kind, plural)
        };
        ClusterObjects {
            client: cluster.client().clone(),
            writer: Writer::new(cluster.client().clone(), FIELD_MANAGER),
            namespaces: cluster.settings().namespaces.clone(),
            apps: ApiResource::erase::<PhApplication>(&()),
            services: ApiResource::erase::<Service>(&()),
            templates: ApiResource::erase::<PhAppTemplate>(&()),
            instance_types: kind("InstanceType", "instancetypes"),
            datasets: kind("Dataset", "datasets"),
        }
    }

    /// The namespace of new apps.
    pub fn home(&self) -> &str {
        self.namespaces.first().map_or("", String::as_str)
    }

    /// All apps. Of two with one name, the first namespace's counts, as in the gateway.
    ///
    /// # Errors
    /// See [`OperationError`].
    pub async fn apps(&self) -> Result<Vec<AppRecord>, OperationError> {
        let objects = self.list(&self.apps).await?;
        Ok(objects.iter().map(AppRecord::from_object).collect())
    }

    /// An app by its name, in any of the namespaces.
    ///
    /// # Errors
    /// [`OperationError::NotFound`], and others.
    pub async fn app(&self, id: &str) -> Result<AppRecord, OperationError> {
        match self.find(&self.apps, id).await? {
            Some(object) => Ok(AppRecord::from_object(&object)),
            None => Err(no_app(id)),
        }
    }

    /// An app of one of the namespaces; `None`: there is none.
    ///
    /// # Errors
    /// See [`OperationError`].
    pub async fn app_in(
        &self,
        namespace: &str,
        id: &str,
    ) -> Result<Option<AppRecord>, OperationError> {
        let found = self.find_in(&self.apps, namespace, id).await?;
        Ok(found.as_ref().map(AppRecord::from_object))
    }

    /// Makes an app.
    ///
    /// # Errors
    /// [`OperationError::Conflict`] if there is one of this name in any of the namespaces, or a
    /// Service of another program where the app's would be; and others.
    pub async fn create_app(&self, id: &str, object: Value) -> Result<AppRecord, OperationError> {
        // The name is the address of an app. Of two apps with one name, the gateway serves the one
        // of the first namespace.
        if self.find(&self.apps, id).await?.is_some() {
            let text = format!("{APPS} \"{id}\" already exists");
            return Err(OperationError::Conflict(text));
        }
        self.check_service(id).await?;
        let created = self.writer.create(&self.apps, self.home(), object).await?;
        Ok(AppRecord::from_object(&created))
    }

    /// Refuses an app whose Service would have the name of another program's. The gateway sends
    /// requests for an app to the pods of the Service of that name.
    async fn check_service(&self, id: &str) -> Result<(), OperationError> {
        let name = child_name(id);
        let service = self.find_in(&self.services, self.home(), &name).await?;
        let is_of_app = |service: &DynamicObject| {
            let mut owners = service.owner_references().iter();
            owners.any(|owner| owner.kind == PhApplication::kind(&()))
        };
        match service {
            Some(service) if !is_of_app(&service) => {
                let text = format!("a Service \"{name}\" of another program already exists");
                Err(OperationError::Conflict(text))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Changes fields of an app (JSON merge patch).
    ///
    /// # Errors
    /// [`OperationError::Conflict`] if the patch is for another version, and others.
    pub async fn patch_app(
        &self,
        app: &AppRecord,
        patch: &Value,
    ) -> Result<AppRecord, OperationError> {
        let changed = self.writer.merge(&self.apps, name_of(app), patch).await;
        match changed {
            Ok(object) => Ok(AppRecord::from_object(&object)),
            Err(error) if is_not_found(&error) => Err(no_app(&app.id)),
            Err(error) => Err(error.into()),
        }
    }

    /// Deletes an app; its objects follow.
    ///
    /// # Errors
    /// See [`OperationError`]. An app that is gone already is no error.
    pub async fn delete_app(&self, app: &AppRecord) -> Result<(), OperationError> {
        let deleted = self.writer.delete(&self.apps, name_of(app), &app.uid);
        Ok(deleted.await?)
    }

    /// All templates, as objects.
    ///
    /// # Errors
    /// See [`OperationError`].
    pub async fn templates(&self) -> Result<Vec<Value>, OperationError> {
        let objects = self.list(&self.templates).await?;
        Ok(objects.iter().map(template_value).collect())
    }

    /// A template by its name, as an object.
    ///
    /// # Errors
    /// [`OperationError::NotFound`], and others.
    pub async fn template(&self, id: &str) -> Result<Value, OperationError> {
        match self.find(&self.templates, id).await? {
            Some(object) => Ok(template_value(&object)),
            None => Err(no_template(id)),
        }
    }

    /// Makes a template.
    ///
    /// # Errors
    /// [`OperationError::Conflict`] if there is one of this name, and others.
    pub async fn create_template(
        &self,
        template: &ImportedTemplate,
    ) -> Result<Value, OperationError> {
        let object = json!({
            "apiVersion": "primehub.io/v1alpha1",
            "kind": "PhAppTemplate",
            "metadata": { "name": template.name, "namespace": self.home() },
            "spec": template.spec,
        });
        let created = self.writer.create(&self.templates, self.home(), object);
        Ok(template_value(&created.await?))
    }

    /// Replaces the spec of the template of this name.
    ///
    /// # Errors
    /// [`OperationError::NotFound`], [`OperationError::Conflict`] if others change it at the same
    /// time, and others.
    pub async fn replace_template(
        &self,
        template: &ImportedTemplate,
    ) -> Result<Value, OperationError> {
        let Some(stored) = self.find(&self.templates, &template.name).await? else {
            return Err(no_template(&template.name));
        };
        let patch = json!({
            "metadata": { "resourceVersion": stored.resource_version() },
            "spec": merge_patch::between(&stored.data["spec"], &template.spec),
        });
        let namespace = stored.namespace().unwrap_or_default();
        let name = NamespacedName {
            namespace: &namespace,
            name: &template.name,
        };
        let changed = self.writer.merge(&self.templates, name, &patch).await?;
        Ok(template_value(&changed))
    }

    /// The instance types of the cluster and of the configuration, by name. Those of the cluster
    /// take precedence, as in the controller.
    ///
    /// # Errors
    /// See [`OperationError`].
    pub async fn instance_types(
        &self,
        platform: &PlatformSettings,
    ) -> Result<Vec<OfferedInstanceType>, OperationError> {
        let mut offered = Vec::new();
        for object in self.list(&self.instance_types).await? {
            match OfferedInstanceType::from_object(&object.name_any(), &object.data["spec"]) {
                Ok(instance_type) => offered.push(instance_type),
                Err(error) => tracing::warn!(error, "an instance type is not offered"),
            }
        }
        let names: BTreeSet<String> = offered.iter().map(|it| it.size.name.clone()).collect();
        let of_file = platform.instance_types.values();
        let others = of_file.filter(|it| !names.contains(&it.name));
        offered.extend(others.map(OfferedInstanceType::from_settings));
        offered.sort_by(|one, other| one.size.name.cmp(&other.size.name));
        Ok(offered)
    }

    /// The datasets of the cluster.
    ///
    /// # Errors
    /// See [`OperationError`].
    pub async fn datasets(&self) -> Result<Vec<DatasetRecord>, OperationError> {
        let objects = self.list(&self.datasets).await?;
        let record = |object: &DynamicObject| DatasetRecord {
            name: object.name_any(),
            spec: object.data["spec"].clone(),
        };
        Ok(objects.iter().map(record).collect())
    }

    /// The pods of all apps; those that stay first, and the newest of them first.
    ///
    /// # Errors
    /// See [`OperationError`].
    pub async fn pods(&self) -> Result<Vec<AppPod>, OperationError> {
        let mut pods = Vec::new();
        for namespace in &self.namespaces {
            let api: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
            let parameters = ListParams::default().labels(POD_LABEL);
            let listed = with_deadline(DEADLINE, api.list_metadata(&parameters)).await?;
            pods.extend(listed.items);
        }
        pods.sort_by_key(|pod| {
            let created = pod.metadata.creation_timestamp.clone();
            (
                pod.metadata.deletion_timestamp.is_some(),
                std::cmp::Reverse(created),
            )
        });
        let pod = |pod: &kube::core::PartialObjectMeta<Pod>| {
            let label = pod
                .labels()
                .get(ludgate_cluster::crd::application::APP_LABEL)?;
            Some(AppPod {
                app_label: label.clone(),
                name: pod.name_any(),
            })
        };
        Ok(pods.iter().filter_map(pod).collect())
    }

    /// All objects of a kind; none if the cluster does not know the kind.
    async fn list(&self, kind: &ApiResource) -> Result<Vec<DynamicObject>, OperationError> {
        let mut all: Vec<DynamicObject> = Vec::new();
        let mut names = BTreeSet::new();
        for namespace in &self.namespaces {
            let (api, parameters) = (self.api(kind, namespace), ListParams::default());
            let listed = match with_deadline(DEADLINE, api.list(&parameters)).await {
                Ok(listed) => listed.items,
                Err(error) if is_not_found(&error) => Vec::new(),
                Err(error) => return Err(error.into()),
            };
            all.extend(listed.into_iter().filter(|it| names.insert(it.name_any())));
        }
        Ok(all)
    }

    async fn find(
        &self,
        kind: &ApiResource,
        name: &str,
    ) -> Result<Option<DynamicObject>, OperationError> {
        for namespace in &self.namespaces {
            let found = self.find_in(kind, namespace, name).await?;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    async fn find_in(
        &self,
        kind: &ApiResource,
        namespace: &str,
        name: &str,
    ) -> Result<Option<DynamicObject>, OperationError> {
        if !is_object_name(name) {
            return Ok(None);
        }
        let api = self.api(kind, namespace);
        Ok(with_deadline(DEADLINE, api.get_opt(name)).await?)
    }

    fn api(&self, kind: &ApiResource, namespace: &str) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), namespace, kind)
    }
}

fn name_of(app: &AppRecord) -> NamespacedName<'_> {
    NamespacedName {
        namespace: &app.namespace,
        name: &app.id,
    }
}

fn is_not_found(error: &ApiCallError) -> bool {
    matches!(error, ApiCallError::Api(kube::Error::Api(status)) if status.code == 404)
}

/// Whether an object can have this name. It becomes a part of a URL.
fn is_object_name(name: &str) -> bool {
    let is_allowed = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.');
    (1..=253).contains(&name.len()) && name.bytes().all(is_allowed) && name != "." && name != ".."
}

/// A template as an object: its name and its spec.
fn template_value(object: &DynamicObject) -> Value {
    json!({
        "metadata": { "name": object.name_any() },
        "spec": object.data["spec"],
    })
}
