//! How a person without a browser at hand gets an API token: the device flow (RFC 8628) with the
//! scope `offline_access`. `begin` asks the provider for codes, and `poll` for the token. The
//! server stores nothing: the provider's device code is sealed into the one that the terminal
//! keeps.
//!
//! The calls are made here and not in the terminal, since a refresh token works for the client that
//! it was issued to (RFC 6749 section 6), and API tokens are exchanged by this one.

use std::{sync::Arc, time::Duration};

use openidconnect::{
    DeviceAuthorizationResponse, DeviceAuthorizationUrl, DeviceCodeErrorResponse,
    DeviceCodeErrorResponseType, EmptyExtraDeviceAuthorizationFields, OAuth2TokenResponse,
    RequestTokenError, Scope,
};
use serde::{Deserialize, Serialize};
use tokio::sync::{Semaphore, SemaphorePermit, mpsc};

use super::{
    claims::TokenError,
    context::ProviderContext,
    pending::StateError,
    token_endpoint::{SignInError, TokenEndpointResponse, exchange_error, not_discovered},
};
use crate::{
    model::{error_cause::chain_text, secret::Secret},
    ops::http_client::CallError,
    session::keys::{KeyRing, Purpose},
};

/// Calls at the same time. The clients are not known yet, and the provider's other callers need
/// connections too.
const MAX_CALLS: usize = 16;

/// The provider's answer to `begin`.
type ProviderCodes = DeviceAuthorizationResponse<EmptyExtraDeviceAuthorizationFields>;

/// The codes for a person and for the terminal, with the names of RFC 8628 section 3.2.
#[derive(Serialize)]
pub struct DeviceCodes {
    /// Sealed: what the terminal polls with. Secret.
    pub device_code: String,
    /// What the person enters.
    pub user_code: String,
    /// Where the person enters it.
    pub verification_uri: String,
    /// The same with the code in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verification_uri_complete: Option<String>,
    /// How long the codes work, in seconds.
    pub expires_in: u64,
    /// Pause between polls, in seconds.
    pub interval: u64,
}

/// What a poll finds.
#[derive(Debug)]
pub enum DevicePoll {
    /// The person has agreed: the API token.
    Granted(Secret),
    /// The person has not answered yet.
    Pending,
    /// The same, and the pause between polls must grow.
    SlowDown,
    /// The person refused.
    Denied,
    /// The codes no longer work.
    Expired,
}

/// The content of the sealed device code.
#[derive(Deserialize, Serialize)]
struct PendingDevice {
    /// When it began, in seconds since 1970.
    issued: i64,
    codes: ProviderCodes,
}

/// Grants API tokens by device codes.
#[derive(Debug)]
pub struct DeviceGrant {
    context: Arc<ProviderContext>,
    keys: Arc<KeyRing>,
    permits: Semaphore,
}

impl DeviceGrant {
    pub(super) fn new(context: Arc<ProviderContext>, keys: Arc<KeyRing>) -> DeviceGrant {
        DeviceGrant {
            context,
            keys,
            permits: Semaphore::new(MAX_CALLS),
        }
    }

    /// Asks the provider for codes. `None`: its metadata name no `device_authorization_endpoint`.
    ///
    /// # Errors
    /// See [`SignInError`].
    pub async fn begin(&self) -> Result<Option<DeviceCodes>, SignInError> {
        let metadata = self.context.provider.current().ok_or_else(not_discovered)?;
        let endpoint = &metadata.additional_metadata().device_authorization_endpoint;
        let Some(endpoint) = endpoint.clone() else {
            return Ok(None);
        };
        let endpoint = DeviceAuthorizationUrl::new(endpoint)
            .map_err(|error| SignInError::Unavailable(error.to_string()))?;
        let client = self.context.client(&metadata)?;
        let client = client.set_device_authorization_url(endpoint);
        let scopes = self.context.settings.scopes.iter().map(String::as_str);
        let scopes = scopes.filter(|scope| !["openid", "offline_access"].contains(scope));
        let _permit = self.permit()?;
        let http = self.context.provider.calls("device_authorization");
        let codes: ProviderCodes = client
            .exchange_device_code()
            .add_scopes(scopes.map(|scope| Scope::new(scope.to_owned())))
            .add_scope(Scope::new("offline_access".to_owned()))
            .request_async(&http)
            .await
            .map_err(exchange_error)?;
        Ok(Some(self.seal(codes)?))
    }

    /// Asks the provider once whether the person has agreed. Codes are refused after their
    /// lifetime, and so is a second grant, since the provider's device code works once.
    ///
    /// While the provider cannot be reached, the pause between polls must grow too.
    ///
    /// # Errors
    /// See [`SignInError`].
    pub async fn poll(&self, device_code: &str) -> Result<DevicePoll, SignInError> {
        let PendingDevice { issued, codes } = self.open(device_code)?;
        let age = self.context.clock.wall_seconds().saturating_sub(issued);
        let lifetime = i64::try_from(codes.expires_in().as_secs()).unwrap_or(i64::MAX);
        if age > lifetime {
            return Ok(DevicePoll::Expired);
        }
        let metadata = self.context.provider.current().ok_or_else(not_discovered)?;
        let client = self.context.client(&metadata)?;
        let _permit = self.permit()?;
        let http = self.context.provider.calls("device_token");
        let request = client
            .exchange_device_access_token(&codes)
            .map_err(|error| SignInError::Unavailable(error.to_string()))?;
        // The library polls until the person answers. Here it is stopped at its first pause: the
        // terminal makes the pauses.
        let (begun, mut pauses) = mpsc::unbounded_channel();
        let pause = move |length: Duration| {
            let _ = begun.send(length);
            std::future::pending::<()>()
        };
        let answer: Result<TokenEndpointResponse, _> = tokio::select! {
            answer = request.request_async(&http, pause, None) => answer,
            Some(length) = pauses.recv() => {
                return Ok(match length > codes.interval() {
                    true => DevicePoll::SlowDown,
                    false => DevicePoll::Pending,
                });
            }
        };
        match answer {
            Ok(response) => Ok(DevicePoll::Granted(self.api_token(&response).await?)),
            Err(error) => refusal(error),
        }
    }

