//! The provider, the configuration and the clock, which all parts of the client share.

use openidconnect::{ClientId, ClientSecret, RedirectUrl};

use super::{
    claims::TokenVerifier,
    provider::{Metadata, Provider},
    settings::OidcSettings,
    token_endpoint::{OidcClient, SignInError},
};
use crate::model::clock::Clock;

/// The parts that every call to the provider needs.
#[derive(Debug)]
pub(crate) struct ProviderContext {
    pub(super) settings: OidcSettings,
    pub(super) redirect_uri: String,
    pub(super) provider: Provider,
    pub(super) clock: Clock,
}

impl ProviderContext {
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
}
