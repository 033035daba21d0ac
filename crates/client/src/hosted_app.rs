//! Apps, templates and groups: what the API sends and receives.

use serde::{Deserialize, Serialize};

/// An app.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HostedApp {
    /// Its name in URLs.
    pub id: String,
    /// Its name for people.
    pub display_name: Option<String>,
    /// The group it belongs to.
    pub group_name: Option<String>,
    /// The name of its template.
    pub app_name: Option<String>,
    /// The version of its template.
    pub app_version: Option<String>,
    /// The instance type.
    pub instance_type: Option<String>,
    /// Who may open it: `public`, `primehub` or `group`.
    pub scope: Option<String>,
    /// The phase.
    pub status: Option<String>,
    /// The reason of the phase.
    pub message: Option<String>,
    /// Where people open it.
    pub app_url: Option<String>,
    /// The variables that people have set.
    pub env: Vec<AppVariable>,
    /// Its pods.
    pub pods: Vec<AppPodName>,
}

/// An environment variable.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub struct AppVariable {
    /// The name.
    pub name: String,
    /// The value.
    pub value: String,
}

/// A pod of an app.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub struct AppPodName {
    /// The name.
    pub name: String,
}

/// A new app.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NewHostedApp {
    /// Its name in URLs.
    pub id: String,
    /// The template.
    pub template_id: String,
    /// The group it belongs to.
    pub group_name: String,
    /// The instance type.
    pub instance_type: String,
    /// Its name for people.
    pub display_name: String,
    /// Who may open it.
    pub scope: String,
    /// Its variables.
    pub env: Vec<AppVariable>,
}

/// A change of an app. What is absent stays as it is.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HostedAppChange {
    /// The instance type.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instance_type: Option<String>,
    /// Its name for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
    /// Who may open it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
    /// All its variables.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub env: Option<Vec<AppVariable>>,
}

/// A template.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OfferedTemplate {
    /// Its name for `create`.
    pub id: String,
    /// Its name for people.
    pub name: Option<String>,
    /// The version.
    pub version: Option<String>,
    /// What it is for.
    pub description: Option<String>,
    /// The variables that a person can set.
    pub default_envs: Vec<OfferedVariable>,
}

/// A variable of a template.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OfferedVariable {
    /// The name. A faulty template lacks it.
    pub name: Option<String>,
    /// The value unless the person gives another one.
    pub default_value: Option<String>,
    /// The app starts without it.
    pub optional: Option<bool>,
    /// What it is for.
    pub description: Option<String>,
}

/// A group of the person, with what its apps can have.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OwnGroup {
    /// The name.
    pub name: String,
    /// The name for people.
    pub display_name: Option<String>,
    /// The instance types that its apps can have.
    pub instance_types: Vec<OfferedSize>,
}

/// An instance type.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OfferedSize {
    /// The name.
    pub name: String,
    /// The most processor time, in cores.
    pub cpu_limit: Option<f64>,
    /// The most memory, in GiB.
    pub memory_limit: Option<f64>,
    /// The number of GPUs.
    pub gpu_limit: Option<i64>,
}
