//! The metadata and keys of an issuer: of the provider, or of a trusted issuer. They are fetched in
//! the background and stay in use while the issuer is unavailable.

use std::{sync::Arc, time::Duration};

use arc_swap::{ArcSwap, ArcSwapOption};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use http::{Request, StatusCode, header};
use openidconnect::{
    AdditionalProviderMetadata, DiscoveryError, IssuerUrl, JsonWebKey, JsonWebKeyId, JsonWebKeySet,
    JsonWebKeySetUrl, ProviderMetadata,
    core::{
        CoreAuthDisplay, CoreClaimName, CoreClaimType, CoreClientAuthMethod, CoreGrantType,
        CoreJsonWebKey, CoreJsonWebKeySet, CoreJsonWebKeyType, CoreJweContentEncryptionAlgorithm,
        CoreJweKeyManagementAlgorithm, CoreResponseMode, CoreResponseType,
        CoreSubjectIdentifierType,
    },
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use tokio::sync::{Mutex, watch};

use super::{http_client::ProviderCalls, provider_health::ProviderHealth};
use crate::{
    model::{
        clock::{Clock, Moment},
        error_cause::chain_text,
    },
    ops::http_client::{CallLimits, HttpClient},
};

/// The first and the longest pause between attempts at discovery.
const FIRST_RETRY: Duration = Duration::from_millis(250);
const LAST_RETRY: Duration = Duration::from_secs(10);
/// How long a sign-in waits for a discovery that is under way.
const DISCOVERY_WAIT: Duration = Duration::from_secs(5);
/// Keys and metadata are read again this often.
const REFRESH: Duration = Duration::from_secs(3600);
/// Unknown key ids lead to at most one fetch in this time, for all clients together.
const UNKNOWN_KEY_PAUSE: Duration = Duration::from_secs(30);
/// Largest key set that is accepted; a provider publishes a handful of keys.
const MAX_KEYS: usize = 100;
/// RFC 7518 section 3.3.
const MIN_RSA_BITS: usize = 2048;

/// Metadata beyond the core set.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct ExtraMetadata {
    /// RP-initiated logout 1.0.
    #[serde(default)]
    pub end_session_endpoint: Option<String>,
    /// RFC 7009.
    #[serde(default)]
    pub revocation_endpoint: Option<String>,
    /// RFC 7662, with the name of RFC 8414.
    #[serde(default)]
    pub introspection_endpoint: Option<String>,
    /// RFC 8628.
    #[serde(default)]
    pub device_authorization_endpoint: Option<String>,
    /// RFC 9207: the callback carries `iss`.
    #[serde(default)]
    pub authorization_response_iss_parameter_supported: bool,
}

impl AdditionalProviderMetadata for ExtraMetadata {}

/// The provider's metadata.
pub type Metadata = ProviderMetadata<
    ExtraMetadata,
    CoreAuthDisplay,
    CoreClientAuthMethod,
    CoreClaimName,
    CoreClaimType,
    CoreGrantType,
    CoreJweContentEncryptionAlgorithm,
    CoreJweKeyManagementAlgorithm,
    CoreJsonWebKey,
    CoreResponseMode,
    CoreResponseType,
    CoreSubjectIdentifierType,
>;

/// The part of an issuer's metadata that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiscoveryScope {
    /// What sign-in needs.
    SignIn,
    /// The keys alone: issuers that sign tokens for workloads have no endpoints for people.
    Keys,
}

/// The metadata of [`DiscoveryScope::Keys`].
#[derive(Deserialize)]
struct KeysMetadata {
    issuer: String,
    jwks_uri: JsonWebKeySetUrl,
}

/// The metadata that say whose they are.
#[derive(Deserialize)]
struct IssuerMetadata {
    issuer: String,
}

/// An issuer: its metadata and keys, once fetched.
#[derive(Debug)]
pub struct Provider {
    issuer: IssuerUrl,
    scope: DiscoveryScope,
    http: Arc<HttpClient>,
    health: Arc<ProviderHealth>,
    metadata: ArcSwapOption<Metadata>,
    /// Where the keys are, once discovered.
    keys_url: ArcSwapOption<JsonWebKeySetUrl>,
    keys: ArcSwap<CoreJsonWebKeySet>,
    last_fetch: Mutex<Option<Moment>>,
    discovery: watch::Sender<Discovery>,
    /// Why the last discovery failed.
    discovery_error: ArcSwapOption<String>,
    clock: Clock,
}

