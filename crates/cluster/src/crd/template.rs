//! `PhAppTemplate`: what a person picks from when they make an app.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::schema::whole;

/// A kind of app that people can make.
#[derive(Clone, CustomResource, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[kube(
    group = "primehub.io",
    version = "v1alpha1",
    kind = "PhAppTemplate",
    plural = "phapptemplates",
    namespaced,
    doc = "A kind of app that people can make.",
    printcolumn = r#"{"name":"Name","type":"string","jsonPath":".spec.name"}"#,
    printcolumn = r#"{"name":"Version","type":"string","jsonPath":".spec.version"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct PhAppTemplateSpec {
    /// The name people see.
    pub name: String,
    /// What it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Which version of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Where to read about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub doc_link: Option<String>,
    /// A picture.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub icon: Option<String>,
    /// What a person may be asked when they make one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_envs: Option<Vec<DefaultEnv>>,
    /// The app that is made.
    pub template: Template,
}

/// An environment variable that a person may set.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DefaultEnv {
    /// Its name.
    pub name: String,
    /// What it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Its default value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_value: Option<String>,
    /// Whether it may be left empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub optional: Option<bool>,
}

/// The app that is made of a template.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Template {
    /// Parts of a `PhApplication`'s spec.
    #[schemars(schema_with = "whole")]
    pub spec: Value,
}
