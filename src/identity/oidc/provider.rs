//! The provider as discovered, and its keys: found in the background, kept when it goes away.

use std::{sync::Arc, time::Duration};

use arc_swap::{ArcSwap, ArcSwapOption};
use openidconnect::{
    AdditionalProviderMetadata, IssuerUrl, JsonWebKey, JsonWebKeyId, JsonWebKeySet, ProviderMetadata,
    core::{
        CoreAuthDisplay, CoreClaimName, CoreClaimType, CoreClientAuthMethod, CoreGrantType, CoreJsonWebKey,
        CoreJsonWebKeySet, CoreJweContentEncryptionAlgorithm, CoreJweKeyManagementAlgorithm,
        CoreResponseMode, CoreResponseType, CoreSubjectIdentifierType,
    },
};
use serde::{Deserialize, Serialize};
use tokio::sync::Mutex;

use super::http_client::Calls;
use crate::{
    calls::{HttpClient, chain},
    model::clock::{Clock, Moment},
};

/// Waiting times between tries at discovery.
const FIRST_RETRY: Duration = Duration::from_millis(250);
const LAST_RETRY: Duration = Duration::from_secs(10);
/// Keys and metadata are read again this often.
const REFRESH: Duration = Duration::from_secs(3600);
/// An unknown key id leads to at most one fetch in this time, whoever asks.
const UNKNOWN_KEY_PAUSE: Duration = Duration::from_secs(30);
/// A provider publishes a handful of keys.
const MAX_KEYS: usize = 100;

/// Metadata beyond the core set.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct Extra {
    /// RP-initiated logout 1.0.
    #[serde(default)]
    pub end_session_endpoint: Option<String>,
    /// RFC 9207: the callback carries `iss`.
    #[serde(default)]
    pub authorization_response_iss_parameter_supported: bool,
}

impl AdditionalProviderMetadata for Extra {}

/// The provider's own description.
pub type Metadata = ProviderMetadata<
    Extra,
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

/// What is known of the provider.
#[derive(Debug)]
pub struct Provider {
    issuer: IssuerUrl,
    /// The client that all calls go through.
    pub http: Arc<HttpClient>,
    metadata: ArcSwapOption<Metadata>,
    keys: ArcSwap<CoreJsonWebKeySet>,
    last_fetch: Mutex<Option<Moment>>,
    clock: Clock,
}

impl Provider {
    /// Nothing is known yet.
    pub fn new(issuer: IssuerUrl, http: Arc<HttpClient>, clock: Clock) -> Provider {
        Provider {
            issuer,
            http,
            metadata: ArcSwapOption::empty(),
            keys: ArcSwap::from_pointee(JsonWebKeySet::new(Vec::new())),
            last_fetch: Mutex::new(None),
            clock,
        }
    }

    /// The metadata, once discovered.
    pub fn current(&self) -> Option<Arc<Metadata>> {
        self.metadata.load_full()
    }

    /// The keys in force.
    pub fn keys(&self) -> Arc<CoreJsonWebKeySet> {
        self.keys.load_full()
    }

    /// Discovers, with growing pauses, and reads everything again every hour. The last good state stays.
    pub async fn keep_informed(&self) {
        let mut pause = FIRST_RETRY;
        loop {
            match self.discover().await {
                Ok(()) => {
                    pause = FIRST_RETRY;
                    tokio::time::sleep(REFRESH).await;
                }
                Err(error) => {
                    tracing::warn!(issuer = %self.issuer.as_str(), %error, "the provider cannot be discovered");
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(LAST_RETRY);
                }
            }
        }
    }

    async fn discover(&self) -> Result<(), String> {
        let http = Calls::new(&self.http, "discovery");
        let found = Metadata::discover_async(self.issuer.clone(), &http).await;
        let found = found.map_err(|error| chain(&error))?;
        let keys = found.jwks().clone();
        if self.metadata.load().is_none() {
            tracing::info!(issuer = %self.issuer.as_str(), keys = keys.keys().len(), "the provider is known");
        }
        self.metadata.store(Some(Arc::new(found)));
        self.take_keys(keys);
        Ok(())
    }

    /// Makes sure that the key of a token is looked for at the provider, at most once in 30 s for everybody
    /// together. `None` stands for a token that names no key.
    pub async fn look_for_key(&self, id: Option<&JsonWebKeyId>) {
        if self.knows(id) {
            return;
        }
        let Some(metadata) = self.current() else { return };
        // Single flight: whoever waits here finds the fresh keys, or that somebody just looked.
        let mut last = self.last_fetch.lock().await;
        let now = self.clock.now();
        if self.knows(id) || last.is_some_and(|last| now < last.after(UNKNOWN_KEY_PAUSE)) {
            return;
        }
        *last = Some(now);
        let http = Calls::new(&self.http, "keys");
        match CoreJsonWebKeySet::fetch_async(metadata.jwks_uri(), &http).await {
            Ok(keys) => self.take_keys(keys),
            Err(error) => tracing::warn!(error = chain(&error), "the provider's keys cannot be read"),
        }
    }

    /// Whether a key is at hand; `None`: any key.
    pub fn knows(&self, id: Option<&JsonWebKeyId>) -> bool {
        let keys = self.keys.load();
        match id {
            Some(id) => keys.keys().iter().any(|key| key.key_id() == Some(id)),
            None => !keys.keys().is_empty(),
        }
    }

    fn take_keys(&self, keys: CoreJsonWebKeySet) {
        // An empty or absurd set is a provider in trouble: what worked goes on working.
        if (1..=MAX_KEYS).contains(&keys.keys().len()) {
            self.keys.store(Arc::new(keys));
        }
    }
}
