//! Deadlines of calls to the API: the caller tries again, so a hanging connection must not block
//! it.

use std::time::Duration;

use tokio::time::timeout;

/// The reasons for which a call fails.
#[derive(Debug, thiserror::Error)]
pub enum ApiCallError {
    /// The API did not answer in time; a write may have taken effect.
    #[error("no answer from the Kubernetes API in {} seconds", .0.as_secs())]
    Timeout(Duration),
    /// The API refused, or cannot be reached.
    #[error(transparent)]
    Api(#[from] kube::Error),
}

/// Waits for a call as long as its deadline allows.
///
/// # Errors
/// See [`ApiCallError`].
pub async fn with_deadline<T>(
    deadline: Duration,
    call: impl Future<Output = kube::Result<T>>,
) -> Result<T, ApiCallError> {
    match timeout(deadline, call).await {
        Ok(result) => Ok(result?),
        Err(_elapsed) => Err(ApiCallError::Timeout(deadline)),
    }
}
