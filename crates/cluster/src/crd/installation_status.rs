//! The status of an `ApplicationInstallation`. Its conditions are a map from type to condition, as
//! in the Kubermatic Kubernetes Platform; `appliedDigest`, `operation`, `createdNamespace` and
//! `placement` are ours.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{definition::ApplicationVersion, schema::is_zero};

/// The states of a Helm release, as Helm writes them.
pub const RELEASE_STATUSES: [&str; 9] = [
    "unknown",
    "deployed",
    "uninstalled",
    "superseded",
    "failed",
    "uninstalling",
    "pending-install",
    "pending-upgrade",
    "pending-rollback",
];

/// The observed state of an installation.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ApplicationInstallationStatus {
    /// The conditions by their types, such as `ManifestsRetrieved` and `Ready`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub conditions: BTreeMap<String, InstallationCondition>,
    /// The version in use, as it was in the definition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub application_version: Option<ApplicationVersion>,
    /// The method that installed the app.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// The release of the app.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub helm_release: Option<HelmRelease>,
    /// Failed attempts since the last success or change of the spec.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub failures: i64,
    /// What was applied last: a digest of the chart, the values and the options.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applied_digest: Option<String>,
    /// The operation that runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<InstallationOperation>,
    /// The namespace that was created for the installation. Nothing but its UID proves that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_namespace: Option<CreatedNamespace>,
    /// Where the app was permitted to be when it was installed last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement: Option<InstallationPlacement>,
}

/// One statement about an installation.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InstallationCondition {
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// When the condition was written last, in RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_heartbeat_time: Option<String>,
    /// When the status changed last, in RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<String>,
    /// Why, as one word for programs.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Why, for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The generation of the spec that it is about.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub observed_generation: i64,
}

/// The release of an installation.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct HelmRelease {
    /// The name of the release.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The revision of the release.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub version: i64,
    /// What Helm says about the revision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub info: Option<HelmReleaseInfo>,
}

/// What Helm says about a revision.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HelmReleaseInfo {
    /// When the first revision was deployed, in RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_deployed: Option<String>,
    /// When this revision was deployed, in RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_deployed: Option<String>,
    /// When the release was uninstalled, in RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deleted: Option<String>,
    /// What happened, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// One of nine states, such as `deployed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = RELEASE_STATUSES))]
    pub status: Option<String>,
    /// The notes of the chart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notes: Option<String>,
}

/// An operation of Helm that runs.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct InstallationOperation {
    /// An id that no other operation has.
    pub id: String,
    /// When it began, in RFC 3339.
    pub since: String,
}

/// A namespace that was created for an installation.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct CreatedNamespace {
    /// Its name.
    pub name: String,
    /// Its UID. Without it, the creation was begun, and its end is not recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
}

/// Where an app is.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct InstallationPlacement {
    /// The name of the target; `self`: the cluster of the controller.
    pub target: String,
    /// The namespace.
    pub namespace: String,
}
