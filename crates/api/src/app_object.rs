//! The objects that are written: a new PhApplication, and the patch of one. Both are pure.

use serde_json::{Value, json};

use crate::{
    app_input::{AppChange, NewApp},
    app_record::{
        AppRecord, INPUT_ANNOTATION, INSTANCE_TYPE_ANNOTATION, TEMPLATE_ANNOTATION,
        container_variables, template_variables,
    },
    error::OperationError,
    platform::OfferedInstanceType,
    variables::{Variable, appended},
};

/// Largest size of all annotations of an object, in bytes (Kubernetes' limit).
const MAX_ANNOTATIONS: usize = 256 * 1024;
/// What of a template becomes the spec of an app.
const TEMPLATE_FIELDS: [&str; 5] = [
    "podTemplate",
    "svcTemplate",
    "httpPort",
    "rewrite",
    "appRoot",
];

/// The object of a new app.
///
/// # Errors
/// [`OperationError::Invalid`] if it would be larger than Kubernetes permits.
pub fn new_object(
    app: &NewApp,
    namespace: &str,
    template: &Value,
    instance_type: &OfferedInstanceType,
) -> Result<Value, OperationError> {
    let mut spec = json!({
        "displayName": app.display_name,
        "groupName": app.group,
        "instanceType": app.instance_type,
        "scope": app.scope,
        "stop": false,
    });
    let of_template = &template["spec"]["template"]["spec"];
    for field in TEMPLATE_FIELDS {
        if !of_template[field].is_null() {
            spec[field] = of_template[field].clone();
        }
    }
    let variables = appended(template_variables(template), &app.variables);
    let Some(container) = spec.pointer_mut("/podTemplate/spec/containers/0") else {
        let what = format!("templateId: the template {} has no container", app.template);
        return Err(OperationError::Invalid(what));
    };
    set_field(container, "env", variables);
    let input = json!({
        "templateId": app.template,
        "id": app.id,
        "displayName": app.display_name,
        "groupName": app.group,
        "env": app.variables,
        "instanceType": app.instance_type,
        "scope": app.scope,
    });
    let annotations = json!({
        TEMPLATE_ANNOTATION: remembered_template(template).to_string(),
        INPUT_ANNOTATION: input.to_string(),
        INSTANCE_TYPE_ANNOTATION: instance_type_object(instance_type).to_string(),
    });
    check_size(&annotations)?;
    Ok(json!({
        "apiVersion": "primehub.io/v1alpha1",
        "kind": "PhApplication",
        "metadata": { "name": app.id, "namespace": namespace, "annotations": annotations },
        "spec": spec,
    }))
}

/// The patch of an app (JSON merge patch, RFC 7396). It names the version that it is made for, if
/// it depends on more than the fields that it sets.
///
/// # Errors
/// [`OperationError::Invalid`] if the app would be larger than Kubernetes permits, or has no
/// container.
pub fn patch(
    app: &AppRecord,
    change: &AppChange,
    instance_type: Option<&OfferedInstanceType>,
) -> Result<Value, OperationError> {
    let mut spec = json!({});
    let mut annotations = json!({});
    let mut input = app.input.clone();
    for (field, value) in [
        ("displayName", &change.display_name),
        ("instanceType", &change.instance_type),
        ("scope", &change.scope),
    ] {
        if let Some(value) = value {
            spec[field] = value.as_str().into();
            set_field(&mut input, field, value.as_str().into());
        }
    }
    if let Some(variables) = &change.variables {
        // A merge patch replaces a list as a whole.
        spec["podTemplate"] = json!({ "spec": { "containers": containers(app, variables)? } });
        set_field(&mut input, "env", json!(variables));
    }
    if app.input.is_object() {
        annotations[INPUT_ANNOTATION] = input.to_string().into();
    }
    if let Some(chosen) = instance_type {
        annotations[INSTANCE_TYPE_ANNOTATION] = instance_type_object(chosen).to_string().into();
    }
    check_size(&annotations)?;
    Ok(json!({
        "metadata": { "resourceVersion": app.resource_version, "annotations": annotations },
        "spec": spec,
    }))
}

