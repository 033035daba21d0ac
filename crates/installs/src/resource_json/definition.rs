//! Definitions in the REST API.

use kube::ResourceExt;
use ludgate_cluster::crd::definition::{ApplicationDefinition, ApplicationDefinitionSpec};
use serde_json::{Map, Value, json};

use super::{
    error::ResourceError,
    patch::{patched, read, texts},
};

/// The fields of a spec in a list.
const LISTED: [&str; 10] = [
    "description",
    "displayName",
    "defaultVersion",
    "enforced",
    "default",
    "selector",
    "documentationURL",
    "sourceURL",
    "logo",
    "logoFormat",
];

/// Fields that stay if a new spec does not name them: clients of the Kubermatic API leave them out.
const KEPT: [&str; 8] = [
    "defaultNamespace",
    "defaultDeployOptions",
    "defaultVersion",
    "enforced",
    "default",
    "selector",
    "expose",
    "onVersionRemoved",
];

/// An entry of a list, without the versions.
pub fn list_entry(definition: &ApplicationDefinition) -> Value {
    let spec = whole_spec(definition);
    let listed = LISTED.into_iter().filter_map(|field| {
        let value = spec.get(field)?;
        Some((field.to_owned(), value.clone()))
    });
    let mut entry = json!({
        "name": definition.name_any(),
        "spec": listed.collect::<Map<_, _>>(),
    });
    add_metadata(&mut entry, definition);
    entry
}

/// The whole definition.
pub fn detail(definition: &ApplicationDefinition) -> Value {
    let mut detail = json!({
        "name": definition.name_any(),
        "spec": whole_spec(definition),
    });
    if let Some(created) = definition.creation_timestamp() {
        detail["creationTimestamp"] = json!(created);
    }
    add_metadata(&mut detail, definition);
    detail
}

fn add_metadata(shown: &mut Value, definition: &ApplicationDefinition) {
    for (field, texts) in [
        ("labels", definition.labels()),
        ("annotations", definition.annotations()),
    ] {
        if !texts.is_empty() {
            shown[field] = json!(texts);
        }
    }
}

fn whole_spec(definition: &ApplicationDefinition) -> Value {
    serde_json::to_value(&definition.spec).unwrap_or_default()
}

/// A new definition from the body of a request. Clients write its key as `Spec` or `spec`.
///
/// # Errors
/// The body has another form.
pub fn from_body(body: &Value) -> Result<ApplicationDefinition, ResourceError> {
    let name = body["name"].as_str().unwrap_or_default();
    if name.is_empty() {
        return Err(ResourceError::bad_request("name must be set"));
    }
    let spec: ApplicationDefinitionSpec = read(spec_of(body).clone(), "spec")?;
    let mut definition = ApplicationDefinition::new(name, spec);
    definition.metadata.labels = texts(body, "labels")?;
    definition.metadata.annotations = texts(body, "annotations")?;
    Ok(definition)
}

fn spec_of(body: &Value) -> &Value {
    let fields = body.as_object().into_iter().flatten();
    let mut specs = fields.filter(|(key, _)| key.eq_ignore_ascii_case("spec"));
    specs.next().map_or(&Value::Null, |(_, spec)| spec)
}

/// A stored definition with the spec of a body. What the body does not name of defaults and rules
/// stays.
///
/// # Errors
/// The body has another form, or names another definition.
pub fn replaced(
    stored: &ApplicationDefinition,
    body: &Value,
) -> Result<ApplicationDefinition, ResourceError> {
    if let Some(name) = body["name"].as_str().filter(|name| !name.is_empty()) {
        check_name(&stored.name_any(), name)?;
    }
    let mut spec = spec_of(body).clone();
    let before = whole_spec(stored);
    if let Value::Object(spec) = &mut spec {
        for field in KEPT {
            if let (None, Some(kept)) = (spec.get(field), before.get(field)) {
                spec.insert(field.to_owned(), kept.clone());
            }
        }
    }
    let mut replaced = stored.clone();
    replaced.spec = read(spec, "spec")?;
    for (field, stored) in [
        ("labels", &mut replaced.metadata.labels),
        ("annotations", &mut replaced.metadata.annotations),
    ] {
        if let Some(texts) = texts(body, field)? {
            *stored = Some(texts);
        }
    }
    Ok(replaced)
}

fn check_name(stored: &str, name: &str) -> Result<(), ResourceError> {
    match stored == name {
        true => Ok(()),
        false => Err(ResourceError::bad_request(format!(
            "Changing application definition name is not allowed: \"{stored}\" to \"{name}\""
        ))),
    }
}

