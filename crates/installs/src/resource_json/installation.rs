//! Installations in the REST API.

use kube::ResourceExt;
use ludgate_cluster::crd::{
    installation::{ApplicationInstallation, ApplicationInstallationSpec},
    installation_status::ApplicationInstallationStatus,
};
use serde_json::{Map, Value, json};

use super::{
    error::ResourceError,
    patch::{patched, read, texts},
};
use crate::{
    conditions::HEALTHY,
    values::{ValuesError, installation_values, to_block},
};

/// An entry of a list.
pub fn list_entry(installation: &ApplicationInstallation) -> Value {
    let spec = &installation.spec;
    let spec = json!({
        "namespace": spec.namespace,
        "applicationRef": spec.application_ref,
    });
    shown(installation, spec)
}

/// The whole installation.
pub fn detail(installation: &ApplicationInstallation) -> Value {
    let spec = serde_json::to_value(&installation.spec).unwrap_or_default();
    shown(installation, spec)
}

fn shown(installation: &ApplicationInstallation, spec: Value) -> Value {
    let mut shown = json!({
        "name": installation.name_any(),
        "namespace": installation.namespace().unwrap_or_default(),
        "spec": spec,
        "status": shown_status(installation.status.as_ref()),
    });
    if let Some(created) = installation.creation_timestamp() {
        shown["creationTimestamp"] = json!(created);
    }
    for (field, texts) in [
        ("labels", installation.labels()),
        ("annotations", installation.annotations()),
    ] {
        if !texts.is_empty() {
            shown[field] = json!(texts);
        }
    }
    shown
}

/// The conditions are a list here, in the order of their types.
fn shown_status(status: Option<&ApplicationInstallationStatus>) -> Value {
    let Some(status) = status else {
        return json!({ "conditions": [] });
    };
    let conditions = status.conditions.iter().map(|(kind, condition)| {
        json!({
            "type": kind,
            "status": condition.status,
            "lastHeartbeatTime": condition.last_heartbeat_time,
            "lastTransitionTime": condition.last_transition_time,
            "reason": condition.reason,
            "message": condition.message,
        })
    });
    let mut shown = json!({
        "conditions": conditions.collect::<Vec<_>>(),
        "failures": status.failures,
    });
    if let Some(version) = &status.application_version {
        shown["applicationVersion"] = json!(version);
    }
    if let Some(method) = &status.method {
        shown["method"] = json!(method);
    }
    if let Some(release) = &status.helm_release {
        shown["helmRelease"] = json!(release);
    }
    if let Some(healthy) = status.conditions.get(HEALTHY) {
        shown["healthy"] = json!(healthy.status);
    }
    shown
}

/// A new installation from the body of a request.
///
/// # Errors
/// The body has another form.
pub fn from_body(body: &Value) -> Result<ApplicationInstallation, ResourceError> {
    let text = |field: &str| body[field].as_str().unwrap_or_default();
    for field in ["name", "namespace"] {
        if text(field).is_empty() {
            return Err(ResourceError::bad_request(format!("{field} must be set")));
        }
    }
    let spec = with_block(read(body["spec"].clone(), "spec")?)?;
    let mut installation = ApplicationInstallation::new(text("name"), spec);
    installation.metadata.namespace = Some(text("namespace").to_owned());
    installation.metadata.labels = texts(body, "labels")?;
    installation.metadata.annotations = texts(body, "annotations")?;
    Ok(installation)
}

/// A spec whose values are YAML: the object is deprecated.
fn with_block(
    mut spec: ApplicationInstallationSpec,
) -> Result<ApplicationInstallationSpec, ResourceError> {
    let has_block = spec
        .values_block
        .as_deref()
        .is_some_and(|it| !it.is_empty());
    let values = installation_values(&spec).map_err(|error: ValuesError| {
        ResourceError::bad_request(format!("spec.values: {error}"))
    })?;
    if !has_block && !values.is_empty() {
        let block = to_block(&values).map_err(|_| {
            ResourceError::bad_request("spec.values: they cannot be written as YAML")
        })?;
        spec.values_block = Some(block);
    }
    spec.values = Some(Value::Object(Map::new()));
    Ok(spec)
}

/// A stored installation with the spec of a body, and nothing else of it.
///
/// # Errors
/// The body has another form.
pub fn replaced(
    stored: &ApplicationInstallation,
    body: &Value,
) -> Result<ApplicationInstallation, ResourceError> {
    let mut replaced = stored.clone();
    replaced.spec = with_block(read(body["spec"].clone(), "spec")?)?;
    Ok(replaced)
}

