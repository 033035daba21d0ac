//! The OpenID Connect client. Browsers sign in by the authorization code flow, with PKCE, state and
//! nonce.
//!
//! `provider` discovers the provider and its keys, `provider_health` says whether calls to it
//! succeed, and `providers` are those where people sign in, each with its own `outage`; `pending`
//! is the state that the browser carries; `sign_in` exchanges the code; `userinfo` and `overage`
//! add claims that the ID token lacks; `refresh` checks a person again; `claims` turns tokens into
//! a person, with the claims that rules name (`kept_claims`), and
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
mod outage;
mod overage;
pub mod pending;
pub mod provider;
mod provider_health;
pub mod providers;
pub(crate) mod refresh;
pub mod settings;
pub mod sign_in;
pub mod token_endpoint;
pub mod token_grant;
mod userinfo;

use std::sync::{Arc, atomic::Ordering};

use futures_util::future::join_all;

use crate::{
    model::{clock::Clock, site::Site},
    ops::{http_client::CallCounter, tls_client::NoCertificate},
    session::keys::KeyRing,
};
use api_tokens::ApiTokens;
use bearer::BearerVerifier;
use context::ProviderContext;
use device_grant::DeviceGrant;
use introspection::Introspection;
use provider::DiscoveryScope;
use providers::{Providers, SignInProvider};
pub use settings::OidcSettings;
use settings::TrustedIssuer;
use token_grant::TokenGrant;
use userinfo::PersonCompletion;

/// Where the provider sends the browser of a person who gets an API token.
pub const TOKEN_CALLBACK: &str = "/oidc/auth-flow/callback";

/// The client. One per process, shared by all threads; its calls run on the control runtime.
#[derive(Debug)]
pub struct Oidc {
    /// Where people sign in.
    pub providers: Providers,
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
    /// The default provider, whose tokens programs send.
    context: Arc<ProviderContext>,
    keys: Arc<KeyRing>,
}

impl Oidc {
    /// A client that has not discovered its providers yet; see [`Oidc::keep_informed`].
    ///
    /// # Errors
    /// When a CA file cannot be used.
    pub fn new(
        mut settings: OidcSettings,
        site: &Site,
        keys: Arc<KeyRing>,
        clock: Clock,
        calls: CallCounter,
    ) -> Result<Oidc, NoCertificate> {
        let trusted = trusted(&settings, &clock, &calls)?;
        let further = std::mem::take(&mut settings.providers);
        let callback = format!("{}{}", site.origin, site.endpoint("callback"));
        let context = |settings: OidcSettings| -> Result<_, NoCertificate> {
            let redirect_uri = match settings.accounts.provider() {
                None => callback.clone(),
                // One for each provider, so that no answer of one is taken for that of another.
                Some(id) => format!("{callback}/{id}"),
            };
            let scope = DiscoveryScope::SignIn;
            let context = ProviderContext::new(settings, redirect_uri, scope, &clock, &calls)?;
            Ok(Arc::new(context))
        };
        let further = further
            .into_iter()
            .map(|settings| -> Result<_, NoCertificate> {
                let context = context(settings)?;
                let completion = Arc::new(PersonCompletion::new(context.clone()));
                Ok(SignInProvider::new(context, completion, keys.clone()))
            });
        let further = further.collect::<Result<Vec<_>, _>>()?;
        let context = context(settings)?;
        let completion = Arc::new(PersonCompletion::new(context.clone()));
        let default = SignInProvider::new(context.clone(), completion.clone(), keys.clone());
        Ok(Oidc {
            providers: Providers::new(default, further),
            bearer: Arc::new(BearerVerifier::new(context.clone(), None)),
            trusted,
            introspection: Introspection::new(context.clone()),
            api_tokens: ApiTokens::new(context.clone(), completion),
            token_grant: TokenGrant::new(
                context.clone(),
                keys.clone(),
                format!("{}{TOKEN_CALLBACK}", site.origin),
            ),
            device_grant: DeviceGrant::new(context.clone(), keys.clone()),
            context,
            keys,
        })
    }

    /// Discovers the default provider, however long that takes, and keeps its keys fresh. Never
    /// returns.
    pub async fn keep_informed(&self) {
        self.context.provider.keep_informed().await;
    }

    /// Keeps the keys of trusted issuers fresh. Returns at once if there are none.
    pub async fn keep_trusted_informed(&self) {
        join_all(self.trusted.iter().map(|issuer| issuer.keep_informed())).await;
    }

    /// Whether the default provider is discovered. Until then bearer tokens cannot be verified.
    pub fn is_ready(&self) -> bool {
        self.context.provider.current().is_some()
    }

    /// Waits for a discovery of the default provider that is under way, a few seconds at most.
    pub async fn wait_until_known(&self) {
        self.context.provider.wait_until_known().await;
    }

    /// Sets whether sign-ins keep the access token of the default provider, for apps. Those that
    /// have none get one with their next refresh. Apps expect tokens of one issuer, so those of
    /// further providers are not kept.
    pub fn keep_access_tokens(&self, keeps: bool) {
        let flag = &self.context.keeps_access_tokens;
        flag.store(keeps, Ordering::Relaxed);
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
        let settings = issuer.verification(&people.accounts);
        let scope = DiscoveryScope::Keys;
        // No person is ever sent to another issuer.
        let context = ProviderContext::new(settings, String::new(), scope, clock, calls)?;
        let context = Arc::new(context);
        let accounts = Some(issuer.accounts.clone());
        Ok(Arc::new(BearerVerifier::new(context, accounts)))
    };
    people.trusted_issuers.iter().map(verifier).collect()
}
