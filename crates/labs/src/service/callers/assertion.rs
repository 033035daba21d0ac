//! Identities that the gateway signs: a JWT of a few minutes for this service alone.

use std::{str::FromStr, sync::Arc, time::Duration};

use arc_swap::ArcSwap;
use chrono::{DateTime, TimeDelta, Utc};
use ludgate_identity::oidc::{
    claims::{SKEW, Token},
    http_client::ProviderCalls,
};
use ludgate_model::{
    clock::{Clock, Moment},
    error_cause::chain_text,
};
use ludgate_ops::http_client::HttpClient;
use openidconnect::{
    ClientId, IssuerUrl, JsonWebKey, JsonWebKeyId, JsonWebKeySet, JsonWebKeySetUrl, Nonce,
    core::{CoreIdTokenVerifier, CoreJsonWebKeySet, CoreJwsSigningAlgorithm},
};
use serde_json::{Map, Value};
use tokio::sync::Mutex;

use super::claims::{header, payload};
use crate::error::LabError;

/// Unknown keys lead to at most one call in this time, for all requests together.
const UNKNOWN_KEY_PAUSE: Duration = Duration::from_secs(30);
/// Keys are fetched again after this time, so that a withdrawn one is no longer accepted.
const REFRESH: Duration = Duration::from_secs(3600);
/// A call that failed is made again after this time.
const FAILURE_PAUSE: Duration = Duration::from_secs(5);
/// Longest assertion, in bytes.
const MAX_ASSERTION: usize = 32 * 1024;
/// Longest time from the issue of an assertion to its expiry, in seconds.
const MAX_LIFETIME: i64 = 300;

/// Which assertions are accepted.
#[derive(Clone, Debug)]
pub struct AssertionSettings {
    /// Where the gateway publishes its keys.
    pub jwks: JsonWebKeySetUrl,
    /// The `iss` claim.
    pub issuer: IssuerUrl,
    /// The `aud` claim: the id of this service as an app of the gateway.
    pub audience: String,
}

/// The gateway's keys, and when they are fetched again.
struct GatewayKeys {
    set: CoreJsonWebKeySet,
    refresh_at: Moment,
    /// When they are fetched again for an assertion whose key is not in the set.
    retry_at: Moment,
}

impl GatewayKeys {
    fn is_due(&self, key: Option<&JsonWebKeyId>, now: Moment) -> bool {
        self.refresh_at <= now || (!self.has(key) && self.retry_at <= now)
    }

    fn has(&self, id: Option<&JsonWebKeyId>) -> bool {
        match id {
            Some(id) => self.set.keys().iter().any(|key| key.key_id() == Some(id)),
            None => !self.set.keys().is_empty(),
        }
    }
}

/// Verifies assertions with the gateway's keys.
pub(super) struct AssertionVerifier {
    settings: AssertionSettings,
    http: Arc<HttpClient>,
    keys: ArcSwap<GatewayKeys>,
    /// Held during a call.
    fetching: Mutex<()>,
    clock: Clock,
}

impl AssertionVerifier {
    /// A verifier without keys. They are fetched for the first assertion.
    pub(super) fn new(
        settings: AssertionSettings,
        http: Arc<HttpClient>,
        clock: Clock,
    ) -> AssertionVerifier {
        let now = clock.now();
        AssertionVerifier {
            settings,
            http,
            keys: ArcSwap::from_pointee(GatewayKeys {
                set: JsonWebKeySet::new(Vec::new()),
                refresh_at: now,
                retry_at: now,
            }),
            fetching: Mutex::new(()),
            clock,
        }
    }

