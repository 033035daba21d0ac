//! `ApplicationInstallation`: an app that a person wants in a namespace. The fields are those of
//! the Kubermatic Kubernetes Platform; `deletePolicy` is ours.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    app_target::{AppNamespaceSpec, DeployOptions},
    installation_status::ApplicationInstallationStatus,
    schema::whole,
};

/// Finalizer of an installation, until its release is uninstalled.
pub const CLEANUP_FINALIZER: &str = "kubermatic.k8c.io/cleanup-application-installation";
/// Annotation of an installation that is removed without an uninstall: `true` leaves the release
/// in the cluster.
pub const ABANDON_ANNOTATION: &str = "ludgate.dev/abandon-release";

/// The app to install, and where.
#[derive(Clone, CustomResource, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[kube(
    group = "apps.kubermatic.k8c.io",
    version = "v1",
    kind = "ApplicationInstallation",
    plural = "applicationinstallations",
    derive = "PartialEq",
    shortname = "appinstall",
    namespaced,
    doc = "An app that is installed from a chart.",
    status = "ApplicationInstallationStatus",
    printcolumn = r#"{"name":"App","type":"string","jsonPath":".spec.applicationRef.name"}"#,
    printcolumn = r#"{"name":"Version","type":"string","jsonPath":".spec.applicationRef.version"}"#,
    printcolumn = r#"{"name":"Ready","type":"string","jsonPath":".status.conditions.Ready.status"}"#,
    printcolumn = r#"{"name":"Reason","type":"string","jsonPath":".status.conditions.Ready.reason"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct ApplicationInstallationSpec {
    /// The namespace of the app's objects. Its name and `create` cannot be changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = [
        { "rule": "self.name == oldSelf.name", "message": "name: field is immutable" },
        { "rule": "self.create == oldSelf.create", "message": "create: field is immutable" },
    ]))]
    pub namespace: Option<AppNamespaceSpec>,
    /// Which app, in which version.
    pub application_ref: ApplicationRef,
    /// Values of the chart. Deprecated: `valuesBlock` keeps comments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    // Kubernetes 1.20 sets a removed field of free form to null.
    #[schemars(schema_with = "whole", extend("nullable" = true))]
    pub values: Option<Value>,
    /// Values of the chart, as YAML.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub values_block: Option<String>,
    /// The release is applied again after this time, such as `1h`. `0`: only after changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reconciliation_interval: Option<String>,
    /// Options of Helm; without them those of the definition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deploy_options: Option<DeployOptions>,
    /// Whether the namespace remains when the installation is deleted: `keep` (default), or
    /// `deleteNamespace` if it was created for this installation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["keep", "deleteNamespace"]))]
    pub delete_policy: Option<String>,
}

/// An app in a version.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct ApplicationRef {
    /// The name of the ApplicationDefinition. It cannot be changed.
    #[schemars(
        length(max = 63),
        extend("x-kubernetes-validations" = [
            { "rule": "self == oldSelf", "message": "field is immutable" }
        ])
    )]
    pub name: String,
    /// A version of it.
    pub version: String,
}

#[cfg(test)]
mod tests {
    use kube::CustomResourceExt;
    use serde_json::json;

    use super::*;

    #[test]
    fn the_schema_keeps_values_and_has_a_map_of_conditions() {
        let definition = serde_json::to_value(ApplicationInstallation::crd()).expect("JSON");
        assert_eq!(definition["spec"]["scope"], "Namespaced");
        let version = &definition["spec"]["versions"][0];
        assert_eq!(version["name"], "v1");
        assert_eq!(version["subresources"]["status"], json!({}));
        let schema = &version["schema"]["openAPIV3Schema"]["properties"];
        assert_eq!(schema["spec"]["required"], json!(["applicationRef"]));
        let rules = &schema["spec"]["properties"]["namespace"]["x-kubernetes-validations"];
        assert_eq!(rules[0]["rule"], "self.name == oldSelf.name");
        let values = &schema["spec"]["properties"]["values"];
        assert_eq!(values["x-kubernetes-preserve-unknown-fields"], true);
        let conditions = &schema["status"]["properties"]["conditions"];
        assert_eq!(conditions["type"], "object");
        let condition = &conditions["additionalProperties"]["properties"];
        assert_eq!(condition["status"]["type"], "string");
        let info = &schema["status"]["properties"]["helmRelease"]["properties"]["info"];
        let statuses = info["properties"]["status"]["enum"]
            .as_array()
            .expect("a list");
        assert_eq!(statuses.len(), 9);
        let created = &schema["status"]["properties"]["createdNamespace"];
        assert_eq!(created["required"], json!(["name"]));
        let placement = &schema["status"]["properties"]["placement"];
        let required = placement["required"].as_array().expect("a list");
        assert!(required.contains(&json!("target")) && required.contains(&json!("namespace")));
    }

    #[test]
    fn an_installation_is_read_and_written_without_loss() {
        let written = json!({
            "apiVersion": "apps.kubermatic.k8c.io/v1", "kind": "ApplicationInstallation",
            "metadata": { "name": "app-1", "namespace": "apps" },
            "spec": {
                "namespace": { "name": "target", "create": true, "labels": { "env": "dev" } },
                "applicationRef": { "name": "example", "version": "1.0.0" },
                "values": { "a": { "b": [1, { "c": null }] } },
                "reconciliationInterval": "1h0m0s",
                "deployOptions": { "helm": { "atomic": true } },
                "deletePolicy": "deleteNamespace",
            },
            "status": {
                "conditions": { "Ready": {
                    "status": "True", "reason": "InstallationSuccessful", "message": "m",
                    "lastHeartbeatTime": "2026-01-01T00:00:00Z",
                    "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 2,
                } },
                "applicationVersion": { "version": "1.0.0", "template": { "source": { "helm": {
                    "url": "https://e.example", "chartName": "c", "chartVersion": "1" } } } },
                "method": "helm",
                "helmRelease": { "name": "apps-app-1", "version": 1, "info": {
                    "firstDeployed": "2026-01-01T00:00:00Z", "status": "deployed",
                    "description": "Install complete", "notes": "n" } },
                "failures": 2,
                "appliedDigest": "d",
                "operation": { "id": "o", "since": "2026-01-01T00:00:00Z" },
                "createdNamespace": { "name": "target", "uid": "7" },
                "placement": { "target": "self", "namespace": "target" },
            },
        });
        let read: ApplicationInstallation =
            serde_json::from_value(written.clone()).expect("an object");
        assert_eq!(serde_json::to_value(&read).expect("JSON"), written);
        let least = json!({ "applicationRef": { "name": "a", "version": "1" } });
        let read: ApplicationInstallationSpec =
            serde_json::from_value(least.clone()).expect("a spec");
        assert_eq!(serde_json::to_value(&read).expect("JSON"), least);
    }
}