/// The patch that stops or starts an app. It depends on nothing else of the app, so it cannot
/// conflict with another change.
pub fn stop_patch(is_stopped: bool) -> Value {
    json!({ "spec": { "stop": is_stopped } })
}

/// The containers of an app with other variables of people. Those of the template stay, and so do
/// the ones that people cannot set.
fn containers(app: &AppRecord, variables: &[Variable]) -> Result<Value, OperationError> {
    let pod = &app.spec["podTemplate"]["spec"];
    let mut containers = pod["containers"].clone();
    let Some(container) = containers.pointer_mut("/0") else {
        return Err(OperationError::Invalid(
            "the app has no container".to_owned(),
        ));
    };
    let kept = match app.template.is_object() {
        true => template_variables(&app.template).clone(),
        false => {
            let own = container_variables(&app.spec).as_array();
            let of_others = own
                .into_iter()
                .flatten()
                .filter(|it| !it["valueFrom"].is_null());
            of_others.cloned().collect()
        }
    };
    set_field(container, "env", appended(&kept, variables));
    Ok(containers)
}

/// Sets a field of an object; anything else stays as it is.
fn set_field(object: &mut Value, field: &str, value: Value) {
    if let Some(fields) = object.as_object_mut() {
        fields.insert(field.to_owned(), value);
    }
}

fn check_size(annotations: &Value) -> Result<(), OperationError> {
    let texts = annotations.as_object().into_iter().flatten();
    let length = |(name, text): (&String, &Value)| name.len() + text.as_str().map_or(0, str::len);
    match texts.map(length).sum::<usize>() <= MAX_ANNOTATIONS {
        true => Ok(()),
        false => Err(OperationError::Invalid(
            "the template and env are too large: together at most 256 KiB".to_owned(),
        )),
    }
}

/// The template as an app remembers it: without its icon, which can be a third of the space, and
/// without what Kubernetes and kubectl add to an object.
fn remembered_template(template: &Value) -> Value {
    let mut spec = template["spec"].clone();
    if let Some(fields) = spec.as_object_mut() {
        fields.remove("icon");
    }
    json!({
        "apiVersion": "primehub.io/v1alpha1",
        "kind": "PhAppTemplate",
        "metadata": { "name": template["metadata"]["name"] },
        "spec": spec,
    })
}

