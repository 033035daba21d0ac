//! The two halves of a sign-in: the redirect to the provider, and the exchange of the code that
//! comes back.

use std::{sync::Arc, time::Duration};

use arc_swap::ArcSwapOption;
use openidconnect::{
    AuthenticationContextClass, AuthenticationFlow, AuthorizationCode, CsrfToken, Nonce,
    OAuth2TokenResponse, PkceCodeChallenge, PkceCodeVerifier, Scope, TokenResponse,
    core::{CoreAuthPrompt, CoreResponseType},
};

use super::{
    claims::{self, TokenError, TokenKind},
    context::ProviderContext,
    pending::{PendingSignIn, UsedStates},
    token_endpoint::{SignInError, exchange_error, key_id, not_discovered},
    userinfo::PersonCompletion,
};
use crate::{
    model::{
        authentication::AuthenticationRequirement, principal::Principal, provider_id::ProviderId,
        secret::Secret,
    },
    session::{browser_binding::BindHash, keys::KeyRing, provider_tokens::ProviderTokens},
};

/// A person who just signed in.
#[derive(Debug)]
pub struct SignedIn {
    /// The person.
    pub principal: Principal,
    /// The tokens that are kept with the sign-in.
    pub tokens: ProviderTokens,
    /// For integrations that accept the provider's access tokens; not kept for them.
    pub access_token: Secret,
}

/// The parameters of a sign-in.
#[derive(Clone, Debug)]
pub struct SignInRequest {
    /// The return target: a path on the site, or an absolute URL at another origin of ours.
    pub return_to: String,
    /// Hash of the bind cookie at that origin, if the person gets a ticket for it.
    pub hand_over: Option<BindHash>,
    /// What the provider must confirm of the authentication.
    pub requirement: Option<AuthenticationRequirement>,
}

/// The parameters of the callback.
#[derive(Clone, Debug)]
pub struct CallbackParams {
    /// The one-time code.
    pub code: String,
    /// Our sealed state.
    pub state: String,
    /// The `iss` parameter (RFC 9207).
    pub issuer: Option<String>,
}

/// The authorization code flow.
#[derive(Debug)]
pub struct SignInFlow {
    context: Arc<ProviderContext>,
    completion: Arc<PersonCompletion>,
    keys: Arc<KeyRing>,
    used: UsedStates,
}

impl SignInFlow {
    pub(super) fn new(
        context: Arc<ProviderContext>,
        completion: Arc<PersonCompletion>,
        keys: Arc<KeyRing>,
    ) -> SignInFlow {
        SignInFlow {
            context,
            completion,
            keys,
            used: UsedStates::new(),
        }
    }

    /// The address at the provider where the browser is sent.
    ///
    /// # Errors
    /// [`SignInError::Unavailable`] until the provider was discovered.
    pub fn begin(
        &self,
        wanted: SignInRequest,
        bind: &str,
        ask_who: bool,
    ) -> Result<String, SignInError> {
        let metadata = self.context.provider.current().ok_or_else(not_discovered)?;
        let client = self.context.client(&metadata)?;
        let (challenge, verifier) = PkceCodeChallenge::new_random_sha256();
        let nonce = Nonce::new_random();
        let requirement = wanted.requirement.as_ref();
        let pending = PendingSignIn {
            nonce: nonce.secret().clone(),
            verifier: verifier.secret().clone(),
            return_to: wanted.return_to,
            issuer: self.context.settings.issuer.as_str().to_owned(),
            provider: self.provider_id().map(str::to_owned),
            issued: self.context.clock.wall_seconds(),
            bind: BindHash::from_cookie(bind.as_bytes()).as_str().to_owned(),
            hand_over: wanted.hand_over.map(|bind| bind.as_str().to_owned()),
            max_age: requirement.and_then(|it| Some(it.max_age()?.to_string())),
            acr_values: requirement.and_then(|it| it.acr_values()),
        };
        let state = pending.seal(&self.keys).ok_or_else(not_discovered)?;
        let flow = AuthenticationFlow::<CoreResponseType>::AuthorizationCode;
        let mut request = client
            .authorize_url(flow, || CsrfToken::new(state), || nonce)
            .set_pkce_challenge(challenge)
            .add_scopes(
                self.context
                    .settings
                    .scopes
                    .iter()
                    .filter(|scope| *scope != "openid")
                    .cloned()
                    .map(Scope::new),
            );
        if ask_who {
            // The user wants another account, so the provider must not reuse its own session.
            request = request.add_prompt(CoreAuthPrompt::Login);
        }
        if let Some(seconds) = requirement.and_then(|it| it.max_age()) {
            request = request.set_max_age(Duration::from_secs(seconds.into()));
        }
        for context in requirement.into_iter().flat_map(|it| it.contexts()) {
            let context = AuthenticationContextClass::new(context.to_string());
            request = request.add_auth_context_value(context);
        }
        let (url, _, _) = request.url();
        Ok(url.into())
    }

