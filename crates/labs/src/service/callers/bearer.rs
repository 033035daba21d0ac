//! Access tokens of the OpenID provider.

use http::{HeaderMap, header};
use ludgate_identity::oidc::Oidc;
use ludgate_model::{
    header_values::{bearer_token, single},
    secret::Secret,
};
use serde_json::{Map, Value};

use super::claims::payload;
use crate::error::LabError;

/// The claims of the request's access token, verified, and the token itself.
///
/// # Errors
/// [`LabError::InvalidToken`], or [`LabError::Unavailable`] if the provider is not known yet.
pub(super) async fn verify(
    oidc: &Oidc,
    headers: &HeaderMap,
) -> Result<(Map<String, Value>, Secret), LabError> {
    let header = single(headers, &header::AUTHORIZATION).ok_or(LabError::InvalidToken)?;
    let parsed = oidc.bearer.parse_header(header);
    let parsed = parsed.ok_or(LabError::InvalidToken)?;
    // Returns at once when the provider is known.
    oidc.wait_until_known().await;
    if let Some(key) = oidc.bearer.missing_key(parsed) {
        if !oidc.is_ready() {
            let message = "the identity provider is not available";
            return Err(LabError::Unavailable(message.to_owned()));
        }
        oidc.bearer.look_for_key(key).await;
    }
    oidc.bearer.verify(parsed).map_err(|error| {
        tracing::debug!(%error, "a token was refused");
        LabError::InvalidToken
    })?;
    // The verified text itself is read for the claims that only labs need.
    let text = bearer_token(header).ok_or(LabError::InvalidToken)?;
    let claims = payload(text).ok_or(LabError::InvalidToken)?;
    Ok((claims, Secret::new(text)))
}

/// The token of the request, unverified.
pub(super) fn token(headers: &HeaderMap) -> Option<Secret> {
    single(headers, &header::AUTHORIZATION)
        .and_then(bearer_token)
        .map(Secret::new)
}
