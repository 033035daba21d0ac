//! Tests of reviews of objects.

use super::*;
use crate::application::samples;

/// The rules of the namespace `hub`, where both controllers are on.
fn all_rules() -> AdmissionRules {
    AdmissionRules {
        namespaces: Arc::new(["hub".to_owned()]),
        applications: Some(Arc::new(samples::settings())),
        viewers: Some(Arc::new(viewer::samples::settings())),
    }
}

/// The response to a review of an object, and of the one that it replaces.
fn answer(kind: ReviewKind, of: &str, spec: Value, old: Option<Value>) -> Value {
    answer_by(&all_rules(), "hub", kind, of, spec, old)
}

fn answer_by(
    rules: &AdmissionRules,
    namespace: &str,
    kind: ReviewKind,
    of: &str,
    spec: Value,
    old: Option<Value>,
) -> Value {
    let object = |spec: Value| json!({ "metadata": { "name": "lab" }, "spec": spec });
    let body = json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "1",
            "kind": { "group": "primehub.io", "version": "v1alpha1", "kind": of },
            "resource": { "group": "primehub.io", "version": "v1alpha1", "resource": "x" },
            "name": "lab",
            "namespace": namespace,
            "operation": "UPDATE",
            "userInfo": {},
            "object": object(spec),
            "oldObject": old.map(object),
        },
    });
    respond_to(&body, kind, rules, None)
}

fn respond_to(
    body: &Value,
    kind: ReviewKind,
    rules: &AdmissionRules,
    others: Option<&dyn ObjectRules>,
) -> Value {
    let request = read_request(body.to_string().as_bytes()).expect("a review");
    let review = respond(kind, &request.expect("a request"), rules, others);
    serde_json::to_value(review).expect("JSON")["response"].take()
}

fn app(more: Value) -> Value {
    let pod = json!({ "spec": { "containers": [{ "name": "app", "image": "app:1" }] } });
    let mut spec = samples::spec(json!({ "podTemplate": pod }));
    if let (Value::Object(spec), Value::Object(more)) = (&mut spec, more) {
        spec.extend(more);
    }
    spec
}

#[test]
fn an_invalid_app_is_denied_with_the_message_of_its_status() {
    let host_network = json!({ "podTemplate": { "spec": {
        "hostNetwork": true, "containers": [{ "name": "app", "image": "app:1" }],
    } } });
    for (more, wanted) in [
        (json!({}), None),
        (
            host_network.clone(),
            Some("podTemplate: not allowed: hostNetwork"),
        ),
        (
            json!({ "podTemplate": { "spec": { "containers": [] } } }),
            Some("podTemplate.spec.containers has no container"),
        ),
        (
            json!({ "svcTemplate": { "spec": { "ports": [{ "name": "http" }] } } }),
            Some("svcTemplate.spec.ports has an entry without a port"),
        ),
        // An app can be stopped, whatever else is wrong.
        (
            json!({ "stop": true, "podTemplate": { "spec": { "containers": [] } } }),
            None,
        ),
    ] {
        let response = answer(ReviewKind::Validate, "PhApplication", app(more), None);
        assert_eq!(response["allowed"], wanted.is_none(), "{response}");
        assert_eq!(response["status"]["message"].as_str(), wanted, "{response}");
    }
    let spec = app(host_network.clone());
    let kind = ReviewKind::Validate;
    let response = answer_by(&all_rules(), "other", kind, "PhApplication", spec, None);
    assert_eq!(response["allowed"], true, "{response}");
    let unchanged = app(host_network);
    let old = Some(unchanged.clone());
    let response = answer(ReviewKind::Validate, "PhApplication", unchanged, old);
    assert_eq!(response["allowed"], true, "{response}");
}

#[test]
fn a_template_gets_warnings_and_another_kind_is_denied() {
    let response = answer(ReviewKind::Validate, "PhAppTemplate", json!({}), None);
    assert_eq!(response["allowed"], true);
    let warnings = response["warnings"].as_array().expect("a list");
    assert!(!warnings.is_empty(), "{response}");
    let response = answer(ReviewKind::Validate, "Pod", json!({}), None);
    assert_eq!(response["allowed"], false);
}

#[test]
fn an_invalid_viewer_is_denied_with_the_message_of_its_condition() {
    let with_pod = |claim: &str, container: Value| {
        let volume = json!({ "name": "v", "persistentVolumeClaim": { "claimName": claim } });
        let pod = json!({ "containers": [container], "volumes": [volume] });
        json!({ "pvc": "data", "podSpec": pod })
    };
    let privileged = json!({ "name": "a", "securityContext": { "privileged": true } });
    let before = || json!({ "pvc": "data" });
    for (spec, old, wanted) in [
        (json!({ "pvc": "data" }), None, None),
        (
            json!({ "pvc": "" }),
            None,
            Some("PVC name must be specified"),
        ),
        (
            with_pod("other", json!({ "name": "a" })),
            None,
            Some("PVC data must be used in the podSpec"),
        ),
        (
            json!({ "pvc": "other" }),
            Some(before()),
            Some("PVC name is immutable"),
        ),
        (
            with_pod("data", privileged.clone()),
            Some(before()),
            Some("podSpec: not allowed: containers[a].securityContext.privileged"),
        ),
        // A label of a viewer that became invalid can change.
        (
            with_pod("data", privileged.clone()),
            Some(with_pod("data", privileged.clone())),
            None,
        ),
    ] {
        let response = answer(ReviewKind::Validate, "PVCViewer", spec, old);
        assert_eq!(response["allowed"], wanted.is_none(), "{response}");
        assert_eq!(response["status"]["message"].as_str(), wanted, "{response}");
    }
    let response = answer(ReviewKind::Default, "PVCViewer", before(), None);
    assert!(response["patch"].is_null(), "{response}");
}

