//! The key with which a client marks a request that it sends again.

use http::HeaderMap;
use ludgate_model::header_values::single;

use crate::error::{BodyProblem, LabError};

/// The header with the client's key.
const IDEMPOTENCY_KEY: http::HeaderName = http::HeaderName::from_static("idempotency-key");
/// Longest key, in bytes.
const MAX_KEY: usize = 255;

/// The client's key.
pub(super) fn idempotency_key(headers: &HeaderMap) -> Result<Option<String>, LabError> {
    if !headers.contains_key(&IDEMPOTENCY_KEY) {
        return Ok(None);
    }
    let key = single(headers, &IDEMPOTENCY_KEY).and_then(|value| value.to_str().ok());
    match key.filter(|key| (1..=MAX_KEY).contains(&key.len())) {
        Some(key) => Ok(Some(key.to_owned())),
        None => Err(LabError::InvalidBody(vec![BodyProblem {
            location: vec!["header".to_owned(), "Idempotency-Key".to_owned()],
            kind: "value_error",
            message: format!("The key must be one text of at most {MAX_KEY} characters"),
        }])),
    }
}