    /// The id in states; `None`: the default provider.
    fn provider_id(&self) -> Option<&str> {
        let provider = self.context.settings.accounts.provider();
        provider.map(ProviderId::as_str)
    }

    /// The return target of a state, if it can be opened; for callbacks that are late or report an
    /// error.
    pub fn target_of(&self, state: &str) -> Option<String> {
        PendingSignIn::open(state, &self.keys)
            .ok()
            .map(|pending| pending.return_to)
    }

    /// Makes the checks of a callback that need no call to the provider.
    ///
    /// # Errors
    /// [`SignInError::State`] or [`SignInError::OtherIssuer`].
    pub fn check_callback<'c>(
        &self,
        returned: &CallbackParams,
        bind_cookies: impl Iterator<Item = &'c [u8]>,
    ) -> Result<PendingSignIn, SignInError> {
        let pending = PendingSignIn::open(&returned.state, &self.keys)?;
        pending.check(
            &returned.state,
            bind_cookies,
            self.context.clock.wall_seconds(),
            &self.used,
        )?;
        let is_issuer = pending.issuer == self.context.settings.issuer.as_str();
        if !is_issuer || pending.provider.as_deref() != self.provider_id() {
            return Err(SignInError::OtherIssuer);
        }
        self.context.check_issuer(returned.issuer.as_deref())?;
        Ok(pending)
    }

    /// Exchanges the code and verifies the response.
    ///
    /// # Errors
    /// See [`SignInError`].
    ///
    /// Cancel safety: not to be dropped half-way, since the code can be used only once; run it as a
    /// task.
    pub async fn complete(
        &self,
        returned: CallbackParams,
        pending: PendingSignIn,
    ) -> Result<SignedIn, SignInError> {
        let metadata = self.context.provider.current().ok_or_else(not_discovered)?;
        let client = self.context.client(&metadata)?;
        let http = self.context.provider.calls("token");
        let response = client
            .exchange_code(AuthorizationCode::new(returned.code.clone()))
            .map_err(|error| SignInError::Unavailable(error.to_string()))?
            .set_pkce_verifier(PkceCodeVerifier::new(pending.verifier.clone()))
            .request_async(&http)
            .await
            .map_err(exchange_error)?;
        let id_token = response
            .id_token()
            .ok_or_else(|| SignInError::Refused("no ID token came".into()))?;
        let nonce = Nonce::new(pending.nonce.clone());
        let access_token = response.access_token();
        let verifier = || self.context.token_verifier();
        let claims = match verifier().verify_id_token(id_token, &nonce, Some(access_token)) {
            Ok(claims) => claims,
            // The token may be signed with a key that is newer than our copy of the keys.
            Err(TokenError::Refused(_)) => {
                self.context
                    .provider
                    .look_for_key(key_id(&id_token.to_string()).as_ref())
                    .await;
                verifier().verify_id_token(id_token, &nonce, Some(access_token))?
            }
            Err(error) => return Err(error.into()),
        };
        self.used.remember(&returned.state);
        let mut person = claims::person(claims, &self.context.settings, TokenKind::Id);
        let now = self.context.clock.wall_seconds();
        pending.check_authentication(&person.authentication, now)?;
        let others = &claims.additional_claims().0;
        let missing = self.completion.missing(&person, claims);
        self.completion
            .complete(&mut person, missing, Some(others), &response, &metadata)
            .await?;
        // Not before: userinfo must be about the subject that the provider names.
        let person = self.context.settings.accounts.account(person);
        let person = person.map_err(TokenError::from)?;
        let session_id = claims
            .additional_claims()
            .0
            .get("sid")
            .and_then(|sid| sid.as_str());
        Ok(SignedIn {
            principal: Principal::new(person, &self.context.settings.admin_groups),
            access_token: Secret::new(access_token.secret().as_str()),
            tokens: ProviderTokens {
                provider: self.context.settings.accounts.provider().cloned(),
                id_token: Some(Secret::new(id_token.to_string())),
                refresh_token: ArcSwapOption::from(
                    response
                        .refresh_token()
                        .map(|token| Arc::new(Secret::new(token.secret().as_str()))),
                ),
                access_token: ArcSwapOption::from(self.context.kept_access_token(&response)),
                session_id: session_id.map(Into::into),
                source_token: None,
                console: None,
            },
        })
    }
}
