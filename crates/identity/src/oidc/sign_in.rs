//! The two halves of a sign-in: sending the browser away, and exchanging what it brings back.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use openidconnect::{
    AuthenticationFlow, AuthorizationCode, Client, ClientId, ClientSecret, CsrfToken,
    EndpointMaybeSet, EndpointNotSet, EndpointSet, Nonce, OAuth2TokenResponse, PkceCodeChallenge,
    PkceCodeVerifier, RedirectUrl, RequestTokenError, Scope, StandardErrorResponse,
    StandardTokenResponse, TokenResponse,
    core::{
        CoreAuthDisplay, CoreAuthPrompt, CoreErrorResponseType, CoreGenderClaim, CoreJsonWebKey,
        CoreJweContentEncryptionAlgorithm, CoreResponseType, CoreRevocableToken,
        CoreRevocationErrorResponse, CoreTokenIntrospectionResponse, CoreTokenType,
    },
};

use super::{
    Oidc,
    claims::{self, OtherClaims, TokenError, TokenFields, TokenVerifier},
    http_client::ProviderCalls,
    pending::{PendingSignIn, StateError},
    provider::Metadata,
};
use crate::{
    model::{principal::Principal, secret::Secret},
    ops::http_client::{CallError, chain},
    session::{bind::BindHash, provider_tokens::ProviderTokens},
};

/// An answer of the token endpoint.
pub type TokenEndpointResponse = StandardTokenResponse<TokenFields, CoreTokenType>;
/// openidconnect's client, as it is set up here.
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

/// Why a sign-in did not come about.
#[derive(Debug, thiserror::Error)]
pub enum SignInError {
    /// The provider is not known yet, or does not answer; worth trying again.
    #[error("the sign-in service is not available: {0}")]
    Unavailable(String),
    /// The state was not accepted.
    #[error(transparent)]
    State(#[from] StateError),
    /// The answer comes from another provider (RFC 9207).
    #[error("the answer comes from another sign-in service than was asked")]
    OtherIssuer,
    /// The provider does not know us, or our secret.
    #[error(
        "the sign-in service refused this gateway as its client: {0}; see identity.client_id and client_secret"
    )]
    NotOurClient(String),
    /// The provider refused the code.
    #[error("the sign-in service refused the sign-in: {0}")]
    Refused(String),
    /// The ID token is not believed.
    #[error("the sign-in service's answer is not valid: {0}")]
    Token(#[from] TokenError),
}

/// A person who just signed in.
#[derive(Debug)]
pub struct SignedIn {
    /// The person.
    pub principal: Principal,
    /// What is kept for later.
    pub tokens: ProviderTokens,
    /// For the systems that take the provider's access tokens; not kept.
    pub access_token: Secret,
}

/// What a sign-in is for.
#[derive(Clone, Debug)]
pub struct SignInRequest {
    /// Where it returns to: a path on the site, or a whole address at another origin of ours.
    pub return_to: String,
    /// The browser that asked at that origin, when the person is to be handed over to it.
    pub hand_over: Option<BindHash>,
}

/// What the provider sent back through the browser.
#[derive(Clone, Debug)]
pub struct CallbackParams {
    /// The one-time code.
    pub code: String,
    /// Our sealed state.
    pub state: String,
    /// RFC 9207.
    pub issuer: Option<String>,
}

