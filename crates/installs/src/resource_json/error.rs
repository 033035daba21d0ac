//! Errors of the REST API.

use serde_json::{Value, json};

/// Why a request fails.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ResourceError {
    /// The HTTP status.
    pub code: u16,
    /// What is wrong, for people.
    pub message: String,
    /// More about it.
    pub details: Vec<String>,
}

impl ResourceError {
    /// The request cannot be understood, or asks for what is not allowed.
    pub fn bad_request(message: impl Into<String>) -> ResourceError {
        ResourceError::new(400, message)
    }

    /// Only administrators may do it.
    pub fn not_admin(email: &str) -> ResourceError {
        ResourceError::new(
            403,
            format!("forbidden: \"{email}\" doesn't have admin rights"),
        )
    }

    /// An error with an HTTP status.
    pub fn new(code: u16, message: impl Into<String>) -> ResourceError {
        ResourceError {
            code,
            message: message.into(),
            details: Vec::new(),
        }
    }

    /// The body of the response.
    pub fn body(&self) -> Value {
        let mut error = json!({ "code": self.code, "message": self.message });
        if !self.details.is_empty() {
            error["details"] = json!(self.details);
        }
        json!({ "error": error })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_has_details_only_if_there_are_some() {
        let mut error = ResourceError::not_admin("a@b");
        let message = "forbidden: \"a@b\" doesn't have admin rights";
        let wanted = json!({ "error": { "code": 403, "message": message } });
        assert_eq!(error.body(), wanted);
        error.details.push("d".into());
        assert_eq!(error.body()["error"]["details"], json!(["d"]));
    }
}
