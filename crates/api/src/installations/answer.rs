//! Answers: JSON, and errors in the form of the Kubermatic API.

use axum::{body::Body, response::Response};
use http::{HeaderValue, StatusCode, header};
use kube::core::Status;
use ludgate_cluster::deadline::ApiCallError;
use ludgate_installs::{
    resource_json::error::ResourceError,
    validation::field_error::{self, FieldError},
};
use serde_json::Value;

/// A result with its HTTP status.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Answer {
    status: StatusCode,
    body: Value,
}

impl Answer {
    /// The result of a call that made nothing.
    pub(super) fn ok(body: Value) -> Answer {
        Answer {
            status: StatusCode::OK,
            body,
        }
    }

    /// What a call made.
    pub(super) fn created(body: Value) -> Answer {
        Answer {
            status: StatusCode::CREATED,
            body,
        }
    }

    /// The response.
    pub(super) fn into_response(self) -> Response {
        json_response(self.status, &self.body)
    }
}

/// The response of an error.
pub(super) fn error_response(error: &ResourceError) -> Response {
    let status = StatusCode::from_u16(error.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = json_response(status, &error.body());
    if status == StatusCode::UNAUTHORIZED {
        let challenge = HeaderValue::from_static("Bearer realm=\"ludgate\"");
        response
            .headers_mut()
            .insert(header::WWW_AUTHENTICATE, challenge);
    }
    response
}

fn json_response(status: StatusCode, body: &Value) -> Response {
    let mut response = Response::new(Body::from(body.to_string()));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/json"),
    );
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(
        header::X_CONTENT_TYPE_OPTIONS,
        HeaderValue::from_static("nosniff"),
    );
    response
}

/// An object that does not exist, in the words of Kubernetes.
pub(super) fn not_found(resource: &str, name: &str) -> ResourceError {
    ResourceError::new(404, format!("{resource} \"{name}\" not found"))
}

/// An object that breaks rules, in the words of Kubernetes. `kind` and `name` are the object's.
pub(super) fn invalid(kind: &str, name: &str, errors: &[FieldError]) -> ResourceError {
    let details: Vec<String> = errors.iter().map(FieldError::to_string).collect();
    let message = field_error::message(errors);
    let mut error = ResourceError::new(422, format!("{kind} \"{name}\" is invalid: {message}"));
    if details.len() > 1 {
        error.details = details;
    }
    error
}

/// An error of a cluster. Errors of Kubernetes keep code and text.
pub(super) fn from_cluster(error: ApiCallError) -> ResourceError {
    match error {
        ApiCallError::Api(kube::Error::Api(status)) => from_status(&status),
        ApiCallError::Api(error) => {
            tracing::warn!(%error, "cannot call the cluster");
            ResourceError::new(503, "the cluster cannot be reached")
        }
        ApiCallError::Timeout(_) => ResourceError::new(503, error.to_string()),
    }
}

fn from_status(status: &Status) -> ResourceError {
    if !matches!(status.code, 404 | 409 | 422) {
        tracing::warn!(code = status.code, error = status.message, "a call failed");
    }
    let code = match status.code {
        400..=599 => status.code,
        _ => 500,
    };
    ResourceError::new(code, status.message.clone())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn errors_of_kubernetes_keep_code_and_text_and_others_tell_no_address() {
        for (code, wanted) in [(403, 403), (404, 404), (409, 409), (503, 503), (0, 500)] {
            let status = Status::failure("the text", "Reason").with_code(code);
            let error = from_cluster(ApiCallError::Api(kube::Error::Api(status.boxed())));
            assert_eq!((error.code, error.message.as_str()), (wanted, "the text"));
        }
        let refused = std::io::Error::other("10.0.0.1:6443: connection refused");
        let away = from_cluster(ApiCallError::Api(kube::Error::Service(refused.into())));
        assert_eq!(
            (away.code, away.message.as_str()),
            (503, "the cluster cannot be reached")
        );
        let late = from_cluster(ApiCallError::Timeout(Duration::from_secs(6)));
        assert_eq!(late.code, 503);
    }

    #[test]
    fn several_mistakes_are_details_too() {
        let one = FieldError::new("spec.a", "x");
        let error = invalid("Kind", "n", std::slice::from_ref(&one));
        let wanted = "Kind \"n\" is invalid: spec.a: x";
        assert_eq!((error.code, error.message.as_str()), (422, wanted));
        assert!(error.details.is_empty());
        let two = FieldError::new("spec.b", "y");
        let error = invalid("Kind", "n", &[one, two]);
        assert_eq!(
            error.message,
            "Kind \"n\" is invalid: [spec.a: x, spec.b: y]"
        );
        assert_eq!(error.details, ["spec.a: x", "spec.b: y"]);
    }

    #[test]
    fn a_refused_token_names_the_scheme() {
        let response = error_response(&ResourceError::new(401, "request not authorized"));
        assert_eq!(response.status(), StatusCode::UNAUTHORIZED);
        assert!(response.headers().contains_key(header::WWW_AUTHENTICATE));
        let response = error_response(&ResourceError::new(7, "x"));
        assert_eq!(response.status(), StatusCode::INTERNAL_SERVER_ERROR);
    }
}