fn instance_type_object(instance_type: &OfferedInstanceType) -> Value {
    json!({
        "apiVersion": "primehub.io/v1alpha1",
        "kind": "InstanceType",
        "metadata": { "name": instance_type.size.name },
        "spec": instance_type.spec,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        app_input::{WrittenApp, WrittenChange},
        samples::{instance_type, person, platform, stored, template},
    };

    fn new_app(env: Value) -> NewApp {
        let text = |text: &str| Some(text.to_owned());
        let written = WrittenApp {
            id: "lab".to_owned(),
            template: text("mlflow"),
            display_name: text("Lab"),
            group: text("phusers"),
            instance_type: text("cpu-1"),
            scope: text("group"),
            env: Some(env),
        };
        NewApp::parse(written, &person(&["phusers"]), &platform()).expect("valid")
    }

    fn made(env: Value) -> Value {
        new_object(&new_app(env), "hub", &template(), &instance_type()).expect("fits")
    }

    fn changed(app: &Value, change: WrittenChange) -> Value {
        let change = AppChange::parse(change).expect("valid");
        patch(&stored(app), &change, None).expect("fits")
    }

    #[test]
    fn an_app_is_its_template_with_what_a_person_chose() {
        let object = made(json!([{ "name": "B", "value": "2" }]));
        let spec = &object["spec"];
        assert_eq!(spec["displayName"], "Lab");
        assert_eq!(spec["httpPort"], 5000);
        assert_eq!(spec["stop"], false);
        assert_eq!(
            *container_variables(spec),
            json!([{ "name": "A", "value": "1" }, { "name": "B", "value": "2" }])
        );
        assert!(spec.get("name").is_none() && spec.get("icon").is_none());
    }

    #[test]
    fn an_app_remembers_its_template_without_its_icon() {
        let record = stored(&made(json!([])));
        assert_eq!(record.template_name(), Some("mlflow"));
        assert_eq!(record.template["spec"]["version"], "v2");
        assert_eq!(record.template["spec"].get("icon"), None);
        let metadata = json!({ "name": "mlflow" });
        assert_eq!(record.template["metadata"], metadata);
    }

    #[test]
    fn people_see_the_variables_that_they_set() {
        let record = stored(&made(json!([{ "name": "B", "value": "2" }])));
        let seen = json!(record.variables());
        assert_eq!(seen, json!([{ "name": "B", "value": "2" }]));
    }

    #[test]
    fn new_variables_replace_those_of_people_and_not_those_of_the_template() {
        let app = made(json!([{ "name": "B", "value": "2" }]));
        let change = WrittenChange {
            env: Some(json!([{ "name": "C", "value": "3" }])),
            ..WrittenChange::default()
        };
        let patch = changed(&app, change);
        assert_eq!(
            *container_variables(&patch["spec"]),
            json!([{ "name": "A", "value": "1" }, { "name": "C", "value": "3" }])
        );
        assert_eq!(
            patch["spec"]["podTemplate"]["spec"]["containers"][0]["image"],
            "mlflow:2"
        );
        assert_eq!(patch["metadata"]["resourceVersion"], "7");
    }

    #[test]
    fn a_change_of_the_scope_touches_nothing_else() {
        let change = WrittenChange {
            scope: Some("public".to_owned()),
            ..WrittenChange::default()
        };
        let patch = changed(&made(json!([])), change);
        assert_eq!(patch["spec"], json!({ "scope": "public" }));
        let input = patch["metadata"]["annotations"][INPUT_ANNOTATION].as_str();
        assert!(input.is_some_and(|input| input.contains("\"scope\":\"public\"")));
    }

    #[test]
    fn an_app_made_by_hand_keeps_variables_that_people_cannot_set() {
        let secret = json!({ "name": "S", "valueFrom": { "fieldRef": { "fieldPath": "x" } } });
        let env = json!([{ "name": "OLD", "value": "1" }, secret]);
        let pod = json!({ "spec": { "containers": [{ "name": "app", "env": env }] } });
        let app = json!({ "metadata": { "name": "lab" }, "spec": { "podTemplate": pod } });
        let change = WrittenChange {
            env: Some(json!([{ "name": "NEW", "value": "2" }])),
            ..WrittenChange::default()
        };
        let patch = changed(&app, change);
        let env = container_variables(&patch["spec"]);
        assert_eq!(*env, json!([secret, { "name": "NEW", "value": "2" }]));
        assert_eq!(patch["metadata"]["annotations"], json!({}));
    }

    #[test]
    fn annotations_that_would_be_too_large_are_refused() {
        let value = "x".repeat(MAX_ANNOTATIONS);
        let app = new_app(json!([{ "name": "B", "value": value }]));
        let refused = new_object(&app, "hub", &template(), &instance_type());
        let said = refused.expect_err("too large").to_string();
        assert!(said.contains("at most 256 KiB"), "{said}");
        let mut broken = template();
        broken["spec"]["template"]["spec"] = json!({ "podTemplate": [] });
        let refused = new_object(&new_app(json!([])), "hub", &broken, &instance_type());
        let said = refused.expect_err("no container").to_string();
        assert_eq!(said, "templateId: the template mlflow has no container");
    }
}
