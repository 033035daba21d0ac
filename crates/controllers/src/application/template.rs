//! Validates a `PhAppTemplate` before it is applied: the custom resource's schema, Kubernetes'
//! types, and the controller's rules. In a cluster some of these errors appear only in the status
//! of an app.

mod lost_fields;
mod ports;
mod references;
mod sample;

use std::fmt;

use k8s_openapi::api::core::v1::{PodSpec, ServiceSpec};
use ludgate_cluster::crd::template::PhAppTemplateSpec;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use super::{app::MAX_NAME, environment::PRESET_NAMES};
use crate::{
    pod_policy::PodPolicy,
    pods::{too_long, too_long_list},
};

/// Consoles name an app after its template, with a dash and five characters.
const MAX_TEMPLATE_NAME: usize = MAX_NAME - 6;
/// Where the pod's spec is.
const POD: &str = "spec.template.spec.podTemplate.spec";
/// Where the Service's spec is.
const SERVICE: &str = "spec.template.spec.svcTemplate.spec";
/// Something in a template that has no effect, or a wrong one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemplateProblem {
    /// The field, such as `spec.defaultEnvs[0].name`.
    pub field: String,
    /// The problem, and what is allowed.
    pub what: String,
}

impl fmt::Display for TemplateProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.what)
    }
}

/// All problems of a template, an object as in a file. `policy` has the rights that the cluster
/// grants to pods of apps.
pub fn problems(template: &Value, policy: &PodPolicy) -> Vec<TemplateProblem> {
    let mut check = Check {
        template,
        problems: Vec::new(),
    };
    check.kind_and_name();
    if let Some(path) = too_long_list(&template["spec"]) {
        check.report(format!("spec{path}"), too_long("the list"));
        return check.problems;
    }
    if !check.texts() {
        return check.problems;
    }
    let Some(spec) = check.parse::<PhAppTemplateSpec>(&template["spec"], "spec") else {
        return check.problems;
    };
    check.links(&spec);
    check.default_variables(&spec);
    let app = &spec.template.spec;
    check.app_fields(app);
    check.parts(app);
    let pod = check.parse::<PodSpec>(&app["podTemplate"]["spec"], POD);
    let service = check.parse::<ServiceSpec>(&app["svcTemplate"]["spec"], SERVICE);
    check.ports(app);
    if let (Some(pod), Some(_)) = (pod, service) {
        check.containers(&pod);
        check.references(app);
        if let Err(error) = sample::render(app, policy) {
            check.report("spec.template.spec", error);
        }
    }
    check.problems
}

struct Check<'a> {
    template: &'a Value,
    problems: Vec<TemplateProblem>,
}

