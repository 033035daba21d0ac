//! `ApplicationDefinition`: an app that people can install from a chart, in its versions. The
//! fields are those of the Kubermatic Kubernetes Platform; `expose` and `onVersionRemoved` are
//! ours.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    app_target::{AppNamespaceSpec, DeployOptions},
    chart_source::{ApplicationSource, HelmCredentials},
    schema::{is_false, whole},
};

/// The only method that installs apps.
pub const HELM_METHOD: &str = "helm";
/// Label of an object that another controller manages, such as a catalog.
pub const MANAGED_BY_LABEL: &str = "apps.kubermatic.k8c.io/managed-by";
/// The value of [`MANAGED_BY_LABEL`] of system apps.
pub const MANAGED_BY_PLATFORM: &str = "kkp";
/// Label of a definition that comes from an ApplicationCatalog.
pub const CATALOG_LABEL: &str = "applicationcatalog.k8c.io/managed-by";
/// Label with the type of a managed app.
pub const TYPE_LABEL: &str = "apps.kubermatic.k8c.io/type";
/// Annotation of an installation that is made again if it is changed or removed.
pub const ENFORCED_ANNOTATION: &str = "apps.kubermatic.k8c.io/enforced";
/// Annotation of an installation that each new target gets.
pub const DEFAULTED_ANNOTATION: &str = "apps.kubermatic.k8c.io/defaulted";
/// Annotation of a definition with the `reconciliationInterval` of its installations.
pub const INTERVAL_ANNOTATION: &str = "apps.kubermatic.k8c.io/reconciliation-interval";
/// Annotation of a Secret that definitions may name. Its value has no meaning.
pub const SECRET_TYPE_ANNOTATION: &str = "apps.kubermatic.k8c.io/secret-type";

/// An app, and where its versions come from.
#[derive(Clone, CustomResource, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[kube(
    group = "apps.kubermatic.k8c.io",
    version = "v1",
    kind = "ApplicationDefinition",
    plural = "applicationdefinitions",
    derive = "PartialEq",
    shortname = "appdef",
    doc = "An app that can be installed from a chart."
)]
#[serde(rename_all = "camelCase")]
pub struct ApplicationDefinitionSpec {
    /// The name people see.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
    /// What the app is for.
    pub description: String,
    /// How the app is installed: `helm`.
    #[schemars(extend("enum" = [HELM_METHOD]))]
    pub method: String,
    /// The versions that can be installed.
    pub versions: Vec<ApplicationVersion>,
    /// Values of new installations. Deprecated: `defaultValuesBlock` keeps comments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "whole")]
    pub default_values: Option<Value>,
    /// Values of new installations, as YAML.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_values_block: Option<String>,
    /// The namespace of installations that name none; without it their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_namespace: Option<AppNamespaceSpec>,
    /// Options of installations that have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_deploy_options: Option<DeployOptions>,
    /// The version of default and enforced installations; without it the highest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = VERSION_PATTERN))]
    pub default_version: Option<String>,
    /// Whether each selected target has the app, always.
    #[serde(default, skip_serializing_if = "is_false")]
    pub enforced: bool,
    /// Whether each new selected target gets the app.
    #[serde(default, skip_serializing_if = "is_false")]
    pub default: bool,
    /// The targets of a default or enforced app; without it all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<DefaultingSelector>,
    /// The address of the documentation.
    #[serde(
        default,
        rename = "documentationURL",
        skip_serializing_if = "Option::is_none"
    )]
    pub documentation_url: Option<String>,
    /// The address of the source code.
    #[serde(default, rename = "sourceURL", skip_serializing_if = "Option::is_none")]
    pub source_url: Option<String>,
    /// A picture in base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logo: Option<String>,
    /// The format of the picture: `svg+xml` or `png`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["svg+xml", "png"]))]
    pub logo_format: Option<String>,
    /// Publishes each installation as an app of the gateway.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expose: Option<ExposeSpec>,
    /// What happens to an installation whose version is removed: `keep` (default) or `uninstall`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["keep", "uninstall"]))]
    pub on_version_removed: Option<String>,
}

/// The pattern of a version in existing objects: it has a digit. New objects are checked for more.
const VERSION_PATTERN: &str = "[0-9]";

/// A version of an app.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct ApplicationVersion {
    /// The version, such as `v1.2.3`.
    #[schemars(extend("pattern" = VERSION_PATTERN))]
    pub version: String,
    /// How this version is installed.
    pub template: ApplicationTemplate,
}

