//! The providers where people sign in: the default one, and further ones. A sign-in records its
//! provider, so that its tokens are sent to no other one.

use std::{sync::Arc, time::Instant};

use futures_util::future::join_all;
use openidconnect::IssuerUrl;

use super::{
    context::ProviderContext,
    logout::{LogoutAtProvider, unverified_issuer},
    outage::Outage,
    refresh::TokenRefresh,
    sign_in::SignInFlow,
    userinfo::PersonCompletion,
};
use crate::{
    model::{principal::Principal, provider_id::ProviderId, upstream_health::UpstreamFailure},
    session::{keys::KeyRing, record::SignIn},
};

/// A provider where people sign in.
#[derive(Debug)]
pub struct SignInProvider {
    /// The authorization code flow.
    pub sign_in: SignInFlow,
    /// Sign-out at the provider.
    pub logout: LogoutAtProvider,
    pub(crate) refresh: TokenRefresh,
    pub(crate) outage: Outage,
    context: Arc<ProviderContext>,
}

impl SignInProvider {
    pub(super) fn new(
        context: Arc<ProviderContext>,
        completion: Arc<PersonCompletion>,
        keys: Arc<KeyRing>,
    ) -> SignInProvider {
        SignInProvider {
            sign_in: SignInFlow::new(context.clone(), completion.clone(), keys),
            logout: LogoutAtProvider::new(context.clone()),
            refresh: TokenRefresh::new(context.clone(), completion),
            outage: Outage::default(),
            context,
        }
    }

    /// Its id; `None`: the default provider.
    pub fn id(&self) -> Option<&ProviderId> {
        self.context.settings.accounts.provider()
    }

    /// Its issuer.
    pub fn issuer(&self) -> &IssuerUrl {
        &self.context.settings.issuer
    }

    /// Its name for people: the configured one, else the host of its issuer.
    pub fn name(&self) -> &str {
        let settings = &self.context.settings;
        let host = || settings.issuer.url().host_str();
        let name = settings.name.as_deref().or_else(host);
        name.unwrap_or("the sign-in service")
    }

    /// Whether a person of an earlier sign-in has names that its accounts may have.
    pub(crate) fn can_have(&self, person: &Principal) -> bool {
        self.context.settings.accounts.can_have(person)
    }

    /// Whether it is discovered. Until then people cannot sign in there.
    pub fn is_ready(&self) -> bool {
        self.context.provider.current().is_some()
    }

    /// Why its last discovery failed.
    pub fn discovery_error(&self) -> Option<Arc<String>> {
        self.context.provider.discovery_error()
    }

    /// Why the last call to it failed, and since when calls fail. `None`: it got an answer.
    pub fn failure(&self) -> Option<(UpstreamFailure, Instant)> {
        self.context.provider.health().failure()
    }

    /// Waits for a discovery that is under way, a few seconds at most.
    pub async fn wait_until_known(&self) {
        self.context.provider.wait_until_known().await;
    }
}

/// All providers where people sign in.
#[derive(Debug)]
pub struct Providers {
    default: Arc<SignInProvider>,
    further: Vec<Arc<SignInProvider>>,
}

impl Providers {
    pub(super) fn new(default: SignInProvider, further: Vec<SignInProvider>) -> Providers {
        Providers {
            default: Arc::new(default),
            further: further.into_iter().map(Arc::new).collect(),
        }
    }

    /// The default provider.
    pub fn default_provider(&self) -> &Arc<SignInProvider> {
        &self.default
    }

    /// Whether people choose where to sign in.
    pub fn are_several(&self) -> bool {
        !self.further.is_empty()
    }

    /// All of them, the default one first.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<SignInProvider>> {
        std::iter::once(&self.default).chain(&self.further)
    }

    /// The provider with an id, where `None` stands for the default one. `None`: it is not
    /// configured any more.
    pub fn get(&self, id: Option<&ProviderId>) -> Option<&Arc<SignInProvider>> {
        self.iter().find(|provider| provider.id() == id)
    }

    /// The provider that issued the tokens of a sign-in. `None`: it is not configured any more. An
    /// id, or the place of the default provider, may belong to another issuer now, which must not
    /// get these tokens.
    pub fn of_sign_in(&self, sign_in: &SignIn) -> Option<&Arc<SignInProvider>> {
        let provider = self.get(sign_in.tokens.provider.as_ref())?;
        let id_token = sign_in.tokens.id_token.as_ref();
        let id_token = id_token.filter(|_| self.are_several());
        let issuer = id_token.and_then(|token| unverified_issuer(token.expose()));
        let is_same = issuer.is_none_or(|issuer| issuer == provider.issuer().as_str());
        is_same.then_some(provider)
    }

    /// The provider with an issuer.
    pub fn by_issuer(&self, issuer: &str) -> Option<&Arc<SignInProvider>> {
        self.iter()
            .find(|provider| provider.issuer().as_str() == issuer)
    }

    /// The provider that verifies a logout token: the one whose issuer the token names, else the
    /// default one, which refuses it.
    pub fn for_logout_token(&self, token: &str) -> &Arc<SignInProvider> {
        let issuer = self.are_several().then(|| unverified_issuer(token));
        let named = issuer.flatten().and_then(|issuer| self.by_issuer(&issuer));
        named.unwrap_or(&self.default)
    }

    /// Discovers the further providers, and keeps their keys fresh. Returns at once if there are
    /// none.
    pub async fn keep_further_informed(&self) {
        let informed = |provider: &Arc<SignInProvider>| {
            let context = provider.context.clone();
            async move { context.provider.keep_informed().await }
        };
        join_all(self.further.iter().map(informed)).await;
    }
}
