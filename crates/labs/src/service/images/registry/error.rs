//! Why a registry has no answer for us.

use ludgate_ops::http_client::CallError;

use super::credentials::CredentialsProblem;

/// Why a registry has no answer for us.
#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    /// The configuration names no registry that can be called.
    #[error("{0:?} is no address of a registry")]
    Address(String),
    /// The CA file has no certificate.
    #[error(transparent)]
    NoCertificate(#[from] ludgate_ops::tls_client::NoCertificate),
    /// The call failed.
    #[error(transparent)]
    Call(#[from] CallError),
    /// The registry knows no such image or tag.
    #[error("the registry has no such image")]
    NotFound,
    /// The registry refuses access, or asks for credentials that are not there.
    #[error("the registry refuses access")]
    Refused,
    /// The registry asks for something else than a password or a token.
    #[error("the registry asks for an authentication that is not supported")]
    Challenge,
    /// Tokens are given by a server that gets no credentials.
    #[error("the registry's tokens are given by {0}, which is not trusted with its credentials")]
    Realm(String),
    /// The token server gave none.
    #[error("the registry's token server gave no token: {0}")]
    Token(String),
    /// The configured credentials cannot be used.
    #[error(transparent)]
    Credentials(#[from] CredentialsProblem),
    /// A redirect. It is not followed, since it could lead anywhere.
    #[error("the registry redirects, which is not followed")]
    Redirect,
    /// Any other status.
    #[error("the registry answered with HTTP status {0}")]
    Status(u16),
    /// The answer is none of the distribution API, or exceeds a limit.
    #[error("the registry's answer cannot be used: {0}")]
    Answer(&'static str),
    /// The list of tags took too long.
    #[error("the registry did not list its tags in time")]
    Timeout,
}
