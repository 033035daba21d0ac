//! What the tests of this crate are about: a person, a platform, a template.

use std::collections::BTreeMap;

use ludgate_controllers::application::{
    instance_type::InstanceType,
    quantity::{Memory, MilliCpu},
    settings::Group,
};
use ludgate_model::{
    access::GroupName,
    principal::{PersonClaims, Principal},
};
use serde_json::{Value, json};

use crate::{
    app_record::AppRecord,
    platform::{OfferedInstanceType, PlatformSettings},
};

/// A person who is in these groups.
pub(crate) fn person(groups: &[&str]) -> Principal {
    let claims = PersonClaims {
        subject: "alice".to_owned(),
        groups: groups
            .iter()
            .filter_map(|name| GroupName::new(name))
            .collect(),
        ..PersonClaims::default()
    };
    Principal::new(claims, &[])
}

/// A platform with two groups.
pub(crate) fn platform() -> PlatformSettings {
    let group = |own: &[&str]| Group {
        instance_types: own.iter().map(|&name| name.to_owned()).collect(),
        ..Group::default()
    };
    let size = instance_type().size;
    PlatformSettings {
        site_url: "https://hub.example.com".to_owned(),
        apps_prefix: "/apps".to_owned(),
        groups: BTreeMap::from([
            ("phusers".to_owned(), group(&[])),
            ("others".to_owned(), group(&["gpu-1"])),
        ]),
        instance_types: BTreeMap::from([(size.name.clone(), size)]),
        datasets: Vec::new(),
    }
}

/// An instance type of the configuration.
pub(crate) fn instance_type() -> OfferedInstanceType {
    OfferedInstanceType::from_settings(&InstanceType {
        name: "cpu-1".to_owned(),
        cpu_limit: MilliCpu(1500),
        cpu_request: None,
        memory_limit: Memory(512 << 20),
        memory_request: None,
        gpu: None,
        node_selector: BTreeMap::new(),
        tolerations: Vec::new(),
    })
}

/// A template with a variable of its own.
pub(crate) fn template() -> Value {
    let env = json!([{ "name": "A", "value": "1" }]);
    let pod = json!({ "containers": [{ "name": "app", "image": "mlflow:2", "env": env }] });
    let app = json!({
        "podTemplate": { "spec": pod },
        "svcTemplate": { "spec": { "ports": [{ "port": 5000 }] } },
        "httpPort": 5000,
    });
    json!({
        "metadata": { "name": "mlflow", "managedFields": [{}] },
        "spec": {
            "name": "MLflow",
            "version": "v2",
            "icon": "data:image/png;base64,AAAA",
            "template": { "spec": app },
        },
    })
}

/// An object as the API server returns it.
pub(crate) fn stored(object: &Value) -> AppRecord {
    let mut object = object.clone();
    object["apiVersion"] = "primehub.io/v1alpha1".into();
    object["kind"] = "PhApplication".into();
    object["metadata"]["resourceVersion"] = "7".into();
    AppRecord::from_object(&serde_json::from_value(object).expect("an object"))
}
