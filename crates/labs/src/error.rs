//! Why a request fails, with the status and the body of the answer. Both dialects have one shape.

use serde_json::{Value, json};

/// A problem of the body of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BodyProblem {
    /// Path of the value.
    pub location: Vec<String>,
    /// A stable word for the kind of problem.
    pub kind: &'static str,
    /// What is wrong.
    pub message: String,
}

/// Why a request about a lab fails.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LabError {
    /// The token of the person is invalid.
    #[error("User token is invalid")]
    InvalidToken,
    /// The caller may not do it.
    #[error("Permission denied")]
    PermissionDenied,
    /// The person may not start labs.
    #[error("Your quota does not allow starting a lab")]
    SpawnNotAllowed,
    /// The size is above the quota of the person.
    #[error("Insufficient quota to spawn requested lab")]
    InsufficientQuota,
    /// The identity of the person has no UID or GID.
    #[error("{0} has no UID or no GID")]
    NoPosixIdentity(String),
    /// There is no lab of this person.
    #[error("Unknown user {username}")]
    UnknownUser {
        /// The person.
        username: String,
        /// Whether the path of the request names the person.
        is_in_path: bool,
    },
    /// The name is none of a person.
    #[error("Invalid username {0:?}")]
    InvalidUsername(String),
    /// The feature is switched off.
    #[error("{0}")]
    NotSupported(String),
    /// There is no such object.
    #[error("{0}")]
    NotFound(String),
    /// The person has a lab.
    #[error("Lab already exists for {0}")]
    LabExists(String),
    /// The lab of the person is being started or deleted.
    #[error("Conflicting operation for {0} already in progress")]
    OperationInProgress(String),
    /// There is no such image.
    #[error("{message}")]
    UnknownImage {
        /// The field of the options.
        field: &'static str,
        /// What was looked for.
        message: String,
    },
    /// The reference of the image cannot be used.
    #[error("{message}")]
    InvalidReference {
        /// The field of the options.
        field: &'static str,
        /// What is wrong with it.
        message: String,
    },
    /// The configuration has no such size.
    #[error("Invalid lab size \"{0}\"")]
    InvalidSize(String),
    /// The body of the request is invalid.
    #[error("invalid request body")]
    InvalidBody(Vec<BodyProblem>),
    /// The lab could not be deleted.
    #[error("{0}")]
    DeleteFailed(String),
    /// A file server, or the pod for administrators, could not be started or deleted.
    #[error("{message}")]
    ServerFailed {
        /// A stable word for what failed.
        kind: &'static str,
        /// Why.
        message: String,
    },
    /// A service that is needed for the answer does not answer, as the log says; the request may be
    /// sent again.
    #[error("{0}")]
    Unavailable(String),
}

impl LabError {
    /// The person in the path of the request has no lab.
    pub fn unknown_user(username: &str) -> LabError {
        LabError::UnknownUser {
            username: username.to_owned(),
            is_in_path: true,
        }
    }

    /// The status of the answer.
    pub fn status(&self) -> u16 {
        match self {
            LabError::UnknownImage { .. } => 400,
            LabError::InvalidToken => 401,
            LabError::PermissionDenied
            | LabError::SpawnNotAllowed
            | LabError::InsufficientQuota
            | LabError::NoPosixIdentity(_) => 403,
            LabError::UnknownUser { .. } | LabError::NotSupported(_) | LabError::NotFound(_) => 404,
            LabError::LabExists(_) | LabError::OperationInProgress(_) => 409,
            LabError::InvalidReference { .. }
            | LabError::InvalidSize(_)
            | LabError::InvalidUsername(_)
            | LabError::InvalidBody(_) => 422,
            LabError::DeleteFailed(_) | LabError::ServerFailed { .. } => 500,
            LabError::Unavailable(_) => 503,
        }
    }

    /// A stable word for the kind of error.
    pub fn kind(&self) -> &'static str {
        match self {
            LabError::InvalidToken => "invalid_token",
            LabError::PermissionDenied | LabError::NoPosixIdentity(_) => "permission_denied",
            LabError::SpawnNotAllowed | LabError::InsufficientQuota => "insufficient_quota",
            LabError::UnknownUser { .. } => "unknown_user",
            LabError::InvalidUsername(_) => "invalid_username",
            LabError::NotSupported(_) => "not_supported",
            LabError::NotFound(_) => "not_found",
            LabError::LabExists(_) => "lab_exists",
            LabError::OperationInProgress(_) => "operation_in_progress",
            LabError::UnknownImage { .. } => "unknown_image",
            LabError::InvalidReference { .. } => "invalid_docker_reference",
            LabError::InvalidSize(_) => "invalid_lab_size",
            LabError::InvalidBody(_) => "value_error",
            LabError::DeleteFailed(_) => "delete_failed",
            LabError::ServerFailed { kind, .. } => kind,
            LabError::Unavailable(_) => "unavailable",
        }
    }

    fn location(&self) -> Option<Vec<&str>> {
        match self {
            LabError::UnknownUser {
                is_in_path: true, ..
            }
            | LabError::InvalidUsername(_) => Some(vec!["path", "username"]),
            LabError::InsufficientQuota | LabError::InvalidSize(_) => {
                Some(vec!["body", "options", "size"])
            }
            LabError::UnknownImage { field, .. } | LabError::InvalidReference { field, .. } => {
                Some(vec!["body", "options", field])
            }
            LabError::InvalidToken
            | LabError::PermissionDenied
            | LabError::SpawnNotAllowed
            | LabError::NoPosixIdentity(_)
            | LabError::UnknownUser { .. }
            | LabError::NotSupported(_)
            | LabError::NotFound(_)
            | LabError::LabExists(_)
            | LabError::OperationInProgress(_)
            | LabError::InvalidBody(_)
            | LabError::DeleteFailed(_)
            | LabError::ServerFailed { .. }
            | LabError::Unavailable(_) => None,
        }
    }

    /// The body of the answer.
    pub fn body(&self) -> Value {
        if let LabError::InvalidBody(problems) = self {
            let details = problems.iter().map(|problem| {
                json!({
                    "loc": problem.location,
                    "msg": problem.message,
                    "type": problem.kind,
                })
            });
            return json!({ "detail": details.collect::<Vec<Value>>() });
        }
        let mut detail = json!({ "msg": self.to_string(), "type": self.kind() });
        if let Some(location) = self.location() {
            detail["loc"] = json!(location);
        }
        json!({ "detail": [detail] })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_has_its_place_only_if_the_request_has_one() {
        let error = LabError::unknown_user("rachel");
        let expected = json!({ "detail": [{
            "loc": ["path", "username"],
            "msg": "Unknown user rachel",
            "type": "unknown_user",
        }] });
        assert_eq!((error.status(), error.body()), (404, expected));
        let expected = json!({ "detail": [{
            "msg": "Lab already exists for rachel",
            "type": "lab_exists",
        }] });
        let error = LabError::LabExists("rachel".to_owned());
        assert_eq!((error.status(), error.body()), (409, expected));
    }

    #[test]
    fn each_problem_of_a_body_is_an_entry() {
        let error = LabError::InvalidBody(vec![BodyProblem {
            location: vec!["body".to_owned(), "env".to_owned()],
            kind: "missing",
            message: "Field required".to_owned(),
        }]);
        let expected = json!({ "detail": [{
            "loc": ["body", "env"],
            "msg": "Field required",
            "type": "missing",
        }] });
        assert_eq!((error.status(), error.body()), (422, expected));
    }
}
