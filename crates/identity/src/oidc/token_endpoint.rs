//! The token endpoint: the types of its responses, and its errors.

use openidconnect::{
    Client, EndpointMaybeSet, EndpointNotSet, EndpointSet, RequestTokenError,
    StandardErrorResponse, StandardTokenResponse,
    core::{
        CoreAuthDisplay, CoreAuthPrompt, CoreErrorResponseType, CoreGenderClaim, CoreJsonWebKey,
        CoreJweContentEncryptionAlgorithm, CoreRevocableToken, CoreRevocationErrorResponse,
        CoreTokenIntrospectionResponse, CoreTokenType,
    },
};

use super::{
    claims::{OtherClaims, TokenError, TokenFields},
    pending::StateError,
};
use crate::{
    model::{authentication::InsufficientAuthentication, error_cause::chain_text},
    ops::http_client::CallError,
};

/// A successful response of the token endpoint.
pub type TokenEndpointResponse = StandardTokenResponse<TokenFields, CoreTokenType>;
/// openidconnect's client with the endpoints that are used here.
pub type OidcClient = Client<
    OtherClaims,
    CoreAuthDisplay,
    CoreGenderClaim,
    CoreJweContentEncryptionAlgorithm,
    CoreJsonWebKey,
    CoreAuthPrompt,
    StandardErrorResponse<CoreErrorResponseType>,
    TokenEndpointResponse,
    CoreTokenIntrospectionResponse,
    CoreRevocableToken,
    CoreRevocationErrorResponse,
    EndpointSet,
    EndpointNotSet,
    EndpointNotSet,
    EndpointNotSet,
    EndpointMaybeSet,
    EndpointMaybeSet,
>;

/// Why a sign-in or a refresh failed.
#[derive(Debug, thiserror::Error)]
pub enum SignInError {
    /// The provider is not discovered yet, or cannot be reached. A later attempt may succeed.
    #[error("the sign-in service is not available: {0}")]
    Unavailable(String),
    /// The state was not accepted.
    #[error(transparent)]
    State(#[from] StateError),
    /// The callback comes from another provider (RFC 9207).
    #[error("the answer comes from another sign-in service than was asked")]
    OtherIssuer,
    /// The provider refused our client id or client secret.
    #[error(
        "the sign-in service refused this gateway as its client: {0}; see identity.client_id and client_secret"
    )]
    NotOurClient(String),
    /// The provider refused the code.
    #[error("the sign-in service refused the sign-in: {0}")]
    Refused(String),
    /// The ID token does not say what was required of the authentication.
    #[error("the sign-in service did not confirm what the app requires: {0}")]
    NotConfirmed(#[from] InsufficientAuthentication),
    /// The ID token is not valid.
    #[error("the sign-in service's answer is not valid: {0}")]
    Token(#[from] TokenError),
}

/// The id of the key that a token names.
pub(super) fn key_id(token: &str) -> Option<openidconnect::JsonWebKeyId> {
    use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
    let header = URL_SAFE_NO_PAD.decode(token.split('.').next()?).ok()?;
    let header: serde_json::Value = serde_json::from_slice(&header).ok()?;
    header
        .get("kid")?
        .as_str()
        .map(|kid| openidconnect::JsonWebKeyId::new(kid.to_owned()))
}

/// The error until the provider is discovered.
pub(super) fn not_discovered() -> SignInError {
    SignInError::Unavailable("the provider has not been discovered yet".into())
}

pub(super) fn exchange_error(
    error: RequestTokenError<CallError, StandardErrorResponse<CoreErrorResponseType>>,
) -> SignInError {
    match error {
        RequestTokenError::ServerResponse(answer) => {
            let error = answer.error();
            let of_client = matches!(
                error,
                CoreErrorResponseType::InvalidClient | CoreErrorResponseType::UnauthorizedClient
            );
            let error = error.as_ref().to_owned();
            if of_client {
                SignInError::NotOurClient(error)
            } else {
                SignInError::Refused(error)
            }
        }
        RequestTokenError::Request(error) => SignInError::Unavailable(chain_text(&error)),
        // The body is not a token response, so a retry would not help.
        error @ (RequestTokenError::Parse(..) | RequestTokenError::Other(_)) => {
            SignInError::Token(TokenError::Refused(chain_text(&error)))
        }
    }
}
