//! An object of the API, read as little as is needed: nothing in it makes it unreadable, and of what is large and of
//! no use here nothing is kept.

use std::{borrow::Cow, collections::BTreeMap};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Resource, api::ApiResource};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// An object. What it does not have is null.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Object {
    /// Name, version, labels and annotations; nothing else of it is read.
    #[serde(deserialize_with = "essentials")]
    metadata: ObjectMeta,
    /// What is wanted.
    pub spec: Value,
    /// What is.
    pub status: Value,
    /// Of an EndpointSlice.
    pub address_type: Value,
    /// Of an EndpointSlice.
    pub endpoints: Value,
    /// Of an EndpointSlice.
    pub ports: Value,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Essentials {
    name: Option<String>,
    namespace: Option<String>,
    resource_version: Option<String>,
    labels: Option<BTreeMap<String, String>>,
    annotations: Option<BTreeMap<String, String>>,
}

/// Without `managedFields`, which are often half of an object.
fn essentials<'de, D: Deserializer<'de>>(from: D) -> Result<ObjectMeta, D::Error> {
    let Essentials { name, namespace, resource_version, labels, annotations } =
        Essentials::deserialize(from)?;
    Ok(ObjectMeta { name, namespace, resource_version, labels, annotations, ..ObjectMeta::default() })
}

impl Resource for Object {
    type DynamicType = ApiResource;
    type Scope = kube::core::DynamicResourceScope;

    fn kind(kind: &ApiResource) -> Cow<'_, str> {
        Cow::Borrowed(&kind.kind)
    }

    fn group(kind: &ApiResource) -> Cow<'_, str> {
        Cow::Borrowed(&kind.group)
    }

    fn version(kind: &ApiResource) -> Cow<'_, str> {
        Cow::Borrowed(&kind.version)
    }

    fn api_version(kind: &ApiResource) -> Cow<'_, str> {
        Cow::Borrowed(&kind.api_version)
    }

    fn plural(kind: &ApiResource) -> Cow<'_, str> {
        Cow::Borrowed(&kind.plural)
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}
