//! What goes wrong in a call.

/// Why a call has no result.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No connection, or no answer in time. A later attempt may succeed.
    #[error("{site} cannot be reached: {cause}")]
    Unreachable {
        /// The site.
        site: String,
        /// The error.
        cause: String,
    },
    /// The token is missing, expired or revoked.
    #[error("the site does not accept the token; run: ludgate apps sign-in {0}")]
    SignInNeeded(String),
    /// The API refused the call.
    #[error("{message}")]
    Refused {
        /// The code, such as `RESOURCE_NOT_FOUND`.
        code: String,
        /// The reason, for people.
        message: String,
    },
    /// The answer does not come from an API.
    #[error("{site} did not answer like the API of Ludgate: {what}")]
    NoApi {
        /// The site.
        site: String,
        /// What it sent instead.
        what: String,
    },
}