/// A stored installation after a merge patch of its [`detail`]. The status is not changed.
///
/// # Errors
/// The patch cannot be read, or changes the name or the namespace.
pub fn with_patch(
    stored: &ApplicationInstallation,
    patch: &str,
) -> Result<ApplicationInstallation, ResourceError> {
    let fixed = ["name", "namespace"];
    let shown = patched(detail(stored), patch, "application installation", &fixed)?;
    let mut changed = stored.clone();
    changed.spec = with_block(read(shown["spec"].clone(), "spec")?)?;
    changed.metadata.labels = texts(&shown, "labels")?;
    changed.metadata.annotations = texts(&shown, "annotations")?;
    Ok(changed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{samples, values::parse_block};

    fn stored() -> ApplicationInstallation {
        samples::installation(json!({
            "metadata": {
                "creationTimestamp": "2026-01-01T00:00:00Z", "resourceVersion": "7",
                "labels": { "team": "a" },
            },
            "spec": { "valuesBlock": "# c\na: 1\n", "values": {} },
            "status": {
                "conditions": {
                    "Ready": { "status": "True", "reason": "R", "message": "m",
                        "lastTransitionTime": "t", "lastHeartbeatTime": "h" },
                    "Healthy": { "status": "Unknown" },
                },
                "applicationVersion": samples::version("1.0.0"), "method": "helm",
                "helmRelease": { "name": "r", "version": 3 }, "failures": 2,
            },
        }))
    }

    #[test]
    fn a_list_has_the_reference_and_the_conditions_in_order() {
        let entry = list_entry(&stored());
        assert_eq!(entry["name"], "app-1");
        assert_eq!(entry["namespace"], "apps");
        assert_eq!(entry["labels"], json!({ "team": "a" }));
        assert_eq!(entry["creationTimestamp"], "2026-01-01T00:00:00Z");
        assert!(entry.get("annotations").is_none());
        let spec = json!({
            "namespace": { "name": "target", "create": true },
            "applicationRef": { "name": "example", "version": "1.0.0" },
        });
        assert_eq!(entry["spec"], spec);
        let status = &entry["status"];
        let kinds: Vec<_> = status["conditions"]
            .as_array()
            .expect("a list")
            .iter()
            .map(|condition| condition["type"].as_str().expect("a text"))
            .collect();
        assert_eq!(kinds, ["Healthy", "Ready"]);
        let ready = json!({
            "type": "Ready", "status": "True", "reason": "R", "message": "m",
            "lastTransitionTime": "t", "lastHeartbeatTime": "h",
        });
        assert_eq!(status["conditions"][1], ready);
        assert_eq!(status["method"], "helm");
        assert_eq!(status["helmRelease"]["version"], 3);
        assert_eq!(status["failures"], 2);
        assert_eq!(status["healthy"], "Unknown");
        let new = detail(&samples::installation(json!({})));
        assert_eq!(new["status"], json!({ "conditions": [] }));
        assert_eq!(detail(&stored())["spec"]["valuesBlock"], "# c\na: 1\n");
    }

    #[test]
    fn values_become_yaml() {
        let reference = json!({ "name": "example", "version": "1.0.0" });
        let body = |spec: Value| json!({ "name": "a", "namespace": "n", "spec": spec });
        let made = from_body(&body(json!({
            "applicationRef": reference, "values": { "a": { "b": ["c"] } },
        })));
        let made = made.expect("an installation");
        let block = made.spec.values_block.expect("YAML");
        let values = parse_block(&block).map(Value::Object);
        assert_eq!(values, Ok(json!({ "a": { "b": ["c"] } })));
        assert_eq!(made.spec.values, Some(json!({})));
        let kept = from_body(&body(json!({
            "applicationRef": reference, "valuesBlock": "# c\na: 1\n",
        })));
        let kept = kept.expect("an installation");
        assert_eq!(kept.spec.values_block.as_deref(), Some("# c\na: 1\n"));
        for body in [
            json!({ "name": "a", "spec": { "applicationRef": reference } }),
            json!({ "namespace": "n", "spec": { "applicationRef": reference } }),
            body(json!({})),
            body(
                json!({ "applicationRef": reference, "values": { "a": 1 }, "valuesBlock": "b: 1" }),
            ),
            body(json!({ "applicationRef": reference, "valuesBlock": "[" })),
        ] {
            let error = from_body(&body).expect_err("refused");
            assert_eq!(error.code, 400, "{body}");
        }
    }

    #[test]
    fn a_replacement_changes_the_spec_only_and_a_patch_labels_too() {
        let spec = json!({ "applicationRef": { "name": "example", "version": "2.0.0" } });
        let body = json!({ "labels": { "x": "y" }, "spec": spec });
        let changed = replaced(&stored(), &body).expect("an installation");
        assert_eq!(changed.spec.application_ref.version, "2.0.0");
        assert_eq!(changed.metadata, stored().metadata);
        let patch = r#"{"labels":{"team":null},"spec":{"applicationRef":{"version":"2.0.0"}}}"#;
        let changed = with_patch(&stored(), patch).expect("an installation");
        assert!(changed.labels().is_empty());
        assert_eq!(changed.spec.values_block, stored().spec.values_block);
        assert_eq!(changed.status, stored().status);
        for (patch, wanted) in [
            (
                r#"{"name":"b"}"#,
                "Changing application installation name is not allowed: \"app-1\" to \"b\"",
            ),
            (
                r#"{"namespace":"b"}"#,
                "Changing application installation namespace is not allowed: \"apps\" to \"b\"",
            ),
            ("[]", "invalid merge patch: it is no object"),
        ] {
            let error = with_patch(&stored(), patch).expect_err("refused");
            assert_eq!((error.code, error.message.as_str()), (400, wanted));
        }
    }
}