    /// The refresh token of a valid response. No nonce was sent, so the ID token has none.
    async fn api_token(&self, response: &TokenEndpointResponse) -> Result<Secret, SignInError> {
        let refused = |what: &str| SignInError::Refused(what.to_owned());
        let claims = self.context.id_token_claims(response).await?;
        claims.ok_or_else(|| refused("no ID token came"))?;
        let token = response.refresh_token();
        let token = token.ok_or_else(|| refused("no refresh token came"))?;
        Ok(Secret::new(token.secret().as_str()))
    }

    fn permit(&self) -> Result<SemaphorePermit<'_>, SignInError> {
        let busy = |_| SignInError::Unavailable("too many sign-ins by device code".to_owned());
        self.permits.try_acquire().map_err(busy)
    }

    fn seal(&self, codes: ProviderCodes) -> Result<DeviceCodes, SignInError> {
        let (user_code, verification_uri) = (codes.user_code(), codes.verification_uri());
        let complete = codes.verification_uri_complete();
        let mut shown = DeviceCodes {
            device_code: String::new(),
            user_code: user_code.secret().clone(),
            verification_uri: verification_uri.to_string(),
            verification_uri_complete: complete.map(|address| address.secret().clone()),
            expires_in: codes.expires_in().as_secs(),
            interval: codes.interval().as_secs(),
        };
        let pending = PendingDevice {
            issued: self.context.clock.wall_seconds(),
            codes,
        };
        let plain = serde_json::to_vec(&pending).unwrap_or_default();
        let sealed = self.keys.seal(Purpose::DeviceCode, &plain);
        shown.device_code = sealed.map_err(|error| SignInError::Unavailable(error.to_string()))?;
        Ok(shown)
    }

    fn open(&self, device_code: &str) -> Result<PendingDevice, StateError> {
        let opened = self.keys.open(Purpose::DeviceCode, device_code);
        let plain = opened.map_err(|_| StateError::NotOurs)?;
        serde_json::from_slice(&plain).map_err(|_| StateError::NotOurs)
    }
}

/// What the provider's error means.
fn refusal(
    error: RequestTokenError<CallError, DeviceCodeErrorResponse>,
) -> Result<DevicePoll, SignInError> {
    match error {
        RequestTokenError::ServerResponse(answer) => refusal_by_code(answer.error()),
        RequestTokenError::Request(error) => Err(SignInError::Unavailable(chain_text(&error))),
        // The body is not a token response, so a retry would not help.
        error @ (RequestTokenError::Parse(..) | RequestTokenError::Other(_)) => {
            Err(SignInError::Token(TokenError::Refused(chain_text(&error))))
        }
    }
}

fn refusal_by_code(code: &DeviceCodeErrorResponseType) -> Result<DevicePoll, SignInError> {
    match code {
        DeviceCodeErrorResponseType::AuthorizationPending => Ok(DevicePoll::Pending),
        DeviceCodeErrorResponseType::SlowDown => Ok(DevicePoll::SlowDown),
        DeviceCodeErrorResponseType::AccessDenied => Ok(DevicePoll::Denied),
        DeviceCodeErrorResponseType::ExpiredToken => Ok(DevicePoll::Expired),
        DeviceCodeErrorResponseType::Basic(error) => {
            let error = error.as_ref().to_owned();
            Err(match error.as_str() {
                "invalid_client" | "unauthorized_client" => SignInError::NotOurClient(error),
                _ => SignInError::Refused(error),
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal_of(code: &str) -> Result<DevicePoll, SignInError> {
        let body = serde_json::json!({ "error": code });
        let answer = serde_json::from_value(body).expect("an error response");
        refusal(RequestTokenError::ServerResponse(answer))
    }

    #[test]
    fn each_error_of_the_provider_has_its_meaning() {
        let found = |code| refusal_of(code).expect("no failure");
        assert!(matches!(
            found("authorization_pending"),
            DevicePoll::Pending
        ));
        assert!(matches!(found("slow_down"), DevicePoll::SlowDown));
        assert!(matches!(found("access_denied"), DevicePoll::Denied));
        assert!(matches!(found("expired_token"), DevicePoll::Expired));
        let failed = |code| refusal_of(code).expect_err("a failure");
        assert!(matches!(
            failed("unauthorized_client"),
            SignInError::NotOurClient(_)
        ));
        // A device code that was used.
        assert!(matches!(failed("invalid_grant"), SignInError::Refused(_)));
    }
}