/// A stored definition after a merge patch of its [`detail`].
///
/// # Errors
/// The patch cannot be read, or changes the name.
pub fn with_patch(
    stored: &ApplicationDefinition,
    patch: &str,
) -> Result<ApplicationDefinition, ResourceError> {
    let shown = patched(detail(stored), patch, "application definition", &["name"])?;
    let mut changed = stored.clone();
    changed.spec = read(shown["spec"].clone(), "spec")?;
    changed.metadata.labels = texts(&shown, "labels")?;
    changed.metadata.annotations = texts(&shown, "annotations")?;
    Ok(changed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples;

    fn stored() -> ApplicationDefinition {
        samples::definition(json!({
            "metadata": {
                "creationTimestamp": "2026-01-01T00:00:00Z", "resourceVersion": "7",
                "labels": { "team": "a" }, "annotations": { "x": "y" },
            },
            "spec": {
                "displayName": "Example", "enforced": true, "logoFormat": "png",
                "defaultNamespace": { "name": "n", "create": true },
            },
        }))
    }

    #[test]
    fn a_list_has_no_versions_and_a_detail_has_all() {
        let entry = list_entry(&stored());
        let wanted = json!({
            "name": "example", "labels": { "team": "a" }, "annotations": { "x": "y" },
            "spec": {
                "description": "An example", "displayName": "Example", "enforced": true,
                "logoFormat": "png",
            },
        });
        assert_eq!(entry, wanted);
        let plain = list_entry(&samples::definition(json!({})));
        assert_eq!(plain.as_object().map(Map::len), Some(2), "{plain}");
        let detail = detail(&stored());
        assert_eq!(detail["creationTimestamp"], "2026-01-01T00:00:00Z");
        assert_eq!(detail["spec"], whole_spec(&stored()));
    }

    #[test]
    fn a_body_makes_a_definition_with_all_of_its_fields() {
        for key in ["Spec", "spec"] {
            let body = json!({
                "name": "example", "labels": { "team": "a" }, key: whole_spec(&stored()),
            });
            let made = from_body(&body).expect("a definition");
            assert_eq!(made.spec, stored().spec);
            assert_eq!(made.metadata.labels, stored().metadata.labels);
        }
        for body in [
            json!({ "spec": whole_spec(&stored()) }),
            json!({ "name": "a" }),
            json!({ "name": "a", "spec": { "description": 1 } }),
        ] {
            let error = from_body(&body).expect_err("refused");
            assert_eq!(error.code, 400, "{body}");
        }
    }

    #[test]
    fn a_replacement_keeps_what_clients_leave_out() {
        let spec = json!({
            "description": "New", "method": "helm", "versions": [samples::version("2.0.0")],
        });
        let changed = replaced(&stored(), &json!({ "Spec": spec })).expect("a definition");
        assert!(changed.spec.enforced);
        assert_eq!(
            changed.spec.default_namespace,
            stored().spec.default_namespace
        );
        assert_eq!(changed.spec.description, "New");
        assert_eq!(changed.spec.display_name, None);
        assert_eq!(changed.metadata, stored().metadata);
        let off = json!({
            "enforced": false, "description": "d", "method": "helm", "versions": [],
        });
        let body = json!({ "spec": off, "labels": {} });
        let off = replaced(&stored(), &body).expect("a definition");
        assert!(!off.spec.enforced);
        assert!(off.labels().is_empty());
        let other = replaced(&stored(), &json!({ "name": "other", "spec": spec }));
        assert_eq!(other.map_err(|error| error.code), Err(400));
    }

    #[test]
    fn a_merge_patch_changes_annotations_labels_and_spec() {
        let patch =
            r#"{"annotations":{"x":null,"z":"1"},"spec":{"enforced":false,"displayName":null}}"#;
        let changed = with_patch(&stored(), patch).expect("a definition");
        assert_eq!(json!(changed.annotations()), json!({ "z": "1" }));
        assert_eq!(json!(changed.labels()), json!({ "team": "a" }));
        assert!(!changed.spec.enforced);
        assert_eq!(changed.spec.display_name, None);
        assert_eq!(changed.metadata.resource_version.as_deref(), Some("7"));
        let renamed = with_patch(&stored(), r#"{"name":"b"}"#).expect_err("refused");
        assert_eq!(renamed.code, 400);
        let wanted = "Changing application definition name is not allowed: \"example\" to \"b\"";
        assert_eq!(renamed.message, wanted);
        for patch in [
            "{",
            "[]",
            r#"{"spec":{"versions":1}}"#,
            r#"{"labels":{"a":1}}"#,
        ] {
            let error = with_patch(&stored(), patch).expect_err("refused");
            assert_eq!(error.code, 400, "{patch}");
        }
    }
}
