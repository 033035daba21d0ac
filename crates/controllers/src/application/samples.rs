//! An app for unit tests.

#![allow(clippy::expect_used, reason = "a test's helper fails the test")]

use serde_json::{Value, json};

use super::app::Application;

/// The app `lab`; `more` replaces parts of its spec.
pub fn app(more: Value) -> Application {
    let mut spec = json!({
        "displayName": "Lab", "groupName": "phusers", "instanceType": "cpu-1", "scope": "group",
        "podTemplate": { "spec": {} }, "svcTemplate": { "spec": {} },
    });
    if let (Value::Object(spec), Value::Object(more)) = (&mut spec, more) {
        spec.extend(more);
    }
    let metadata = json!({ "name": "lab", "namespace": "hub", "uid": "1", "generation": 3 });
    let object = json!({ "metadata": metadata, "spec": spec });
    let object = serde_json::from_value(object).expect("an object");
    Application::parse(&object).expect("an app")
}