#[test]
fn the_namespace_of_a_new_viewer_is_that_of_the_request() {
    let volume = json!({ "name": "v", "persistentVolumeClaim": { "claimName": "data" } });
    let pod = json!({ "containers": [{ "name": "a" }], "volumes": [volume], "hostPID": true });
    let spec = json!({ "pvc": "data", "podSpec": pod });
    let mut settings = viewer::samples::settings();
    settings.trusted_namespaces.insert("hub".to_owned());
    let rules = AdmissionRules {
        namespaces: Arc::new(["hub".to_owned()]),
        applications: None,
        viewers: Some(Arc::new(settings)),
    };
    let response = answer_by(&rules, "hub", ReviewKind::Validate, "PVCViewer", spec, None);
    assert_eq!(response["allowed"], true, "{response}");
}

#[test]
fn objects_of_a_controller_that_is_off_are_allowed() {
    let rules = AdmissionRules {
        namespaces: Arc::new(["hub".to_owned()]),
        applications: None,
        viewers: None,
    };
    for kind in [
        "PhApplication",
        "PhAppTemplate",
        "PVCViewer",
        "ApplicationDefinition",
        "ApplicationInstallation",
    ] {
        let spec = json!({});
        let response = answer_by(&rules, "hub", ReviewKind::Validate, kind, spec, None);
        assert_eq!(response["allowed"], true, "{kind}: {response}");
    }
}

#[test]
fn defaults_are_a_patch_of_the_fields_that_were_absent() {
    let ports = json!({ "svcTemplate": { "spec": { "ports": [{ "port": 5000 }] } } });
    let response = answer(ReviewKind::Default, "PhApplication", app(ports), None);
    // Go reads a list of numbers as bytes.
    let patch: Vec<u8> = serde_json::from_value(response["patch"].clone()).expect("bytes");
    let patch: Value = serde_json::from_slice(&patch).expect("JSON");
    assert_eq!(
        patch,
        json!([
            { "op": "add", "path": "/spec/svcTemplate/spec/ports/0/protocol", "value": "TCP" },
            { "op": "add", "path": "/spec/svcTemplate/spec/ports/0/targetPort", "value": 5000 },
        ])
    );
    let response = answer(ReviewKind::Default, "PhApplication", app(json!({})), None);
    assert!(response["patch"].is_null(), "{response}");
}

/// Rules that deny each deletion, warn of all else, and set a default.
struct SampleRules;

impl ObjectRules for SampleRules {
    fn validate(&self, request: &ObjectRequest) -> Result<Vec<String>, String> {
        match &request.object {
            Some(_) => Ok(vec!["w".repeat(300)]),
            None => Err("it stays".to_owned()),
        }
    }

    fn with_defaults(&self, _request: &ObjectRequest, object: &DeepObject) -> Value {
        let mut spec = object.spec.clone();
        spec["a"] = 1.into();
        spec
    }
}

#[test]
fn rules_of_another_crate_decide_in_each_namespace() {
    let rules = AdmissionRules {
        namespaces: Arc::new([]),
        applications: None,
        viewers: None,
    };
    let object = json!({ "metadata": { "name": "a" }, "spec": {} });
    let response = |kind: ReviewKind, operation: &str, object: Value| {
        let kind_of = json!({ "group": "x.example", "version": "v1", "kind": "X" });
        let resource = json!({ "group": "x.example", "version": "v1", "resource": "xs" });
        let body = json!({
            "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
            "request": {
                "uid": "1", "kind": kind_of, "resource": resource, "name": "a",
                "operation": operation, "userInfo": {}, "object": object,
            },
        });
        respond_to(&body, kind, &rules, Some(&SampleRules))
    };
    let created = response(ReviewKind::Validate, "CREATE", object.clone());
    assert_eq!(created["allowed"], true, "{created}");
    assert_eq!(created["warnings"], json!(["w".repeat(MAX_WARNING)]));
    let deleted = response(ReviewKind::Validate, "DELETE", Value::Null);
    assert_eq!(deleted["allowed"], false, "{deleted}");
    assert_eq!(deleted["status"]["message"], "it stays");
    let defaulted = response(ReviewKind::Default, "CREATE", object);
    let patch: Vec<u8> = serde_json::from_value(defaulted["patch"].clone()).expect("bytes");
    let patch: Value = serde_json::from_slice(&patch).expect("JSON");
    assert_eq!(
        patch,
        json!([{ "op": "add", "path": "/spec/a", "value": 1 }])
    );
}
