//! Errors of operations, with the codes of PrimeHub's API.

use kube::core::Status;
use ludgate_cluster::deadline::ApiCallError;

/// Why an operation failed. The text is for the person who called.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OperationError {
    /// The person may not do this. The text is PrimeHub's.
    #[error("Not Authorised!")]
    NotAuthorised,
    /// The object does not exist, or belongs to a group that the person is not in.
    #[error("{kind} \"{name}\" not found")]
    NotFound {
        /// The kind, as Kubernetes names it in its own errors.
        kind: &'static str,
        /// The name.
        name: String,
    },
    /// The request is wrong; nothing was written.
    #[error("{0}")]
    Invalid(String),
    /// The object exists already, or was changed by others at the same time.
    #[error("{0}")]
    Conflict(String),
    /// The cluster does not answer or refuses to.
    #[error("{0}")]
    Unavailable(String),
}

impl OperationError {
    /// `extensions.code` of the error.
    pub fn code(&self) -> &'static str {
        match self {
            OperationError::NotAuthorised => "NOT_AUTH",
            OperationError::NotFound { .. } => "RESOURCE_NOT_FOUND",
            OperationError::Invalid(_) => "REQUEST_BODY_INVALID",
            OperationError::Conflict(_) => "RESOURCE_CONFLICT",
            OperationError::Unavailable(_) => "API_UNAVAILABLE",
        }
    }

    fn from_status(status: &Status) -> OperationError {
        match status.code {
            409 => OperationError::Conflict(status.message.clone()),
            400 | 413 | 422 => OperationError::Invalid(status.message.clone()),
            403 => {
                tracing::warn!(error = status.message, "the cluster refused a call");
                OperationError::Unavailable("the cluster does not permit this".to_owned())
            }
            _ => {
                tracing::warn!(code = status.code, error = status.message, "a call failed");
                OperationError::Unavailable(status.message.clone())
            }
        }
    }
}

impl From<ApiCallError> for OperationError {
    fn from(error: ApiCallError) -> OperationError {
        match error {
            ApiCallError::Api(kube::Error::Api(status)) => OperationError::from_status(&status),
            ApiCallError::Api(error) => {
                tracing::warn!(%error, "cannot call the cluster");
                OperationError::Unavailable("the cluster cannot be reached".to_owned())
            }
            ApiCallError::Timeout(_) => OperationError::Unavailable(error.to_string()),
        }
    }
}
