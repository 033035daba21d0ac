//! Applications from Helm charts: what the REST API sends.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// An application that can be installed. Fields that are not named here are kept for programs.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct OfferedApplication {
    /// Its name.
    pub name: String,
    /// The rest of its spec.
    pub spec: OfferedSpec,
    /// Everything else.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// The spec of an application.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OfferedSpec {
    /// Its name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
    /// What it is.
    #[serde(default)]
    pub description: String,
    /// The version of new installations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_version: Option<String>,
    /// Its versions. A list has none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub versions: Vec<OfferedVersion>,
    /// The values that a new installation begins with, as YAML.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_values_block: Option<String>,
    /// Everything else.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// A version of an application.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct OfferedVersion {
    /// The version.
    pub version: String,
    /// Everything else.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// An installation.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct InstalledApp {
    /// Its name.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// What is installed, and where.
    pub spec: InstalledSpec,
    /// How it is.
    pub status: InstalledStatus,
    /// Everything else.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// What is installed, and where.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InstalledSpec {
    /// The application.
    pub application_ref: InstalledReference,
    /// The namespace of its objects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<InstalledNamespace>,
    /// Everything else.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// An application in a version.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub struct InstalledReference {
    /// The name of the application.
    pub name: String,
    /// The version.
    pub version: String,
}

/// The namespace of an app's objects.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct InstalledNamespace {
    /// Its name.
    pub name: String,
    /// Everything else.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// How an installation is.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InstalledStatus {
    /// The conditions.
    #[serde(default)]
    pub conditions: Vec<InstalledCondition>,
    /// Whether the condition `Ready` is about the spec as it is.
    #[serde(default)]
    pub current: bool,
    /// Whether its workloads are available: `True`, `False` or `Unknown`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub healthy: Option<String>,
    /// Everything else.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// A condition.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct InstalledCondition {
    /// The type.
    #[serde(rename = "type")]
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// Why, as one word.
    #[serde(default)]
    pub reason: String,
    /// Why, for people.
    #[serde(default)]
    pub message: String,
    /// Everything else.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// A version with values that an installation has or had.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InstalledRevision {
    /// The number, from 1.
    pub number: u64,
    /// The version of the app.
    pub version: String,
    /// The values, as YAML.
    pub values_block: String,
    /// Helm's revision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub release: Option<i64>,
    /// Helm's state of it. Only the current one has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub release_status: Option<String>,
    /// When it was replaced. The current one has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaced_at: Option<String>,
    /// Whether it is in force.
    #[serde(default)]
    pub current: bool,
}

impl InstalledStatus {
    /// A condition by its type.
    pub fn condition(&self, kind: &str) -> Option<&InstalledCondition> {
        self.conditions.iter().find(|it| it.kind == kind)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_installation_is_written_as_it_was_read() {
        let sent = json!({
            "name": "a", "namespace": "n", "creationTimestamp": "t", "labels": { "x": "y" },
            "spec": {
                "applicationRef": { "name": "example", "version": "1.0.0" },
                "namespace": { "name": "target", "create": true },
                "valuesBlock": "a: 1\n",
            },
            "status": {
                "conditions": [{
                    "type": "Ready", "status": "True", "reason": "R", "message": "m",
                    "lastHeartbeatTime": null,
                }],
                "current": true, "healthy": "True", "failures": 0,
            },
        });
        let read: InstalledApp = serde_json::from_value(sent.clone()).expect("an installation");
        assert_eq!(
            read.status.condition("Ready").map(|it| it.status.as_str()),
            Some("True")
        );
        assert_eq!(json!(read), sent);
    }
}
