//! A PhApplication, as people see it. It is read leniently: an app that was written by hand, or
//! is broken, must not hide the others.

use kube::{ResourceExt, api::DynamicObject};
use ludgate_cluster::crd::application::{Phase, SERVICE_PREFIX};
use serde_json::Value;

use crate::variables::{Variable, texts_of};

/// Annotation with the template that the app was made from.
pub const TEMPLATE_ANNOTATION: &str = "phapplication.primehub.io/template";
/// Annotation with the input of the person who made it.
pub const INPUT_ANNOTATION: &str = "phapplication.primehub.io/template-data";
/// Annotation with the instance type as it was when it was chosen.
pub const INSTANCE_TYPE_ANNOTATION: &str = "phapplication.primehub.io/instance-type";

/// An app.
#[derive(Clone, Debug)]
pub struct AppRecord {
    /// Its namespace.
    pub namespace: String,
    /// `metadata.name`.
    pub id: String,
    /// Its identity: an object that is made again has another one.
    pub uid: String,
    /// The version that was read.
    pub resource_version: Option<String>,
    /// The desired state.
    pub spec: Value,
    /// The observed state.
    pub status: Value,
    /// Whether the status is about the current spec.
    pub is_observed: bool,
    /// The template that it was made from, as an object; null without one.
    pub template: Value,
    /// The input of the person who made it; null without one.
    pub input: Value,
    /// The instance type as it was when it was chosen; null without one.
    pub chosen_instance_type: Value,
}

impl AppRecord {
    /// Reads an object.
    pub fn from_object(object: &DynamicObject) -> AppRecord {
        let annotations = object.annotations();
        let parsed = |name: &str| {
            let text = annotations.get(name);
            text.and_then(|text| serde_json::from_str(text).ok())
                .unwrap_or(Value::Null)
        };
        let status = object.data["status"].clone();
        let observed = status["observedGeneration"].as_i64();
        AppRecord {
            namespace: object.namespace().unwrap_or_default(),
            id: object.name_any(),
            uid: object.uid().unwrap_or_default(),
            resource_version: object.resource_version(),
            spec: object.data["spec"].clone(),
            // PrimeHub's controller writes no generation.
            is_observed: observed.is_none_or(|seen| Some(seen) >= object.metadata.generation),
            status,
            template: parsed(TEMPLATE_ANNOTATION),
            input: parsed(INPUT_ANNOTATION),
            chosen_instance_type: parsed(INSTANCE_TYPE_ANNOTATION),
        }
    }

    /// A text of the spec.
    pub fn spec_text(&self, field: &str) -> Option<&str> {
        self.spec[field].as_str()
    }

    /// The group that it belongs to; an app without one is for administrators only.
    pub fn group(&self) -> &str {
        self.spec_text("groupName").unwrap_or_default()
    }

    /// The name for people; the id, where an app has none.
    pub fn display_name(&self) -> &str {
        self.spec_text("displayName").unwrap_or(&self.id)
    }

    /// The name of the template.
    pub fn template_name(&self) -> Option<&str> {
        self.template["metadata"]["name"].as_str()
    }

    /// Whether its owner has stopped it.
    pub fn is_stopped(&self) -> bool {
        self.spec["stop"].as_bool().unwrap_or(false)
    }

    /// The phase. Until the controller has seen the last change, it is what that change leads to.
    pub fn phase(&self) -> &str {
        let written = self.status["phase"].as_str();
        if let Some(phase) = written.filter(|_| self.is_observed) {
            return phase;
        }
        let is = |phase: Phase| written == Some(phase.as_str());
        let expected = match self.is_stopped() {
            true if is(Phase::Stopped) => Phase::Stopped,
            true => Phase::Stopping,
            false if is(Phase::Ready) || is(Phase::Updating) => Phase::Updating,
            false => Phase::Starting,
        };
        expected.as_str()
    }

    /// The message of the phase, if it is about the current spec.
    pub fn message(&self) -> Option<&str> {
        let message = self.status["message"].as_str();
        message.filter(|_| self.status["phase"].as_str() == Some(self.phase()))
    }

    /// The environment variables that people have set: without those of the template. An app
    /// without a template shows the variables of its container.
    pub fn variables(&self) -> Vec<Variable> {
        if self.input["env"].is_array() {
            return texts_of(&self.input["env"]);
        }
        let of_template = texts_of(template_variables(&self.template));
        let mut variables = texts_of(container_variables(&self.spec));
        variables.retain(|variable| !of_template.contains(variable));
        variables
    }

    /// The Service, once there is one.
    pub fn service(&self) -> Option<&str> {
        self.status["serviceName"].as_str()
    }

