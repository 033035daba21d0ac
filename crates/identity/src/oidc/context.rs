//! The provider, the configuration and the clock, which all parts of the client share.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use openidconnect::{
    ClientId, ClientSecret, Nonce, OAuth2TokenResponse, RedirectUrl, TokenResponse,
};

use super::{
    claims::{Claims, TokenError, TokenVerifier},
    provider::{DiscoveryScope, Metadata, Provider},
    settings::OidcSettings,
    token_endpoint::{OidcClient, SignInError, TokenEndpointResponse, key_id},
};
use crate::{
    model::{clock::Clock, secret::Secret},
    ops::{
        http_client::{CallCounter, HttpClient},
        tls_client::NoCertificate,
    },
    session::access_token::KeptAccessToken,
};

/// The parts that every call to the provider needs.
#[derive(Debug)]
pub(crate) struct ProviderContext {
    pub(super) settings: OidcSettings,
    pub(super) redirect_uri: String,
    pub(super) provider: Provider,
    pub(super) clock: Clock,
    /// Whether an app gets the access tokens of people, so that sign-ins keep them.
    pub(super) keeps_access_tokens: AtomicBool,
}

impl ProviderContext {
    /// A client of an issuer that is not discovered yet.
    ///
    /// # Errors
    /// When the CA file cannot be used.
    pub(super) fn new(
        settings: OidcSettings,
        redirect_uri: String,
        scope: DiscoveryScope,
        clock: &Clock,
        calls: &CallCounter,
    ) -> Result<ProviderContext, NoCertificate> {
        let http = Arc::new(HttpClient::new(settings.ca.as_deref(), calls.clone())?);
        let issuer = settings.issuer.clone();
        Ok(ProviderContext {
            settings,
            redirect_uri,
            provider: Provider::new(issuer, scope, http, clock.clone()),
            clock: clock.clone(),
            keeps_access_tokens: AtomicBool::new(false),
        })
    }

    /// A verifier with the current keys and the current time.
    pub(super) fn token_verifier(&self) -> TokenVerifier<'_> {
        TokenVerifier {
            settings: &self.settings,
            keys: self.provider.keys(),
            now: self.clock.wall_seconds(),
        }
    }

    /// openidconnect's client for the discovered provider.
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

    /// The access token of a response, if an app gets it.
    pub(super) fn kept_access_token(
        &self,
        response: &TokenEndpointResponse,
    ) -> Option<Arc<KeptAccessToken>> {
        if !self.keeps_access_tokens.load(Ordering::Relaxed) {
            return None;
        }
        let token = Secret::new(response.access_token().secret().as_str());
        let received_at = self.clock.wall_seconds();
        KeptAccessToken::new(token, response.expires_in(), received_at).map(Arc::new)
    }

    /// The claims of the ID token in the response to a refresh, if there is one. It need not carry
    /// the nonce of the sign-in (OpenID Connect Core section 12.2).
    pub(super) async fn id_token_claims(
        &self,
        response: &TokenEndpointResponse,
    ) -> Result<Option<Claims>, SignInError> {
        let Some(id_token) = response.id_token() else {
            return Ok(None);
        };
        let verifier = || self.token_verifier();
        let any = |_: Option<&Nonce>| Ok(());
        let access_token = Some(response.access_token());
        match verifier().verify_id_token(id_token, any, access_token) {
            Ok(claims) => Ok(Some(claims.clone())),
            // The token may be signed with a key that is newer than our copy of the keys.
            Err(TokenError::Refused(_)) => {
                self.provider
                    .look_for_key(key_id(&id_token.to_string()).as_ref())
                    .await;
                Ok(Some(
                    verifier()
                        .verify_id_token(id_token, any, access_token)?
                        .clone(),
                ))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Checks the parameter `iss` of a callback (RFC 9207).
    pub(super) fn check_issuer(&self, returned: Option<&str>) -> Result<(), SignInError> {
        let ours = self.settings.issuer.as_str();
        let promised = self.provider.current().is_some_and(|metadata| {
            metadata
                .additional_metadata()
                .authorization_response_iss_parameter_supported
        });
        match returned {
            Some(issuer) if issuer != ours => Err(SignInError::OtherIssuer),
            None if promised => Err(SignInError::OtherIssuer),
            Some(_) | None => Ok(()),
        }
    }
}
