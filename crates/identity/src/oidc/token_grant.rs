//! How a person gets an API token: the code flow with the scope `offline_access`, in three steps.
//! `begin` sends the browser to the provider, `confirm` makes a code that the person can copy, and
//! `redeem` exchanges it. The server stores nothing: what it needs is sealed into `state` and into
//! the code.

use std::sync::Arc;

use openidconnect::{
    AuthenticationFlow, AuthorizationCode, CsrfToken, Nonce, OAuth2TokenResponse,
    PkceCodeChallenge, PkceCodeVerifier, RedirectUrl, Scope, TokenResponse,
    core::{CoreAuthPrompt, CoreResponseType},
};
use serde::{Deserialize, Serialize};

use super::{
    context::ProviderContext,
    pending::{MAX_AGE, StateError},
    sign_in::CallbackParams,
    token_endpoint::{
        OidcClient, SignInError, TokenEndpointResponse, exchange_error, not_discovered,
    },
};
use crate::{
    model::secret::Secret,
    session::{
        browser_binding::BindHash,
        keys::{KeyRing, Purpose},
    },
};

/// The content of `state`, and with `code` that of the text that the person copies.
#[derive(Deserialize, Serialize)]
struct PendingGrant {
    /// The nonce the ID token must repeat.
    nonce: String,
    /// The PKCE verifier.
    verifier: String,
    /// When it began, in seconds since 1970.
    issued: i64,
    /// Hash of the browser's bind cookie.
    bind: String,
    /// The provider's code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    code: Option<String>,
}

/// Grants API tokens.
#[derive(Debug)]
pub struct TokenGrant {
    context: Arc<ProviderContext>,
    keys: Arc<KeyRing>,
    redirect_uri: String,
}

impl TokenGrant {
    pub(super) fn new(
        context: Arc<ProviderContext>,
        keys: Arc<KeyRing>,
        redirect_uri: String,
    ) -> TokenGrant {
        TokenGrant {
            context,
            keys,
            redirect_uri,
        }
    }

    /// The address at the provider where the browser is sent.
    ///
    /// # Errors
    /// [`SignInError::Unavailable`] until the provider was discovered.
    pub fn begin(&self, bind: &str) -> Result<String, SignInError> {
        let client = self.client()?;
        let (challenge, verifier) = PkceCodeChallenge::new_random_sha256();
        let nonce = Nonce::new_random();
        let pending = PendingGrant {
            nonce: nonce.secret().clone(),
            verifier: verifier.secret().clone(),
            issued: self.context.clock.wall_seconds(),
            bind: BindHash::from_cookie(bind.as_bytes()).as_str().to_owned(),
            code: None,
        };
        let state = self.seal(Purpose::TokenState, &pending)?;
        let flow = AuthenticationFlow::<CoreResponseType>::AuthorizationCode;
        let scopes = self.context.settings.scopes.iter().map(String::as_str);
        let scopes = scopes.filter(|scope| !["openid", "offline_access"].contains(scope));
        let (url, _, _) = client
            .authorize_url(flow, || CsrfToken::new(state), || nonce)
            .set_pkce_challenge(challenge)
            .add_scopes(scopes.map(|scope| Scope::new(scope.to_owned())))
            .add_scope(Scope::new("offline_access".to_owned()))
            // OpenID Connect Core section 11: without consent a provider ignores the scope.
            .add_prompt(CoreAuthPrompt::Consent)
            .url();
        Ok(url.into())
    }

    /// Checks a callback, and returns the code that the person copies. The provider is not called.
    ///
    /// # Errors
    /// [`SignInError::State`] or [`SignInError::OtherIssuer`].
    pub fn confirm<'c>(
        &self,
        returned: CallbackParams,
        mut bind_cookies: impl Iterator<Item = &'c [u8]>,
    ) -> Result<String, SignInError> {
        let mut pending = self.open(Purpose::TokenState, &returned.state)?;
        let bind = BindHash::parse(&pending.bind).ok_or(StateError::NotOurs)?;
        if !bind_cookies.any(|cookie| bind.matches(cookie)) {
            return Err(StateError::OtherBrowser.into());
        }
        self.context.check_issuer(returned.issuer.as_deref())?;
        pending.code = Some(returned.code);
        self.seal(Purpose::TokenCode, &pending)
    }

    /// Exchanges the code that a person copied. It works once, since the provider's code does.
    ///
    /// # Errors
    /// See [`SignInError`].
    pub async fn redeem(&self, code: &str) -> Result<Secret, SignInError> {
        let pending = self.open(Purpose::TokenCode, code)?;
        let granted = pending.code.ok_or(StateError::NotOurs)?;
        let client = self.client()?;
        let http = self.context.provider.calls("token_grant");
        let response: TokenEndpointResponse = client
            .exchange_code(AuthorizationCode::new(granted))
            .map_err(|error| SignInError::Unavailable(error.to_string()))?
            .set_pkce_verifier(PkceCodeVerifier::new(pending.verifier))
            .request_async(&http)
            .await
            .map_err(exchange_error)?;
        let refused = |what: &str| SignInError::Refused(what.to_owned());
        let id_token = response
            .id_token()
            .ok_or_else(|| refused("no ID token came"))?;
        let nonce = Nonce::new(pending.nonce);
        let verifier = self.context.token_verifier();
        verifier.verify_id_token(id_token, &nonce, Some(response.access_token()))?;
        let token = response.refresh_token();
        let token = token.ok_or_else(|| refused("no refresh token came"))?;
        Ok(Secret::new(token.secret().as_str()))
    }

    fn client(&self) -> Result<OidcClient, SignInError> {
        let metadata = self.context.provider.current().ok_or_else(not_discovered)?;
        let redirect = RedirectUrl::new(self.redirect_uri.clone())
            .map_err(|error| SignInError::Unavailable(error.to_string()))?;
        Ok(self.context.client(&metadata)?.set_redirect_uri(redirect))
    }

    fn seal(&self, purpose: Purpose, pending: &PendingGrant) -> Result<String, SignInError> {
        let plain = serde_json::to_vec(pending).unwrap_or_default();
        self.keys
            .seal(purpose, &plain)
            .map_err(|error| SignInError::Unavailable(error.to_string()))
    }

    fn open(&self, purpose: Purpose, text: &str) -> Result<PendingGrant, SignInError> {
        let plain = self
            .keys
            .open(purpose, text)
            .map_err(|_| StateError::NotOurs)?;
        let pending: PendingGrant =
            serde_json::from_slice(&plain).map_err(|_| StateError::NotOurs)?;
        let age = self
            .context
            .clock
            .wall_seconds()
            .saturating_sub(pending.issued);
        if !(-60..=MAX_AGE).contains(&age) {
            return Err(StateError::Expired.into());
        }
        Ok(pending)
    }
}