    /// The addresses of its ports in the cluster, once it has a Service.
    pub fn endpoints(&self) -> Option<Vec<String>> {
        let service = self.service()?;
        let ports = self.spec["svcTemplate"]["spec"]["ports"].as_array();
        let ports = ports.map(Vec::as_slice).unwrap_or_default();
        let numbers = ports.iter().filter_map(|port| port["port"].as_u64());
        Some(numbers.map(|port| format!("{service}:{port}")).collect())
    }

    /// The origin and port that speak HTTP in the cluster, once it has a Service.
    pub fn internal_origin(&self) -> Option<String> {
        let port = self.spec["httpPort"].as_u64()?;
        let service = self.service()?;
        Some(format!("http://{service}:{port}"))
    }

    /// Value of the label of its pods.
    pub fn pod_label(&self) -> String {
        format!("{SERVICE_PREFIX}{}", self.id)
    }
}

/// `env` of the container in a PhApplication's spec.
pub fn container_variables(spec: &Value) -> &Value {
    &spec["podTemplate"]["spec"]["containers"][0]["env"]
}

/// `env` of the container in a template.
pub fn template_variables(template: &Value) -> &Value {
    container_variables(&template["spec"]["template"]["spec"])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn record(object: Value) -> AppRecord {
        let mut whole = json!({
            "apiVersion": "primehub.io/v1alpha1",
            "kind": "PhApplication",
            "metadata": { "name": "lab", "namespace": "hub", "generation": 2 },
        });
        merge(&mut whole, object);
        AppRecord::from_object(&serde_json::from_value(whole).expect("an object"))
    }

    fn merge(into: &mut Value, from: Value) {
        match (into, from) {
            (Value::Object(into), Value::Object(from)) => {
                for (key, value) in from {
                    merge(into.entry(key).or_insert(Value::Null), value);
                }
            }
            (into, from) => *into = from,
        }
    }

    #[test]
    fn until_the_controller_has_looked_the_phase_is_what_the_last_change_leads_to() {
        for (stop, status, wanted) in [
            (false, json!(null), "Starting"),
            (true, json!(null), "Stopping"),
            (
                false,
                json!({ "phase": "Stopped", "observedGeneration": 1 }),
                "Starting",
            ),
            (
                false,
                json!({ "phase": "Stopped", "observedGeneration": 2 }),
                "Stopped",
            ),
            (
                true,
                json!({ "phase": "Ready", "observedGeneration": 1 }),
                "Stopping",
            ),
            (
                true,
                json!({ "phase": "Stopped", "observedGeneration": 1 }),
                "Stopped",
            ),
            (
                false,
                json!({ "phase": "Error", "observedGeneration": 1 }),
                "Starting",
            ),
            (
                false,
                json!({ "phase": "Ready", "observedGeneration": 1 }),
                "Updating",
            ),
            (false, json!({ "phase": "Error" }), "Error"),
        ] {
            let record = record(json!({ "spec": { "stop": stop }, "status": status }));
            assert_eq!(record.phase(), wanted, "{status}");
        }
    }

    #[test]
    fn a_message_of_another_phase_is_not_shown() {
        let status = json!({ "phase": "Stopped", "message": "stopped", "observedGeneration": 1 });
        let started = record(json!({ "spec": { "stop": false }, "status": status }));
        assert_eq!(started.message(), None);
        let stopped = record(json!({ "spec": { "stop": true }, "status": status }));
        assert_eq!(stopped.message(), Some("stopped"));
    }

    #[test]
    fn an_app_made_by_hand_shows_the_variables_of_its_container() {
        let env = json!([
            { "name": "A", "value": "1" },
            { "name": "B", "valueFrom": { "secretKeyRef": { "name": "s", "key": "k" } } },
            { "name": "C" },
        ]);
        let pod = json!({ "spec": { "containers": [{ "env": env }] } });
        let record = record(json!({ "spec": { "podTemplate": pod } }));
        let variables = record.variables();
        let names: Vec<&str> = variables.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(names, ["A", "C"]);
        assert_eq!(record.display_name(), "lab");
        assert_eq!(record.template_name(), None);
    }

    #[test]
    fn nothing_in_an_object_is_too_odd_to_show() {
        let odd = record(json!({
            "metadata": { "annotations": {
                TEMPLATE_ANNOTATION: "{",
                INPUT_ANNOTATION: "[]",
            } },
            "spec": { "displayName": 7, "stop": "yes", "svcTemplate": [], "podTemplate": "x" },
            "status": { "phase": [], "serviceName": "app-lab" },
        }));
        assert_eq!(odd.phase(), "Starting");
        assert_eq!(odd.endpoints(), Some(Vec::new()));
        assert!(odd.variables().is_empty());
        assert_eq!(odd.group(), "");
    }
}
