//! Decides on admission requests. Pure: calls the checks of the controllers.
//!
//! Invariant: an update that leaves the spec as it is passes, so that labels and finalizers of an
//! invalid object can be changed.

use std::sync::Arc;

use kube::{
    Resource, ResourceExt,
    api::DynamicObject,
    core::admission::{AdmissionRequest, AdmissionResponse, AdmissionReview},
};
use ludgate_cluster::object::DeepObject;
use serde_json::{Value, json};

use crate::{
    application::{self, settings::ApplicationSettings, template},
    viewer::{self, settings::ViewerSettings},
};

/// Longest warning that `kubectl` shows in full, in bytes.
const MAX_WARNING: usize = 256;
/// Most warnings of one response.
const MAX_WARNINGS: usize = 16;

/// What the API server asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReviewKind {
    /// A ValidatingWebhookConfiguration: may the object be stored?
    Validate,
    /// A MutatingWebhookConfiguration: which defaults does it get?
    Default,
}

/// What the decisions depend on, besides the object.
#[derive(Clone)]
pub struct AdmissionRules {
    /// The namespaces with objects that these rules are for.
    pub namespaces: Arc<[String]>,
    /// The settings of the controller of apps; `None`: it is off.
    pub applications: Option<Arc<ApplicationSettings>>,
    /// The settings of the controller of viewers; `None`: it is off.
    pub viewers: Option<Arc<ViewerSettings>>,
}

/// The response to the body of a request.
///
/// # Errors
/// The body is no AdmissionReview of version v1.
pub fn review(
    kind: ReviewKind,
    body: &[u8],
    rules: &AdmissionRules,
) -> Result<AdmissionReview<DynamicObject>, serde_json::Error> {
    let review: AdmissionReview<DeepObject> = serde_json::from_slice(body)?;
    let request: Result<AdmissionRequest<DeepObject>, _> = review.try_into();
    let Ok(request) = request else {
        return Ok(AdmissionResponse::invalid("the review has no request").into_review());
    };
    let namespace = request.namespace.as_deref().unwrap_or_default();
    if !rules.namespaces.iter().any(|own| own == namespace) {
        // Other controllers, with rules of their own, may have these objects.
        return Ok(AdmissionResponse::from(&request).into_review());
    }
    let response = match kind {
        ReviewKind::Validate => validated(&request, rules),
        ReviewKind::Default => defaulted(&request),
    };
    Ok(response.into_review())
}

fn validated(request: &AdmissionRequest<DeepObject>, rules: &AdmissionRules) -> AdmissionResponse {
    let mut response = AdmissionResponse::from(request);
    // A deletion has no object.
    let Some(object) = &request.object else {
        return response;
    };
    let kind = request.kind.kind.as_str();
    // The new object has its defaults already, and the old one may be older than the webhook.
    let before = request.old_object.as_ref();
    if before.is_some_and(|old| with_defaults(kind, &old.spec) == object.spec) {
        return response;
    }
    let verdict = match (kind, &rules.applications, &rules.viewers) {
        ("PhApplication", Some(settings), _) => application::validate::validate(object, settings),
        ("PhAppTemplate", Some(settings), _) => {
            response.warnings = Some(warnings(request, object, settings));
            Ok(())
        }
        ("PVCViewer", _, Some(settings)) => {
            let before = before.map(|old| &old.spec);
            viewer::validate::validate(&with_namespace(request, object), before, settings)
        }
        // The controller of these objects is off here, and may run elsewhere with other rules.
        ("PhApplication" | "PhAppTemplate", None, _) | ("PVCViewer", _, None) => Ok(()),
        (other, ..) => Err(format!("the webhook has no rules for the kind {other}")),
    };
    match verdict {
        Ok(()) => response,
        Err(reason) => response.deny(reason),
    }
}

/// What is wrong with a template.
fn warnings(
    request: &AdmissionRequest<DeepObject>,
    object: &DeepObject,
    settings: &ApplicationSettings,
) -> Vec<String> {
    let problems = template::problems(&whole(request, object), &settings.pods);
    let warnings = problems.iter().take(MAX_WARNINGS).map(|problem| {
        let text = problem.to_string();
        text[..text.floor_char_boundary(MAX_WARNING)].to_owned()
    });
    warnings.collect()
}

/// The object with the namespace of the request. Before Kubernetes 1.21, the metadata of a new
/// object may have none.
fn with_namespace(request: &AdmissionRequest<DeepObject>, object: &DeepObject) -> DeepObject {
    let mut object = object.clone();
    object.meta_mut().namespace.clone_from(&request.namespace);
    object
}

fn defaulted(request: &AdmissionRequest<DeepObject>) -> AdmissionResponse {
    let response = AdmissionResponse::from(request);
    let Some(object) = &request.object else {
        return response;
    };
    let spec = with_defaults(&request.kind.kind, &object.spec);
    let patch = json_patch::diff(&json!({ "spec": object.spec }), &json!({ "spec": spec }));
    if patch.is_empty() {
        return response;
    }
    match response.clone().with_patch(patch) {
        Ok(patched) => patched,
        // The controller applies the same defaults.
        Err(_) => response,
    }
}

/// A spec with the defaults of its kind.
fn with_defaults(kind: &str, spec: &Value) -> Value {
    match kind {
        "PhApplication" => application::validate::with_defaults(spec),
        _ => spec.clone(),
    }
}

/// The object as in a file, with what the checks of a file need.
fn whole(request: &AdmissionRequest<DeepObject>, object: &DeepObject) -> Value {
    let kind = &request.kind;
    json!({
        "apiVersion": format!("{}/{}", kind.group, kind.version),
        "kind": kind.kind,
        "metadata": { "name": object.name_any() },
        "spec": object.spec,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::application::samples;

    /// The response to a review of an object, and of the one that it replaces.
    fn answer(kind: ReviewKind, of: &str, spec: Value, old: Option<Value>) -> Value {
        answer_in("hub", kind, of, spec, old)
    }

    fn answer_in(
        namespace: &str,
        kind: ReviewKind,
        of: &str,
        spec: Value,
        old: Option<Value>,
    ) -> Value {
        let rules = AdmissionRules {
            namespaces: Arc::new(["hub".to_owned()]),
            applications: Some(Arc::new(samples::settings())),
            viewers: Some(Arc::new(viewer::samples::settings())),
        };
        answer_by(&rules, namespace, kind, of, spec, old)
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
        let review = review(kind, body.to_string().as_bytes(), rules).expect("a review");
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
        let response = answer_in("other", ReviewKind::Validate, "PhApplication", spec, None);
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
        for kind in ["PhApplication", "PhAppTemplate", "PVCViewer"] {
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
}
