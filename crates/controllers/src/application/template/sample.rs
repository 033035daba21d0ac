//! An app made of a template, as the controller would make it.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::{
    application::{
        app::Application,
        desired,
        inputs::{PinnedInputs, RenderContext},
        instance_type::InstanceType,
        quantity::Memory,
        settings::ApplicationSettings,
    },
    pod_policy::PodPolicy,
};

/// Fields of an app that a template sets.
pub const APP_FIELDS: [&str; 5] = [
    "podTemplate",
    "svcTemplate",
    "httpPort",
    "rewrite",
    "appRoot",
];

/// Makes the objects of an app with these parts of a spec.
///
/// # Errors
/// The message that the app's status would have.
pub fn render(app: &Value, policy: &PodPolicy) -> Result<(), String> {
    let object = json!({
        "metadata": { "name": "sample", "namespace": "hub", "uid": "1", "generation": 1 },
        "spec": spec(app),
    });
    let object = serde_json::from_value(object).map_err(|error| error.to_string())?;
    let context = RenderContext {
        app: &Application::parse(&object)?,
        inputs: &inputs(),
        settings: &settings(policy),
    };
    desired::objects(context).map(|_| ())
}

/// An app's spec with the fields that a person chooses; those of the template are added.
pub fn spec(app: &Value) -> Value {
    let mut spec = json!({
        "displayName": "Sample", "groupName": "sample", "instanceType": "sample", "scope": "group",
    });
    for field in APP_FIELDS {
        if !app[field].is_null() {
            spec[field] = app[field].clone();
        }
    }
    spec
}

fn settings(policy: &PodPolicy) -> ApplicationSettings {
    ApplicationSettings {
        site_url: "https://hub.example.com".into(),
        apps_prefix: "/apps".into(),
        image_prefix: None,
        folder_image: None,
        ephemeral_size: Memory(1 << 30),
        phfs: None,
        datasets: Vec::new(),
        proxies: Vec::new(),
        proxy_namespaces: Vec::new(),
        pods: policy.clone(),
        groups: BTreeMap::new(),
        instance_types: BTreeMap::new(),
    }
}

fn inputs() -> PinnedInputs {
    PinnedInputs {
        generation: 1,
        instance_type: InstanceType::sample(),
        volume: None,
        folder_image: None,
        phfs: None,
        datasets: Vec::new(),
        adopted: None,
    }
}