impl Check<'_> {
    fn report(&mut self, field: impl Into<String>, what: impl Into<String>) {
        self.problems.push(TemplateProblem {
            field: field.into(),
            what: what.into(),
        });
    }

    /// Reads a part as its type, and reports the fields that the type does not have.
    fn parse<T: DeserializeOwned + Serialize>(&mut self, value: &Value, path: &str) -> Option<T> {
        if value.is_null() {
            self.report(path, "is missing");
            return None;
        }
        let read: T = match serde_json::from_value(value.clone()) {
            Ok(read) => read,
            Err(error) => {
                self.report(path, error.to_string());
                return None;
            }
        };
        let kept = serde_json::to_value(&read).unwrap_or_default();
        for field in lost_fields::find(value, &kept, path) {
            self.report(field, "unknown field");
        }
        Some(read)
    }

    fn kind_and_name(&mut self) {
        for (field, wanted) in [
            ("apiVersion", "primehub.io/v1alpha1"),
            ("kind", "PhAppTemplate"),
        ] {
            if self.template[field] != wanted {
                self.report(field, format!("must be {wanted}"));
            }
        }
        let name = self.template["metadata"]["name"]
            .as_str()
            .unwrap_or_default();
        let is_label = |label: &str| {
            let inner = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-');
            !label.is_empty()
                && label.bytes().all(inner)
                && !label.starts_with('-')
                && !label.ends_with('-')
        };
        if !name.split('.').all(is_label) {
            self.report(
                "metadata.name",
                format!(
                    "{name:?} is invalid; use lower-case letters, digits, and inner dashes and dots"
                ),
            );
        } else if name.len() > MAX_TEMPLATE_NAME {
            let what = format!(
                "has more than {MAX_TEMPLATE_NAME} characters; the names of its apps would be too long"
            );
            self.report("metadata.name", what);
        }
    }

    /// Checked before parsing, for a clearer message than serde's: YAML reads an unquoted version
    /// as a number. Returns whether all are texts.
    fn texts(&mut self) -> bool {
        let spec = &self.template["spec"];
        let before = self.problems.len();
        for field in ["name", "version", "description", "docLink", "icon"] {
            if !(spec[field].is_null() || spec[field].is_string()) {
                let field = format!("spec.{field}");
                self.report(field, "is not text; put it in quotes");
            }
        }
        let variables = spec["defaultEnvs"].as_array().map(Vec::as_slice);
        for (at, variable) in variables.unwrap_or_default().iter().enumerate() {
            let value = &variable["defaultValue"];
            if !(value.is_null() || value.is_string()) {
                let field = format!("spec.defaultEnvs[{at}].defaultValue");
                self.report(field, "is not text; put it in quotes");
            }
        }
        self.problems.len() == before
    }

    /// Consoles put both into pages, where a `javascript:` URL would run as the user.
    fn links(&mut self, spec: &PhAppTemplateSpec) {
        let is_page = |url: &str| url.starts_with("https://") || url.starts_with("http://");
        if spec.doc_link.as_deref().is_some_and(|url| !is_page(url)) {
            self.report("spec.docLink", "must be an http or https URL");
        }
        let is_picture = |url: &str| is_page(url) || url.starts_with("data:image/");
        if spec.icon.as_deref().is_some_and(|url| !is_picture(url)) {
            self.report(
                "spec.icon",
                "must be a picture's URL: http, https or data:image/",
            );
        }
    }

    fn default_variables(&mut self, spec: &PhAppTemplateSpec) {
        let variables = spec.default_envs.as_deref().unwrap_or_default();
        for (at, variable) in variables.iter().enumerate() {
            let name = variable.name.as_str();
            let field = format!("spec.defaultEnvs[{at}].name");
            if self.variable_name(field.clone(), name)
                && variables[..at].iter().any(|other| other.name == name)
            {
                self.report(field, format!("{name} occurs twice"));
            }
        }
    }

    /// Whether an app's container can have a variable of this name.
    fn variable_name(&mut self, field: String, name: &str) -> bool {
        if !is_variable_name(name) {
            self.report(field, format!("{name:?} is not a valid name of a variable"));
        } else if PRESET_NAMES.contains(&name) {
            self.report(field, format!("the controller sets {name} for every app"));
        } else {
            return true;
        }
        false
    }

    fn app_fields(&mut self, app: &Value) {
        for field in app
            .as_object()
            .into_iter()
            .flatten()
            .map(|(field, _)| field)
        {
            if sample::APP_FIELDS.contains(&field.as_str()) {
                continue;
            }
            let path = format!("spec.template.spec.{field}");
            let is_chosen = sample::spec(&Value::Null).get(field).is_some() || field == "stop";
            self.report(
                path,
                match is_chosen {
                    true => "is chosen for each app; a template cannot set it",
                    false => "unknown field",
                },
            );
        }
    }

    /// The custom resource keeps only the specs of both.
    fn parts(&mut self, app: &Value) {
        for part in ["podTemplate", "svcTemplate"] {
            let path = format!("spec.template.spec.{part}");
            for found in ports::dropped(&app[part], &path, &["spec"]) {
                self.report(found.field, found.what);
            }
        }
    }

    fn containers(&mut self, pod: &PodSpec) {
        for (field, count) in [
            ("containers", pod.containers.len()),
            (
                "initContainers",
                pod.init_containers.as_ref().map_or(0, Vec::len),
            ),
        ] {
            if count > 1 {
                self.report(format!("{POD}.{field}"), "only the first one runs");
            }
        }
        for (at, container) in pod.containers.iter().enumerate() {
            if container.name.is_empty() {
                self.report(format!("{POD}.containers[{at}].name"), "is missing");
            }
            for (of, variable) in container.env.iter().flatten().enumerate() {
                let name = variable.name.as_str();
                let field = format!("{POD}.containers[{at}].env[{of}].name");
                self.variable_name(field, name);
            }
            if container.image.as_deref().unwrap_or_default().is_empty() {
                self.report(format!("{POD}.containers[{at}].image"), "is missing");
            }
            if container.resources.is_some() {
                let field = format!("{POD}.containers[{at}].resources");
                self.report(field, "has no effect; the app's instance type applies");
            }
        }
    }

    fn ports(&mut self, app: &Value) {
        for found in ports::problems(app) {
            self.report(found.field, found.what);
        }
    }

    fn references(&mut self, app: &Value) {
        let names = self.template["spec"]["defaultEnvs"].as_array();
        let asked = names.map(Vec::as_slice).unwrap_or_default();
        for found in references::undefined(&app["podTemplate"]["spec"], asked) {
            let what = format!(
                "$({}) stays as it is: no variable {}",
                found.name, found.reason
            );
            self.report(found.field, what);
        }
    }
}

