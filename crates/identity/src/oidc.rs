//! The OpenID Connect client: authorization code with PKCE, state and nonce; nothing else.
//!
//! `provider` knows the provider and its keys, `pending` what the browser carries while it is away,
//! `sign_in` exchanges the code, `userinfo` adds what the ID token does not say, `refresh` asks
//! again later, `claims` turns tokens into a person, `bearer` judges API tokens.

pub mod bearer;
pub mod claims;
pub mod http_client;
pub mod logout;
pub mod overage;
pub mod pending;
pub mod provider;
pub mod refresh;
pub mod sign_in;
pub mod userinfo;

use std::sync::Arc;

use openidconnect::IssuerUrl;

use crate::model::{access::GroupName, clock::Clock, secret::Secret, site::Site};
use crate::{
    ops::http_client::{CallCounter, HttpClient},
    session::keys::KeyRing,
};
use bearer::VerifiedTokenCache;
use pending::UsedStates;
use provider::Provider;
use userinfo::GroupsClaimWarning;

/// How to speak to the provider, and what its claims mean here.
#[derive(Clone, Debug)]
pub struct OidcSettings {
    /// Byte for byte what the provider calls itself.
    pub issuer: IssuerUrl,
    /// Who we are to it.
    pub client_id: String,
    /// Absent for a public client; PKCE is used either way.
    pub client_secret: Option<Secret>,
    /// RecheckOutcome for at sign-in; `openid` is always among them.
    pub scopes: Vec<String>,
    /// A claim's name, or a JSON pointer when it begins with `/`.
    pub groups_claim: String,
    /// Where groups are that a token has no room for; `None`: they are not looked for.
    pub directory: Option<overage::GroupDirectory>,
    /// Whose members are admins.
    pub admin_groups: Vec<GroupName>,
    /// Accepted in `aud` of bearer tokens.
    pub audiences: Vec<String>,
    /// Whether who signs out here is sent to sign out there too.
    pub sign_out_at_provider: bool,
    /// PEM content of the CA behind the provider's certificate; `None`: the system's.
    pub ca: Option<Arc<[u8]>>,
}

/// The client. One per process, shared by all threads; its calls run on the control runtime.
#[derive(Debug)]
pub struct Oidc {
    settings: OidcSettings,
    redirect_uri: String,
    provider: Provider,
    keys: Arc<KeyRing>,
    used: UsedStates,
    judged: VerifiedTokenCache,
    groups_claim_warning: GroupsClaimWarning,
    clock: Clock,
}

impl Oidc {
    /// A client that does not know its provider yet; see [`Oidc::keep_informed`].
    ///
    /// # Errors
    /// When the CA file cannot be used.
    pub fn new(
        settings: OidcSettings,
        site: &Site,
        keys: Arc<KeyRing>,
        clock: Clock,
        calls: CallCounter,
    ) -> Result<Oidc, crate::ops::tls_client::NoCertificate> {
        let http = Arc::new(HttpClient::new(settings.ca.as_deref(), calls)?);
        Ok(Oidc {
            redirect_uri: format!("{}{}", site.origin, site.endpoint("callback")),
            provider: Provider::new(settings.issuer.clone(), http, clock.clone()),
            settings,
            keys,
            used: UsedStates::new(),
            judged: VerifiedTokenCache::default(),
            groups_claim_warning: GroupsClaimWarning::default(),
            clock,
        })
    }

    /// Discovers the provider, however long that takes, and keeps its keys fresh; never ends.
    pub async fn keep_informed(&self) {
        self.provider.keep_informed().await;
    }

    /// Whether the provider is known; without it nobody can sign in, and everything else works.
    pub fn is_ready(&self) -> bool {
        self.provider.current().is_some()
    }

    /// Waits while the provider is being discovered, for a few seconds at most.
    pub async fn wait_until_known(&self) {
        self.provider.wait_until_known().await;
    }

    /// What was configured.
    pub fn settings(&self) -> &OidcSettings {
        &self.settings
    }

    /// Keys for the forms of our own pages.
    pub fn keys(&self) -> &KeyRing {
        &self.keys
    }
}