/// How a version is installed.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ApplicationTemplate {
    /// Where the chart comes from.
    pub source: ApplicationSource,
    /// Credentials for what the chart depends on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template_credentials: Option<DependencyCredentials>,
}

/// Credentials for what a chart depends on.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DependencyCredentials {
    /// For charts of a git source that depend on charts of a repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub helm_credentials: Option<HelmCredentials>,
}

/// The targets of a default or enforced app. Both lists count.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct DefaultingSelector {
    /// Names of targets, as the Kubermatic Kubernetes Platform calls them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub datacenters: Option<Vec<String>>,
    /// Names of targets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub targets: Option<Vec<String>>,
}

/// The Service that people reach, and their access rule.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct ExposeSpec {
    /// The name of a Service of the chart.
    pub service: String,
    /// The port of the Service.
    #[schemars(range(min = 1, max = 65535))]
    pub port: i32,
    /// Who may open the app, such as `user` or `group:admins`.
    pub access: String,
}

#[cfg(test)]
mod tests {
    use kube::CustomResourceExt;
    use serde_json::json;

    use super::*;

    fn schema() -> Value {
        let definition = serde_json::to_value(ApplicationDefinition::crd()).expect("JSON");
        assert_eq!(definition["spec"]["scope"], "Cluster");
        assert_eq!(definition["spec"]["names"]["shortNames"], json!(["appdef"]));
        definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"].clone()
    }

    #[test]
    fn the_schema_has_the_required_fields_patterns_and_lists() {
        let schema = schema();
        let required = json!(["description", "method", "versions"]);
        assert_eq!(schema["required"], required);
        let fields = &schema["properties"];
        assert_eq!(fields["method"]["enum"], json!(["helm"]));
        assert_eq!(fields["logoFormat"]["enum"], json!(["svg+xml", "png"]));
        let values = &fields["defaultValues"];
        assert_eq!(values["x-kubernetes-preserve-unknown-fields"], true);
        let version = &fields["versions"]["items"]["properties"];
        let source = &version["template"]["properties"]["source"]["properties"];
        let helm = &source["helm"]["properties"];
        assert_eq!(helm["url"]["pattern"], "^(http|https|oci)://.+");
        assert_eq!(helm["chartName"]["minLength"], 1);
        assert_eq!(helm["plainHTTP"]["type"], "boolean");
        let git = &source["git"]["properties"];
        let commit = &git["ref"]["properties"]["commit"];
        assert_eq!(commit["pattern"], "^[a-f0-9]{40}$");
        let methods = json!(["password", "token", "ssh-key"]);
        assert_eq!(git["credentials"]["properties"]["method"]["enum"], methods);
        assert_eq!(
            fields["defaultNamespace"]["properties"]["create"]["default"],
            true
        );
    }

    #[test]
    fn a_definition_is_read_and_written_without_loss() {
        let secret = json!({ "name": "s", "key": "k" });
        let helm = json!({
            "url": "oci://charts.example/x", "chartName": "c", "chartVersion": "1.0.0",
            "insecure": true, "plainHTTP": false,
            "credentials": { "username": secret, "password": secret },
        });
        let git = json!({
            "remote": "git@git.example:a/b.git", "ref": { "branch": "main" }, "path": "chart",
            "credentials": { "method": "ssh-key", "sshKey": secret, "knownHosts": secret },
            "insecureIgnoreHostKey": true,
        });
        let written = json!({
            "displayName": "A", "description": "d", "method": "helm",
            "defaultValues": { "a": { "b": [1, null] } },
            "defaultNamespace": { "name": "n", "create": false, "labels": { "a": "b" } },
            "defaultDeployOptions": { "helm": { "wait": true, "timeout": "5m0s", "atomic": true,
                "enableDNS": true } },
            "defaultVersion": "v1.0.0", "enforced": true, "default": true,
            "selector": { "datacenters": ["a"], "targets": ["b"] },
            "documentationURL": "https://d.example", "sourceURL": "https://s.example",
            "logo": "eA==", "logoFormat": "png",
            "versions": [
                { "version": "v1.0.0", "template": { "source": { "helm": helm } } },
                { "version": "v0.0.0-dev", "template": { "source": { "git": git },
                    "templateCredentials": { "helmCredentials": { "registryConfigFile": secret } } } },
            ],
            "expose": { "service": "web", "port": 80, "access": "user" },
            "onVersionRemoved": "uninstall",
        });
        let read: ApplicationDefinitionSpec =
            serde_json::from_value(written.clone()).expect("a spec");
        assert_eq!(serde_json::to_value(&read).expect("JSON"), written);
    }
}
