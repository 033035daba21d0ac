//! Who calls: an access token of our provider, or an API token (a refresh token).

use std::sync::Arc;

use http::{HeaderMap, HeaderValue, header};
use ludgate_identity::oidc::{
    Oidc,
    api_tokens::ApiTokenError,
    bearer::{IssuerToken, VerifiedToken},
    claims::TokenError,
};
use ludgate_model::{
    header_values::{bearer_token, single},
    principal::Principal,
};

/// Identifies callers.
#[derive(Clone, Debug)]
pub struct Authentication {
    oidc: Arc<Oidc>,
}

/// Why a caller is not known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AuthenticationError {
    /// There is no token, or it is not valid. The text is PrimeHub's.
    #[error("request not authorized")]
    Refused,
    /// The identity provider cannot be reached.
    #[error("the identity provider is not available; please try again")]
    Unavailable,
}

impl Authentication {
    /// Callers with tokens of this client's provider.
    pub fn new(oidc: Arc<Oidc>) -> Authentication {
        Authentication { oidc }
    }

    /// The person of a request.
    ///
    /// # Errors
    /// See [`AuthenticationError`].
    pub async fn identify(
        &self,
        headers: &HeaderMap,
    ) -> Result<Arc<Principal>, AuthenticationError> {
        let header = single(headers, &header::AUTHORIZATION).ok_or(AuthenticationError::Refused)?;
        if let Some(verified) = self.oidc.bearer.cached(header) {
            return Ok(verified.principal);
        }
        // Returns at once when the provider is known.
        self.oidc.wait_until_known().await;
        match self.oidc.bearer.parse_header(header) {
            Some(token) => match self.verify(token).await? {
                Ok(verified) => Ok(verified.principal),
                // A refresh token can be a JWT too; Keycloak's says what it is.
                Err(TokenError::Kind("typ")) => self.exchange(header).await,
                Err(error) => {
                    tracing::debug!(%error, "a token was refused");
                    Err(AuthenticationError::Refused)
                }
            },
            None => self.exchange(header).await,
        }
    }

    /// Verifies an access token; an unknown signing key is fetched first.
    async fn verify(
        &self,
        token: IssuerToken<'_>,
    ) -> Result<Result<VerifiedToken, TokenError>, AuthenticationError> {
        if let Some(key) = self.oidc.bearer.missing_key(token) {
            if !self.oidc.is_ready() {
                return Err(AuthenticationError::Unavailable);
            }
            self.oidc.bearer.look_for_key(key).await;
        }
        Ok(self.oidc.bearer.verify(token))
    }

    async fn exchange(&self, header: &HeaderValue) -> Result<Arc<Principal>, AuthenticationError> {
        let token = bearer_token(header).ok_or(AuthenticationError::Refused)?;
        let exchanged = self.oidc.api_tokens.identify(token).await;
        exchanged.map_err(|error| match error {
            ApiTokenError::Refused(reason) => {
                tracing::debug!(reason, "an API token was refused");
                AuthenticationError::Refused
            }
            ApiTokenError::Unavailable(error) => {
                tracing::warn!(error, "cannot verify an API token");
                AuthenticationError::Unavailable
            }
        })
    }
}
