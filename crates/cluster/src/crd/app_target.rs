//! Where and how a chart is installed: in an ApplicationDefinition as a default, in an
//! ApplicationInstallation as its own.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::schema::is_false;

/// The namespace of an app.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct AppNamespaceSpec {
    /// The name of the namespace.
    #[schemars(length(max = 63))]
    pub name: String,
    /// Whether the namespace is created if it does not exist.
    #[serde(default = "is_created_by_default")]
    pub create: bool,
    /// Labels that the namespace gets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub labels: Option<BTreeMap<String, String>>,
    /// Annotations that the namespace gets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<BTreeMap<String, String>>,
}

fn is_created_by_default() -> bool {
    true
}

/// Options of the method that installs the app.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct DeployOptions {
    /// Options of Helm.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub helm: Option<HelmDeployOptions>,
}

/// Options of Helm, under the names of its flags.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct HelmDeployOptions {
    /// Whether an operation lasts until the objects are ready.
    #[serde(default, skip_serializing_if = "is_false")]
    pub wait: bool,
    /// How long an operation may wait, such as `5m`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<String>,
    /// Whether a failed installation is removed, and a failed upgrade rolled back.
    #[serde(default, skip_serializing_if = "is_false")]
    pub atomic: bool,
    /// Whether templates may look up names in DNS. A chart could send secrets in such names.
    #[serde(default, rename = "enableDNS", skip_serializing_if = "is_false")]
    pub enable_dns: bool,
}