/// State of the discovery, until the metadata are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Discovery {
    /// An attempt is running.
    UnderWay,
    /// The last attempt has succeeded or failed. A failed one is repeated soon.
    Done,
}

impl Provider {
    /// An issuer that is not discovered yet.
    pub fn new(
        issuer: IssuerUrl,
        scope: DiscoveryScope,
        http: Arc<HttpClient>,
        clock: Clock,
    ) -> Provider {
        Provider {
            health: Arc::new(ProviderHealth::new(issuer.clone())),
            issuer,
            scope,
            http,
            metadata: ArcSwapOption::empty(),
            keys_url: ArcSwapOption::empty(),
            keys: ArcSwap::from_pointee(JsonWebKeySet::new(Vec::new())),
            last_fetch: Mutex::new(None),
            discovery: watch::Sender::new(Discovery::UnderWay),
            discovery_error: ArcSwapOption::empty(),
            clock,
        }
    }

    /// Calls to one endpoint of the issuer, with its label in the metrics.
    pub fn calls(&self, endpoint: &'static str) -> ProviderCalls {
        ProviderCalls::new(&self.http, endpoint).recorded_in(&self.health)
    }

    /// The client for a server that the issuer does not answer for, such as a directory of groups.
    pub(super) fn http(&self) -> &HttpClient {
        &self.http
    }

    /// Whether calls succeed.
    pub fn health(&self) -> &ProviderHealth {
        &self.health
    }

    /// Whether the issuer is discovered.
    pub fn is_discovered(&self) -> bool {
        self.keys_url.load().is_some()
    }

    /// Why the last discovery failed.
    pub fn discovery_error(&self) -> Option<Arc<String>> {
        self.discovery_error.load_full()
    }

    /// The metadata, once discovered; never with [`DiscoveryScope::Keys`].
    pub fn current(&self) -> Option<Arc<Metadata>> {
        self.metadata.load_full()
    }

    /// Waits for a discovery that is under way, at most [`DISCOVERY_WAIT`], so that a sign-in
    /// during the start of the process succeeds. Returns at once when discovery has failed. Cancel
    /// safety: may be dropped.
    pub async fn wait_until_known(&self) {
        if self.metadata.load().is_some() {
            return;
        }
        let mut discovery = self.discovery.subscribe();
        let _ = tokio::time::timeout(
            DISCOVERY_WAIT,
            discovery.wait_for(|now| *now == Discovery::Done),
        )
        .await;
    }

    /// The current keys.
    pub fn keys(&self) -> Arc<CoreJsonWebKeySet> {
        self.keys.load_full()
    }

    /// Discovers the provider, with growing pauses after failures, and again every hour. After a
    /// failure the last metadata and keys stay in use. Never returns.
    pub async fn keep_informed(&self) {
        let mut pause = FIRST_RETRY;
        loop {
            self.discovery.send_replace(Discovery::UnderWay);
            let discovered = self.discover().await;
            self.discovery.send_replace(Discovery::Done);
            match discovered {
                Ok(()) => {
                    self.discovery_error.store(None);
                    pause = FIRST_RETRY;
                    tokio::time::sleep(REFRESH).await;
                }
                Err(error) => {
                    tracing::warn!(issuer = %self.issuer.as_str(), %error, "cannot discover the identity provider");
                    self.discovery_error.store(Some(Arc::new(error)));
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(LAST_RETRY);
                }
            }
        }
    }

    async fn discover(&self) -> Result<(), String> {
        let (keys_url, keys, metadata) = match self.scope {
            DiscoveryScope::SignIn => {
                let found = self.discover_metadata().await?;
                let (keys_url, keys) = (found.jwks_uri().clone(), found.jwks().clone());
                (keys_url, keys, Some(Arc::new(found)))
            }
            DiscoveryScope::Keys => {
                let (keys_url, keys) = self.discover_keys().await?;
                (keys_url, keys, None)
            }
        };
        if !self.is_discovered() {
            tracing::info!(issuer = %self.issuer.as_str(), keys = keys.keys().len(), "discovered the identity provider");
        }
        self.take_keys(keys);
        self.keys_url.store(Some(Arc::new(keys_url)));
        // Last: a request that finds the metadata finds the keys too.
        if let Some(metadata) = metadata {
            self.metadata.store(Some(metadata));
        }
        Ok(())
    }

