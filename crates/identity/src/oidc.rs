//! The OpenID Connect client. Browsers sign in by the authorization code flow, with PKCE, state and
//! nonce.
//!
//! `provider` discovers the provider and its keys, and `provider_health` says whether calls to it
//! succeed; `pending` is the state that the browser carries; `sign_in` exchanges the code;
//! `userinfo` and `overage` add claims that the ID token lacks; `refresh` checks a person again;
//! `claims` turns tokens into a person, with the claims that rules name (`kept_claims`), and
//! `account_mapping` names the person here; `bearer` verifies access tokens, also those of trusted
//! issuers (`foreign_accounts`), `introspection` opaque ones, and `api_tokens` exchanges refresh
//! tokens that programs send as such, which `token_grant` and, by device codes, `device_grant` give
//! to people; `logout` signs people out. They share `context`.

pub mod account_mapping;
pub mod api_tokens;
pub mod bearer;
pub mod claims;
mod context;
pub mod device_grant;
mod foreign_accounts;
pub mod http_client;
pub mod introspection;
mod kept_claims;
pub mod logout;
mod overage;
pub mod pending;
pub mod provider;
mod provider_health;
pub(crate) mod refresh;
pub mod settings;
pub mod sign_in;
pub mod token_endpoint;
pub mod token_grant;
mod userinfo;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

use futures_util::future::join_all;

use crate::{
    model::{clock::Clock, site::Site, upstream_health::UpstreamFailure},
    ops::{
        http_client::{CallCounter, HttpClient},
        tls_client::NoCertificate,
    },
    session::keys::KeyRing,
};
use api_tokens::ApiTokens;
use bearer::BearerVerifier;
use context::ProviderContext;
use device_grant::DeviceGrant;
use introspection::Introspection;
use logout::LogoutAtProvider;
use provider::{DiscoveryScope, Provider};
use refresh::TokenRefresh;
pub use settings::OidcSettings;
use settings::TrustedIssuer;
use sign_in::SignInFlow;
use token_grant::TokenGrant;
use userinfo::PersonCompletion;

/// Where the provider sends the browser of a person who gets an API token.
pub const TOKEN_CALLBACK: &str = "/oidc/auth-flow/callback";

/// The client. One per process, shared by all threads; its calls run on the control runtime.
#[derive(Debug)]
pub struct Oidc {
    /// The authorization code flow.
    pub sign_in: SignInFlow,
    /// The verifier of access tokens.
    pub bearer: Arc<BearerVerifier>,
    /// The verifiers of tokens of trusted issuers.
    pub trusted: Vec<Arc<BearerVerifier>>,
    /// The persons of opaque tokens.
    pub introspection: Introspection,
    /// The persons of API tokens.
    pub api_tokens: ApiTokens,
    /// How people get API tokens.
    pub token_grant: TokenGrant,
    /// How people get them by device codes.
    pub device_grant: DeviceGrant,
    /// Sign-out at the provider.
    pub logout: LogoutAtProvider,
    pub(crate) refresh: TokenRefresh,
    context: Arc<ProviderContext>,
    keys: Arc<KeyRing>,
}

impl Oidc {
    /// A client that has not discovered its provider yet; see [`Oidc::keep_informed`].
    ///
    /// # Errors
    /// When the CA file cannot be used.
    pub fn new(
        settings: OidcSettings,
        site: &Site,
        keys: Arc<KeyRing>,
        clock: Clock,
        calls: CallCounter,
    ) -> Result<Oidc, NoCertificate> {
        let trusted = trusted(&settings, &clock, &calls)?;
        let http = Arc::new(HttpClient::new(settings.ca.as_deref(), calls)?);
        let context = Arc::new(ProviderContext {
            redirect_uri: format!("{}{}", site.origin, site.endpoint("callback")),
            provider: Provider::new(
                settings.issuer.clone(),
                DiscoveryScope::SignIn,
                http,
                clock.clone(),
            ),
            settings,
            clock,
            keeps_access_tokens: AtomicBool::new(false),
        });
        let completion = Arc::new(PersonCompletion::new(context.clone()));
        Ok(Oidc {
            sign_in: SignInFlow::new(context.clone(), completion.clone(), keys.clone()),
            bearer: Arc::new(BearerVerifier::new(context.clone(), None)),
            trusted,
            introspection: Introspection::new(context.clone()),
            api_tokens: ApiTokens::new(context.clone(), completion.clone()),
            token_grant: TokenGrant::new(
                context.clone(),
                keys.clone(),
                format!("{}{TOKEN_CALLBACK}", site.origin),
            ),
            device_grant: DeviceGrant::new(context.clone(), keys.clone()),
            logout: LogoutAtProvider::new(context.clone()),
            refresh: TokenRefresh::new(context.clone(), completion),
            context,
            keys,
        })
    }

    /// Discovers the provider, however long that takes, and keeps its keys fresh. Never returns.
    pub async fn keep_informed(&self) {
        self.context.provider.keep_informed().await;
    }

    /// Keeps the keys of trusted issuers fresh. Returns at once if there are none.
    pub async fn keep_trusted_informed(&self) {
        join_all(self.trusted.iter().map(|issuer| issuer.keep_informed())).await;
    }

    /// Whether the provider is discovered. Until then sign-in is unavailable, and bearer tokens
    /// cannot be verified.
    pub fn is_ready(&self) -> bool {
        self.context.provider.current().is_some()
    }

    /// Why the last discovery of the provider failed.
    pub fn discovery_error(&self) -> Option<Arc<String>> {
        self.context.provider.discovery_error()
    }

    /// Why the last call to the provider failed, and since when calls fail. `None`: it got an
    /// answer.
    pub fn failure(&self) -> Option<(UpstreamFailure, Instant)> {
        self.context.provider.health().failure()
    }

    /// Waits for a discovery that is under way, a few seconds at most.
    pub async fn wait_until_known(&self) {
        self.context.provider.wait_until_known().await;
    }

    /// Sets whether sign-ins keep the access token of the provider, for apps. Those that have none
    /// get one with their next refresh.
    pub fn keep_access_tokens(&self, keeps: bool) {
        let flag = &self.context.keeps_access_tokens;
        flag.store(keeps, Ordering::Relaxed);
    }

    /// The configuration.
    pub fn settings(&self) -> &OidcSettings {
        &self.context.settings
    }

    /// The keys for the forms of our own pages.
    pub fn keys(&self) -> &KeyRing {
        &self.keys
    }
}

/// Verifiers of tokens of other issuers. Nothing is fetched from any other address.
fn trusted(
    people: &OidcSettings,
    clock: &Clock,
    calls: &CallCounter,
) -> Result<Vec<Arc<BearerVerifier>>, NoCertificate> {
    let verifier = |issuer: &TrustedIssuer| -> Result<_, NoCertificate> {
        let http = Arc::new(HttpClient::new(issuer.ca.as_deref(), calls.clone())?);
        let settings = issuer.verification(&people.accounts);
        let context = Arc::new(ProviderContext {
            // No person is ever sent to another issuer.
            redirect_uri: String::new(),
            provider: Provider::new(
                settings.issuer.clone(),
                DiscoveryScope::Keys,
                http,
                clock.clone(),
            ),
            settings,
            clock: clock.clone(),
            keeps_access_tokens: AtomicBool::new(false),
        });
        let accounts = Some(issuer.accounts.clone());
        Ok(Arc::new(BearerVerifier::new(context, accounts)))
    };
    people.trusted_issuers.iter().map(verifier).collect()
}