/// The characters that every version of Kubernetes accepts in names of environment variables.
pub fn is_variable_name(name: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    name.bytes().all(inner) && name.starts_with(|first: char| !first.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn template(spec: Value) -> Value {
        let mut template = json!({
            "apiVersion": "primehub.io/v1alpha1",
            "kind": "PhAppTemplate",
            "metadata": { "name": "mlflow-2.20.3" },
            "spec": {
                "name": "MLflow",
                "defaultEnvs": [{ "name": "STORE", "defaultValue": "$(PRIMEHUB_APP_ROOT)/db" }],
                "template": { "spec": {
                    "podTemplate": { "spec": { "containers": [{
                        "name": "app", "image": "mlflow:1", "args": ["$(STORE)"],
                        "ports": [{ "containerPort": 5000 }],
                    }] } },
                    "svcTemplate": { "spec": { "ports": [{ "port": 5000 }] } },
                    "httpPort": 5000,
                } },
            },
        });
        merge(&mut template["spec"], spec);
        template
    }

    fn merge(target: &mut Value, more: Value) {
        match (target, more) {
            (Value::Object(target), Value::Object(more)) => {
                for (field, value) in more {
                    merge(target.entry(field).or_insert(Value::Null), value);
                }
            }
            (target, more) => *target = more,
        }
    }

    fn lines(template: &Value) -> Vec<String> {
        let problems = problems(template, &PodPolicy::default());
        problems.iter().map(ToString::to_string).collect()
    }

    fn app(spec: Value) -> Value {
        json!({ "template": { "spec": spec } })
    }

    fn pod(spec: Value) -> Value {
        app(json!({ "podTemplate": { "spec": spec } }))
    }

    #[test]
    fn a_good_template_has_no_problems() {
        assert_eq!(lines(&template(json!({}))), [""; 0]);
        // An app without pages, such as a database, has no `httpPort`.
        let without_page = app(json!({ "httpPort": null }));
        assert_eq!(lines(&template(without_page)), [""; 0]);
    }

    #[test]
    fn each_mistake_is_named_with_its_field() {
        for (spec, wanted) in [
            (
                json!({ "version": 1.7 }),
                "spec.version: is not text; put it in quotes",
            ),
            (
                json!({ "docLink": "javascript:alert(1)" }),
                "spec.docLink: must be an http or https URL",
            ),
            (
                json!({ "icon": "data:text/html,x" }),
                "spec.icon: must be a picture's URL: http, https or data:image/",
            ),
            (
                json!({ "defaultEnv": [] }),
                "spec.defaultEnv: unknown field",
            ),
            (
                json!({ "defaultEnvs": [{ "name": "STORE", "optionl": true }] }),
                "spec.defaultEnvs[0].optionl: unknown field",
            ),
            (
                json!({ "defaultEnvs": [{ "name": "STORE" }, { "name": "1A" }] }),
                "spec.defaultEnvs[1].name: \"1A\" is not a valid name of a variable",
            ),
            (
                json!({ "defaultEnvs": [{ "name": "STORE" }, { "name": "PRIMEHUB_URL" }] }),
                "spec.defaultEnvs[1].name: the controller sets PRIMEHUB_URL for every app",
            ),
            (
                json!({ "defaultEnvs": [{ "name": "STORE" }, { "name": "STORE" }] }),
                "spec.defaultEnvs[1].name: STORE occurs twice",
            ),
            (
                app(json!({ "instanceType": "cpu-1" })),
                "spec.template.spec.instanceType: is chosen for each app; a template cannot set it",
            ),
            (
                app(json!({ "httPort": 1 })),
                "spec.template.spec.httPort: unknown field",
            ),
            (
                app(json!({ "httpPort": 80 })),
                "spec.template.spec.httpPort: 80 is no port of spec.template.spec.svcTemplate.spec.ports, so the app has no page",
            ),
            (
                app(json!({ "podTemplate": null })),
                "spec.template.spec.podTemplate.spec: is missing",
            ),
            (
                pod(json!({ "containers": [] })),
                "spec.template.spec: podTemplate.spec.containers has no container",
            ),
            (
                pod(json!({ "containers": [{ "name": "app", "args": ["$(STORE)"] }] })),
                "spec.template.spec.podTemplate.spec.containers[0].image: is missing",
            ),
            (
                pod(json!({ "containers": [{ "name": "app", "image": "x", "comand": [] }] })),
                "spec.template.spec.podTemplate.spec.containers[0].comand: unknown field",
            ),
            (
                pod(
                    json!({ "containers": [{ "name": "a", "image": "x" }, { "name": "b", "image": "x" }] }),
                ),
                "spec.template.spec.podTemplate.spec.containers: only the first one runs",
            ),
            (
                pod(json!({ "containers": [{ "name": "a", "image": "x", "args": ["$(STOR)"] }] })),
                "spec.template.spec.podTemplate.spec.containers[0].args[0]: $(STOR) stays as it is: no variable has this name",
            ),
            (
                pod(json!({ "containers": [{ "name": "a", "image": "x", "resources": {} }] })),
                "spec.template.spec.podTemplate.spec.containers[0].resources: has no effect; the app's instance type applies",
            ),
            (
                app(json!({ "podTemplate": { "metadata": { "labels": {} } } })),
                "spec.template.spec.podTemplate.metadata: has no effect, only spec has",
            ),
            (
                pod(json!({ "containers": [{ "image": "x" }] })),
                "spec.template.spec.podTemplate.spec.containers[0].name: is missing",
            ),
            (
                pod(json!({ "hostNetwork": true })),
                "spec.template.spec: podTemplate: not allowed: hostNetwork",
            ),
        ] {
            assert_eq!(lines(&template(spec)), [wanted]);
        }
    }

    #[test]
    fn a_wrong_type_is_named() {
        let wrong = pod(json!({ "containers": "none" }));
        let lines = lines(&template(wrong));
        assert!(
            lines.len() == 1
                && lines[0].starts_with("spec.template.spec.podTemplate.spec: invalid type"),
            "{lines:?}"
        );
    }

    #[test]
    fn kind_and_name_are_checked() {
        let mut other = template(json!({}));
        other["kind"] = "PhApplication".into();
        assert_eq!(lines(&other), ["kind: must be PhAppTemplate"]);
        let longest = "a".repeat(53);
        for (name, is_valid) in [
            ("label-studio-1.13.0", true),
            (longest.as_str(), true),
            (&format!("{longest}a"), false),
            ("MLflow", false),
            ("mlflow-", false),
            ("a..b", false),
            ("", false),
        ] {
            let mut named = template(json!({}));
            named["metadata"]["name"] = name.into();
            let lines = lines(&named);
            assert_eq!(lines.is_empty(), is_valid, "{name}: {lines:?}");
            assert!(lines.iter().all(|line| line.starts_with("metadata.name: ")));
        }
    }
}