    async fn discover_metadata(&self) -> Result<Metadata, String> {
        let http = self.calls("discovery");
        match Metadata::discover_async(self.issuer.clone(), &http).await {
            Ok(found) => Ok(found),
            Err(error) => {
                let is_other = matches!(error, DiscoveryError::Validation(_));
                let remedy = match is_other {
                    true => self.remedy().await,
                    false => None,
                };
                Err(remedy.unwrap_or_else(|| chain_text(&error)))
            }
        }
    }

    /// What to do about metadata of another issuer. They are fetched again, since the library's
    /// error names the other issuer only in a text.
    async fn remedy(&self) -> Option<String> {
        let metadata: IssuerMetadata = self.fetch_metadata().await.ok()?;
        slash_remedy(self.scope, self.issuer.as_str(), &metadata.issuer)
    }

    /// Reads the keys by a document that may lack everything else (OpenID Connect Discovery 1.0
    /// section 4).
    async fn discover_keys(&self) -> Result<(JsonWebKeySetUrl, CoreJsonWebKeySet), String> {
        let issuer = self.issuer.as_str();
        let metadata: KeysMetadata = self.fetch_metadata().await?;
        // Section 4.3: else one issuer could answer for another.
        if metadata.issuer != issuer {
            let remedy = slash_remedy(self.scope, issuer, &metadata.issuer);
            return Err(remedy.unwrap_or_else(|| "its metadata name another issuer".to_owned()));
        }
        let http = self.calls("keys");
        let keys = CoreJsonWebKeySet::fetch_async(&metadata.jwks_uri, &http).await;
        let keys = keys.map_err(|error| chain_text(&error))?;
        Ok((metadata.jwks_uri, keys))
    }

    /// Fetches the metadata (OpenID Connect Discovery 1.0 section 4).
    async fn fetch_metadata<M: DeserializeOwned>(&self) -> Result<M, String> {
        let issuer = self.issuer.as_str();
        let base = issuer.strip_suffix('/').unwrap_or(issuer);
        let request = Request::get(format!("{base}/.well-known/openid-configuration"))
            .header(header::ACCEPT, "application/json")
            .body(Vec::new())
            .map_err(|error| error.to_string())?;
        let calls = self.calls("discovery");
        let answer = calls.send(request, CallLimits::default()).await;
        let answer = answer.map_err(|error| chain_text(&error))?;
        if answer.status() != StatusCode::OK {
            return Err(format!("its metadata have the status {}", answer.status()));
        }
        serde_json::from_slice(answer.body()).map_err(|error| error.to_string())
    }

    /// Fetches the provider's keys if the key of a token is unknown, at most once in 30 s for all
    /// clients together. `None` stands for a token that names no key.
    pub async fn look_for_key(&self, id: Option<&JsonWebKeyId>) {
        if self.knows(id) {
            return;
        }
        let Some(keys_url) = self.keys_url.load_full() else {
            return;
        };
        // Single flight: a task that waited here finds the new keys, or a fetch too recent to
        // repeat.
        let mut last = self.last_fetch.lock().await;
        let now = self.clock.now();
        if self.knows(id) || last.is_some_and(|last| now < last.after(UNKNOWN_KEY_PAUSE)) {
            return;
        }
        *last = Some(now);
        let http = self.calls("keys");
        match CoreJsonWebKeySet::fetch_async(&keys_url, &http).await {
            Ok(keys) => self.take_keys(keys),
            Err(error) => tracing::warn!(
                error = chain_text(&error),
                "cannot read the identity provider's keys"
            ),
        }
    }

    /// Whether this key has been fetched; `None`: whether any key has.
    pub fn knows(&self, id: Option<&JsonWebKeyId>) -> bool {
        let keys = self.keys.load();
        match id {
            Some(id) => keys.keys().iter().any(|key| key.key_id() == Some(id)),
            None => !keys.keys().is_empty(),
        }
    }

