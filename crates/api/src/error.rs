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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_cluster_says_reaches_people_unless_it_is_about_our_rights() {
        for (status, message, code, wanted) in [
            (
                409,
                "phapplications.primehub.io \"lab\" already exists",
                "RESOURCE_CONFLICT",
                "phapplications.primehub.io \"lab\" already exists",
            ),
            (
                422,
                "spec.scope: Unsupported value: \"all\"",
                "REQUEST_BODY_INVALID",
                "spec.scope: Unsupported value: \"all\"",
            ),
            (400, "no JSON", "REQUEST_BODY_INVALID", "no JSON"),
            (413, "too large", "REQUEST_BODY_INVALID", "too large"),
            (
                403,
                "User \"system:serviceaccount:hub:ludgate-api\" cannot patch resource",
                "API_UNAVAILABLE",
                "the cluster does not permit this",
            ),
            (500, "etcd is away", "API_UNAVAILABLE", "etcd is away"),
            (429, "slow down", "API_UNAVAILABLE", "slow down"),
        ] {
            let status = Status::failure(message, "Reason").with_code(status);
            let error = OperationError::from(ApiCallError::Api(kube::Error::Api(status.boxed())));
            assert_eq!((error.code(), error.to_string().as_str()), (code, wanted));
        }
    }

    #[test]
    fn a_cluster_that_does_not_answer_is_unavailable_and_no_address_is_told() {
        let late = ApiCallError::Timeout(std::time::Duration::from_secs(6));
        let error = OperationError::from(late);
        assert_eq!(error.code(), "API_UNAVAILABLE");
        let wanted = "no answer from the Kubernetes API in 6 seconds";
        assert_eq!(error.to_string(), wanted);
        let refused = std::io::Error::other("10.0.0.1:6443: connection refused");
        let away = ApiCallError::Api(kube::Error::Service(refused.into()));
        let error = OperationError::from(away);
        assert_eq!(error.code(), "API_UNAVAILABLE");
        assert_eq!(error.to_string(), "the cluster cannot be reached");
    }
}
