//! `PhApplication`: a pod and a service to make, and who may reach them.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::schema::whole;
use crate::conditions::{self, Condition};

/// Prefix of the name of an app's Service.
pub const SERVICE_PREFIX: &str = "app-";
/// Label of a pod with the name of its PhApplication, or of that app's Service.
pub const APP_LABEL: &str = "primehub.io/phapplication";
/// Annotation with `true`: the app gets a signed token that names the person.
pub const ASSERTION_ANNOTATION: &str = "ludgate/assertion";
/// Annotation with an access rule, in place of the scope: a JSON text.
pub const ACCESS_ANNOTATION: &str = "ludgate/access";
/// Paths of the logs of an app's pods; consoles use either.
pub const LOG_PATHS: [&str; 2] = ["/api/logs/pods/", "/api/logs/phapplications/"];

/// The app to run, and its access rule.
///
/// The scope is a text and no list of values: one that is not known must reach the gateway, which
/// denies it.
#[derive(Clone, CustomResource, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[kube(
    group = "primehub.io",
    version = "v1alpha1",
    kind = "PhApplication",
    plural = "phapplications",
    namespaced,
    doc = "A hosted app, and who may open it.",
    status = "PhApplicationStatus",
    printcolumn = r#"{"name":"Group","type":"string","jsonPath":".spec.groupName"}"#,
    printcolumn = r#"{"name":"Status","type":"string","jsonPath":".status.phase"}"#,
    printcolumn = r#"{"name":"Message","type":"string","jsonPath":".status.message"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct PhApplicationSpec {
    /// The name people see.
    pub display_name: String,
    /// The group it belongs to.
    pub group_name: String,
    /// The size of the machine it gets.
    pub instance_type: String,
    /// Who may reach it: `public`, `primehub` (everybody who signs in) or `group`.
    pub scope: String,
    /// The pod to run.
    pub pod_template: PodTemplate,
    /// The service in front of it.
    pub svc_template: SvcTemplate,
    /// Whether it is to be stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<bool>,
    /// The port that speaks HTTP; without it nothing can be opened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http_port: Option<i32>,
    /// Whether the prefix is removed before a request is forwarded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rewrite: Option<bool>,
    /// Where the app's data is mounted in its container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub app_root: Option<String>,
}

/// A pod template, of which only the spec is taken.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct PodTemplate {
    /// A pod's spec.
    #[schemars(schema_with = "whole")]
    pub spec: Value,
}

/// A service template, of which only the spec is taken.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct SvcTemplate {
    /// A service's spec.
    #[schemars(schema_with = "whole")]
    pub spec: Value,
}

/// The observed state of the app.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PhApplicationStatus {
    /// `Starting`, `Ready`, `Updating`, `Stopping`, `Stopped` or `Error`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// Why, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The service that was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_name: Option<String>,
    /// The generation of the spec that the phase is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// `Ready`: whether the app can be used in its current form.
    /// `ContainersDropped`: the template has containers that do not run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "conditions::list_schema")]
    pub conditions: Vec<Condition>,
}

/// Where an app is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// No pod is ready yet.
    Starting,
    /// The app can be used.
    Ready,
    /// Earlier pods are ready while the current ones start.
    Updating,
    /// It is to stop, and has pods.
    Stopping,
    /// It has no pods.
    Stopped,
    /// It cannot run; the message says why.
    Error,
}

impl Phase {
    /// The text in the status.
    pub fn as_str(self) -> &'static str {
        match self {
            Phase::Starting => "Starting",
            Phase::Ready => "Ready",
            Phase::Updating => "Updating",
            Phase::Stopping => "Stopping",
            Phase::Stopped => "Stopped",
            Phase::Error => "Error",
        }
    }
}