impl Oidc {
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
        let metadata = self.provider.current().ok_or_else(not_known)?;
        let client = self.client(&metadata)?;
        let (challenge, verifier) = PkceCodeChallenge::new_random_sha256();
        let nonce = Nonce::new_random();
        let pending = PendingSignIn {
            nonce: nonce.secret().clone(),
            verifier: verifier.secret().clone(),
            return_to: wanted.return_to,
            issuer: self.settings.issuer.as_str().to_owned(),
            issued: self.clock.wall_seconds(),
            bind: BindHash::from_cookie(bind.as_bytes()).as_str().to_owned(),
            hand_over: wanted.hand_over.map(|bind| bind.as_str().to_owned()),
        };
        let state = pending.seal(&self.keys).ok_or_else(not_known)?;
        let flow = AuthenticationFlow::<CoreResponseType>::AuthorizationCode;
        let mut request = client
            .authorize_url(flow, || CsrfToken::new(state), || nonce)
            .set_pkce_challenge(challenge)
            .add_scopes(
                self.settings
                    .scopes
                    .iter()
                    .filter(|scope| *scope != "openid")
                    .cloned()
                    .map(Scope::new),
            );
        if ask_who {
            // Another account is wanted: the provider must not answer with the one it remembers.
            request = request.add_prompt(CoreAuthPrompt::Login);
        }
        let (url, _, _) = request.url();
        Ok(url.into())
    }

    /// Where a state leads, if it is ours at all; for late callbacks of people who are signed in
    /// already.
    pub fn target_of(&self, state: &str) -> Option<String> {
        PendingSignIn::open(state, &self.keys)
            .ok()
            .map(|pending| pending.return_to)
    }

    /// Checks everything about a callback that can be checked without the provider.
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
            self.clock.wall_seconds(),
            &self.used,
        )?;
        let ours = self.settings.issuer.as_str();
        let promised = self.provider.current().is_some_and(|metadata| {
            metadata
                .additional_metadata()
                .authorization_response_iss_parameter_supported
        });
        match &returned.issuer {
            _ if pending.issuer != ours => Err(SignInError::OtherIssuer),
            Some(issuer) if issuer != ours => Err(SignInError::OtherIssuer),
            None if promised => Err(SignInError::OtherIssuer),
            Some(_) | None => Ok(pending),
        }
    }

    /// Exchanges the code and judges the answer.
    ///
    /// # Errors
    /// See [`SignInError`]; nothing was changed then.
    ///
    /// Cancel safety: not to be dropped half-way, since the code can be used only once; run it as a
    /// task.
    pub async fn complete(
        &self,
        returned: CallbackParams,
        pending: PendingSignIn,
    ) -> Result<SignedIn, SignInError> {
        let metadata = self.provider.current().ok_or_else(not_known)?;
        let client = self.client(&metadata)?;
        let http = ProviderCalls::new(&self.provider.http, "token");
        let response = client
            .exchange_code(AuthorizationCode::new(returned.code.clone()))
            .map_err(|error| SignInError::Unavailable(error.to_string()))?
            .set_pkce_verifier(PkceCodeVerifier::new(pending.verifier))
            .request_async(&http)
            .await
            .map_err(exchange_error)?;
        let id_token = response
            .id_token()
            .ok_or_else(|| SignInError::Refused("no ID token came".into()))?;
        let nonce = Nonce::new(pending.nonce);
        let access_token = response.access_token();
        let judge = || TokenVerifier {
            settings: &self.settings,
            keys: self.provider.keys(),
            now: self.clock.wall_seconds(),
        };
        let claims = match judge().id_token(id_token, &nonce, Some(access_token)) {
            Ok(claims) => claims,
            // Perhaps signed with a key that is newer than our copy of the keys.
            Err(TokenError::Refused(_)) => {
                self.provider
                    .look_for_key(key_id(&id_token.to_string()).as_ref())
                    .await;
                judge().id_token(id_token, &nonce, Some(access_token))?
            }
            Err(error) => return Err(error.into()),
        };
        self.used.remember(&returned.state);
        let mut person = claims::person(claims, &self.settings.groups_claim);
        let others = &claims.additional_claims().0;
        let missing = self.missing(&person, claims);
        self.complete_person(&mut person, missing, Some(others), &response, &metadata)
            .await?;
        let session_id = claims
            .additional_claims()
            .0
            .get("sid")
            .and_then(|sid| sid.as_str());
        Ok(SignedIn {
            principal: Principal::new(person, &self.settings.admin_groups),
            access_token: Secret::new(access_token.secret().as_str()),
            tokens: ProviderTokens {
                id_token: Some(Secret::new(id_token.to_string())),
                refresh_token: ArcSwapOption::from(
                    response
                        .refresh_token()
                        .map(|token| Arc::new(Secret::new(token.secret().as_str()))),
                ),
                session_id: session_id.map(Into::into),
                arvados: None,
                console: None,
            },
        })
    }

    /// A client for what is known of the provider.
    pub(super) fn client(&self, metadata: &Metadata) -> Result<OidcClient, SignInError> {
        let secret = self
            .settings
            .client_secret
            .as_ref()
            .map(|s| ClientSecret::new(s.expose().to_owned()));
        let redirect = RedirectUrl::new(self.redirect_uri.clone())
            .map_err(|error| SignInError::Unavailable(error.to_string()))?;
        let client_id = ClientId::new(self.settings.client_id.clone());
        Ok(
            OidcClient::from_provider_metadata(metadata.clone(), client_id, secret)
                .set_redirect_uri(redirect),
        )
    }
}

/// The key that a token names.
pub(super) fn key_id(token: &str) -> Option<openidconnect::JsonWebKeyId> {
    use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
    let header = URL_SAFE_NO_PAD.decode(token.split('.').next()?).ok()?;
    let header: serde_json::Value = serde_json::from_slice(&header).ok()?;
    header
        .get("kid")?
        .as_str()
        .map(|kid| openidconnect::JsonWebKeyId::new(kid.to_owned()))
}

/// Until the provider was discovered.
pub(super) fn not_known() -> SignInError {
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
        RequestTokenError::Request(error) => SignInError::Unavailable(chain(&error)),
        // The provider did answer, with something that is no token: trying again would not help.
        error @ (RequestTokenError::Parse(..) | RequestTokenError::Other(_)) => {
            SignInError::Token(TokenError::Refused(chain(&error)))
        }
    }
}
