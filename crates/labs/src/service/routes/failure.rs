//! Errors as answers.

use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use serde_json::{Value, json};

use crate::error::LabError;

/// Why a request fails.
#[derive(Debug)]
pub(super) enum LabFailure {
    /// As labs fail.
    Lab(LabError),
    /// The body is larger than the limit.
    BodyTooLarge,
    /// The body is not complete within its deadline, or the client left.
    BodyIncomplete,
}

impl LabFailure {
    /// An error about the person in the path of the request.
    pub(super) fn in_path(error: LabError) -> LabFailure {
        LabFailure::located(error, true)
    }

    /// An error about a person who is not in the path of the request.
    pub(super) fn elsewhere(error: LabError) -> LabFailure {
        LabFailure::located(error, false)
    }

    fn located(mut error: LabError, in_path: bool) -> LabFailure {
        if let LabError::UnknownUser { is_in_path, .. } = &mut error {
            *is_in_path = in_path;
        }
        LabFailure::Lab(error)
    }

    fn status(&self) -> StatusCode {
        match self {
            LabFailure::Lab(error) => {
                StatusCode::from_u16(error.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
            }
            LabFailure::BodyTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            LabFailure::BodyIncomplete => StatusCode::REQUEST_TIMEOUT,
        }
    }

    fn body(&self) -> Value {
        let (kind, message) = match self {
            LabFailure::Lab(error) => return error.body(),
            LabFailure::BodyTooLarge => ("too_long", "Request body is larger than 256 KiB"),
            LabFailure::BodyIncomplete => ("incomplete", "Request body is incomplete"),
        };
        json!({ "detail": [{ "loc": ["body"], "msg": message, "type": kind }] })
    }
}

impl From<LabError> for LabFailure {
    fn from(error: LabError) -> LabFailure {
        LabFailure::Lab(error)
    }
}

impl IntoResponse for LabFailure {
    fn into_response(self) -> Response {
        let status = self.status();
        let headers = [(header::CONTENT_TYPE, "application/json")];
        let mut response = (status, headers, self.body().to_string()).into_response();
        let headers = response.headers_mut();
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        // The rest of the body is not read.
        if !matches!(self, LabFailure::Lab(_)) {
            headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }
}