    /// The claims of a valid assertion.
    ///
    /// # Errors
    /// [`LabError::InvalidToken`], or [`LabError::Unavailable`] while the keys are not known.
    pub(super) async fn verify(&self, text: &str) -> Result<Map<String, Value>, LabError> {
        if text.len() > MAX_ASSERTION {
            return Err(LabError::InvalidToken);
        }
        let token = Token::from_str(text).map_err(|error| refused(&error))?;
        let key = key_id(text);
        let keys = self.current_keys(key.as_ref()).await?;
        let now = self.clock.wall_seconds();
        let claims = token
            .claims(&self.verifier(&keys, now), |_: Option<&Nonce>| Ok(()))
            .map_err(|error| refused(&error))?;
        let lifetime = claims.expiration() - claims.issue_time();
        if lifetime > TimeDelta::seconds(MAX_LIFETIME + SKEW) {
            return Err(refused(&"it is valid for longer than five minutes"));
        }
        payload(text).ok_or(LabError::InvalidToken)
    }

    fn verifier(&self, keys: &GatewayKeys, now: i64) -> CoreIdTokenVerifier<'static> {
        let audience = ClientId::new(self.settings.audience.clone());
        let issuer = self.settings.issuer.clone();
        CoreIdTokenVerifier::new_public_client(audience, issuer, keys.set.clone())
            .set_allowed_algs([
                CoreJwsSigningAlgorithm::EcdsaP256Sha256,
                CoreJwsSigningAlgorithm::EcdsaP384Sha384,
                CoreJwsSigningAlgorithm::EdDsa,
            ])
            .set_time_fn(move || at(now.saturating_sub(SKEW)))
            .set_issue_time_verifier_fn(move |issued| match issued > at(now.saturating_add(SKEW)) {
                true => Err("it is issued in the future".to_owned()),
                false => Ok(()),
            })
    }

    /// The keys, fetched again if they are old, or if this one is unknown.
    async fn current_keys(&self, key: Option<&JsonWebKeyId>) -> Result<Arc<GatewayKeys>, LabError> {
        let known = self.keys.load_full();
        if known.is_due(key, self.clock.now()) {
            // One call at a time. Others wait for it only if their key is unknown.
            let turn = match known.has(key) {
                true => self.fetching.try_lock().ok(),
                false => Some(self.fetching.lock().await),
            };
            if turn.is_some() {
                self.fetch(key).await;
            }
        }
        let keys = self.keys.load_full();
        match keys.set.keys().is_empty() {
            true => Err(LabError::Unavailable(
                "the gateway's keys are not available".to_owned(),
            )),
            false => Ok(keys),
        }
    }

    /// Fetches the keys, unless another request has done so in the meantime. If that fails, the
    /// known ones stay in use. The caller holds `fetching`.
    async fn fetch(&self, key: Option<&JsonWebKeyId>) {
        let known = self.keys.load_full();
        if !known.is_due(key, self.clock.now()) {
            return;
        }
        let http = ProviderCalls::new(&self.http, "gateway_keys");
        let fetched = CoreJsonWebKeySet::fetch_async(&self.settings.jwks, &http).await;
        // After the call: if a client leaves during it, the next request may call again.
        let now = self.clock.now();
        let keys = match fetched {
            Ok(set) => GatewayKeys {
                set,
                refresh_at: now.after(REFRESH),
                retry_at: now.after(UNKNOWN_KEY_PAUSE),
            },
            Err(error) => {
                tracing::warn!(error = chain_text(&error), "cannot read the gateway's keys");
                let retry_at = now.after(FAILURE_PAUSE);
                GatewayKeys {
                    set: known.set.clone(),
                    refresh_at: known.refresh_at.max(retry_at),
                    retry_at,
                }
            }
        };
        self.keys.store(Arc::new(keys));
    }
}

fn refused(error: &dyn std::fmt::Display) -> LabError {
    tracing::debug!(%error, "an assertion was refused");
    LabError::InvalidToken
}

fn key_id(token: &str) -> Option<JsonWebKeyId> {
    let header = header(token)?;
    let id = header.get("kid")?.as_str()?;
    Some(JsonWebKeyId::new(id.to_owned()))
}

fn at(seconds: i64) -> DateTime<Utc> {
    DateTime::UNIX_EPOCH + TimeDelta::try_seconds(seconds).unwrap_or_default()
}
