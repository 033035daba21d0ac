//! The JSON body of a request, bounded in size and time.

use std::time::Duration;

use axum::body::Body;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde_json::Value;

use super::failure::LabFailure;
use crate::error::{BodyProblem, LabError};

/// Largest body, in bytes.
const MAX_BODY: usize = 256 * 1024;
/// A body must be complete within this time.
const BODY_DEADLINE: Duration = Duration::from_secs(30);

/// Reads a JSON body.
pub(super) async fn read_json(body: Body) -> Result<Value, LabFailure> {
    let collected = Limited::new(body, MAX_BODY).collect();
    let collected = tokio::time::timeout(BODY_DEADLINE, collected).await;
    let collected = collected.map_err(|_| LabFailure::BodyIncomplete)?;
    let bytes = collected.map_err(|error| match error.is::<LengthLimitError>() {
        true => LabFailure::BodyTooLarge,
        false => LabFailure::BodyIncomplete,
    })?;
    serde_json::from_slice(&bytes.to_bytes()).map_err(|error| {
        // The message of the library has no part of the body, which has secrets.
        let problem = BodyProblem {
            location: vec!["body".to_owned()],
            kind: "json_invalid",
            message: format!("JSON decode error: {error}"),
        };
        LabError::InvalidBody(vec![problem]).into()
    })
}
