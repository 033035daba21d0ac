//! An app for unit tests.

#![allow(clippy::expect_used, reason = "a test's helper fails the test")]

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{app::Application, quantity::Memory, settings::ApplicationSettings};
use crate::pod_policy::PodPolicy;

/// The app `lab`; `more` replaces parts of its spec.
pub fn app(more: Value) -> Application {
    let metadata = json!({ "name": "lab", "namespace": "hub", "uid": "1", "generation": 3 });
    let object = json!({ "metadata": metadata, "spec": spec(more) });
    let object = serde_json::from_value(object).expect("an object");
    Application::parse(&object).expect("an app")
}

/// The spec of an app; `more` replaces parts of it.
pub fn spec(more: Value) -> Value {
    let mut spec = json!({
        "displayName": "Lab", "groupName": "phusers", "instanceType": "cpu-1", "scope": "group",
        "podTemplate": { "spec": {} }, "svcTemplate": { "spec": {} },
    });
    if let (Value::Object(spec), Value::Object(more)) = (&mut spec, more) {
        spec.extend(more);
    }
    spec
}

/// Settings of a platform without groups.
pub fn settings() -> ApplicationSettings {
    let proxy = [("app.kubernetes.io/name".to_owned(), "ludgate".to_owned())];
    ApplicationSettings {
        site_url: "https://hub.example.com".into(),
        apps_prefix: "/apps".into(),
        image_prefix: None,
        folder_image: Some("ludgate:1".into()),
        ephemeral_size: Memory(5 << 30),
        phfs: None,
        datasets: Vec::new(),
        proxies: vec![BTreeMap::from(proxy)],
        proxy_namespaces: Vec::new(),
        pods: PodPolicy::default(),
        groups: BTreeMap::new(),
        instance_types: BTreeMap::new(),
    }
}