    fn take_keys(&self, keys: CoreJsonWebKeySet) {
        let (strong, weak): (Vec<_>, Vec<_>) = keys.keys().iter().cloned().partition(is_strong);
        for key in weak {
            let key = key.key_id().map(|id| id.as_str());
            tracing::warn!(
                key,
                "an RSA key of the provider has less than 2048 bits and is not used"
            );
        }
        // An empty or oversized set is a fault of the provider; the previous keys stay in use.
        if (1..=MAX_KEYS).contains(&strong.len()) {
            self.keys.store(Arc::new(JsonWebKeySet::new(strong)));
        }
    }
}

/// What to do if two issuers differ only by a slash at the end. They must be equal byte for byte
/// (section 4.3).
fn slash_remedy(scope: DiscoveryScope, configured: &str, published: &str) -> Option<String> {
    let differs = configured != published
        && configured.trim_end_matches('/') == published.trim_end_matches('/');
    let key = match scope {
        DiscoveryScope::SignIn => "identity.issuer",
        DiscoveryScope::Keys => "issuer in identity.trusted_issuers",
    };
    differs
        .then(|| format!("its metadata have the issuer {published:?}: set {key} to {published:?}"))
}

/// Whether a key is long enough: RSA needs 2048 bits (RFC 7518 section 3.3). Curves have a fixed
/// size.
fn is_strong(key: &CoreJsonWebKey) -> bool {
    if *key.key_type() != CoreJsonWebKeyType::RSA {
        return true;
    }
    // The library exposes the modulus only in the JSON form of the key.
    let Ok(json) = serde_json::to_value(key) else {
        return false;
    };
    let modulus = json
        .get("n")
        .and_then(|n| n.as_str())
        .and_then(|n| URL_SAFE_NO_PAD.decode(n).ok());
    let modulus = modulus.unwrap_or_default();
    let first = modulus
        .iter()
        .position(|byte| *byte != 0)
        .unwrap_or(modulus.len());
    let bits = modulus.get(first).map_or(0, |byte| {
        (modulus.len() - first) * 8 - byte.leading_zeros() as usize
    });
    bits >= MIN_RSA_BITS
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn rsa(bits: usize, leading_zeros: usize) -> serde_json::Value {
        let mut modulus = vec![0; leading_zeros];
        modulus.extend(vec![0x80_u8; bits / 8]);
        json!({ "kty": "RSA", "use": "sig", "kid": format!("{bits}"), "n": URL_SAFE_NO_PAD.encode(modulus), "e": "AQAB" })
    }

    #[test]
    fn an_issuer_that_differs_by_a_slash_at_the_end_has_a_remedy() {
        for (configured, published, wanted) in [
            ("https://op.test", "https://op.test/", true),
            ("https://op.test/hub/", "https://op.test/hub", true),
            ("https://op.test", "https://op.test", false),
            ("https://op.test", "https://op.example/", false),
            ("https://op.test/hub", "https://op.test/", false),
        ] {
            let remedy = slash_remedy(DiscoveryScope::SignIn, configured, published);
            assert_eq!(remedy.is_some(), wanted, "{configured} {published}");
            if let Some(remedy) = remedy {
                assert!(remedy.ends_with(&format!("set identity.issuer to {published:?}")));
            }
        }
    }

    #[test]
    fn rsa_keys_below_2048_bits_are_not_used() {
        let http = Arc::new(
            HttpClient::new(None, crate::ops::http_client::CallCounter::default())
                .expect("a client"),
        );
        let issuer = IssuerUrl::new("https://op.test".into()).expect("a URL");
        let provider = Provider::new(issuer, DiscoveryScope::Keys, http, Clock::system());
        let point = URL_SAFE_NO_PAD.encode([7; 32]);
        let curve = json!({ "kty": "EC", "crv": "P-256", "use": "sig", "kid": "ec", "x": point, "y": point });
        let take = |keys: Vec<serde_json::Value>| {
            provider.take_keys(serde_json::from_value(json!({ "keys": keys })).expect("a set"));
            let keys = provider.keys();
            keys.keys()
                .iter()
                .filter_map(|key| key.key_id())
                .map(|id| id.to_string())
                .collect::<Vec<_>>()
        };
        assert_eq!(
            take(vec![
                rsa(1024, 0),
                rsa(2048, 0),
                curve,
                rsa(4096, 1),
                rsa(2040, 1)
            ]),
            ["2048", "ec", "4096"]
        );
        assert_eq!(
            take(vec![rsa(1024, 0)]),
            ["2048", "ec", "4096"],
            "what worked goes on working"
        );
    }
}
