//! Decides on admission requests. Pure: calls the checks of the controllers.
//!
//! Invariant: an update that leaves the spec as it is passes, so that labels and finalizers of an
//! invalid object can be changed.

use std::sync::Arc;

use kube::{
    ResourceExt,
    api::DynamicObject,
    core::admission::{AdmissionResponse, AdmissionReview},
};
use ludgate_cluster::object::DeepObject;
use serde_json::{Value, json};

use super::object_rules::{ObjectRequest, ObjectRules, with_namespace};
use crate::{
    application::{self, settings::ApplicationSettings, template},
    viewer::{self, settings::ViewerSettings},
};

/// Longest warning that `kubectl` shows in full, in bytes.
const MAX_WARNING: usize = 256;
/// Maximum number of warnings of one response.
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

/// Reads the body of a request; `None`: it has no request.
///
/// # Errors
/// The body is no AdmissionReview of version v1.
pub fn read_request(body: &[u8]) -> Result<Option<ObjectRequest>, serde_json::Error> {
    let review: AdmissionReview<DeepObject> = serde_json::from_slice(body)?;
    let request: Result<ObjectRequest, _> = review.try_into();
    Ok(request.ok())
}

/// The response to a request. `others` are the rules of its kind, if its controller is in another
/// crate.
pub fn respond(
    kind: ReviewKind,
    request: &ObjectRequest,
    rules: &AdmissionRules,
    others: Option<&dyn ObjectRules>,
) -> AdmissionReview<DynamicObject> {
    let namespace = request.namespace.as_deref().unwrap_or_default();
    let response = match (kind, others) {
        (ReviewKind::Validate, Some(others)) => validated_by(others, request),
        (ReviewKind::Default, Some(others)) => {
            defaulted(request, |object| others.with_defaults(request, object))
        }
        // Other controllers, with rules of their own, may have these objects.
        (_, None) if !rules.namespaces.iter().any(|own| own == namespace) => {
            AdmissionResponse::from(request)
        }
        (ReviewKind::Validate, None) => validated(request, rules),
        (ReviewKind::Default, None) => {
            let kind = request.kind.kind.as_str();
            defaulted(request, |object| with_defaults(kind, &object.spec))
        }
    };
    response.into_review()
}

fn validated_by(others: &dyn ObjectRules, request: &ObjectRequest) -> AdmissionResponse {
    let mut response = AdmissionResponse::from(request);
    match others.validate(request) {
        Ok(warnings) => {
            response.warnings = (!warnings.is_empty()).then(|| shortened(warnings));
            response
        }
        Err(reason) => response.deny(reason),
    }
}

fn validated(request: &ObjectRequest, rules: &AdmissionRules) -> AdmissionResponse {
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
        ("PhApplication" | "PhAppTemplate", None, _)
        | ("PVCViewer", _, None)
        | ("ApplicationDefinition" | "ApplicationInstallation", ..) => Ok(()),
        (other, ..) => Err(format!("the webhook has no rules for the kind {other}")),
    };
    match verdict {
        Ok(()) => response,
        Err(reason) => response.deny(reason),
    }
}

/// What is wrong with a template.
fn warnings(
    request: &ObjectRequest,
    object: &DeepObject,
    settings: &ApplicationSettings,
) -> Vec<String> {
    let problems = template::problems(&whole(request, object), &settings.pods);
    let texts = problems.iter().map(ToString::to_string);
    shortened(texts.collect())
}

/// As many warnings, and as much of each, as `kubectl` shows.
fn shortened(mut warnings: Vec<String>) -> Vec<String> {
    warnings.truncate(MAX_WARNINGS);
    for text in &mut warnings {
        text.truncate(text.floor_char_boundary(MAX_WARNING));
    }
    warnings
}

fn defaulted(
    request: &ObjectRequest,
    with_defaults: impl FnOnce(&DeepObject) -> Value,
) -> AdmissionResponse {
    let response = AdmissionResponse::from(request);
    let Some(object) = &request.object else {
        return response;
    };
    let spec = with_defaults(object);
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
fn whole(request: &ObjectRequest, object: &DeepObject) -> Value {
    let kind = &request.kind;
    json!({
        "apiVersion": format!("{}/{}", kind.group, kind.version),
        "kind": kind.kind,
        "metadata": { "name": object.name_any() },
        "spec": object.spec,
    })
}

#[cfg(test)]
mod tests;
