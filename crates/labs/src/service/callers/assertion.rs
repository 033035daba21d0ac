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

/// Verifies assertions with the gateway's keys.
pub(super) struct AssertionVerifier {
    settings: AssertionSettings,
    http: Arc<HttpClient>,
    keys: ArcSwap<CoreJsonWebKeySet>,
    last_fetch: Mutex<Option<Moment>>,
    clock: Clock,
}

impl AssertionVerifier {
    /// A verifier without keys. They are fetched for the first assertion.
    pub(super) fn new(
        settings: AssertionSettings,
        http: Arc<HttpClient>,
        clock: Clock,
    ) -> AssertionVerifier {
        AssertionVerifier {
            settings,
            http,
            keys: ArcSwap::from_pointee(JsonWebKeySet::new(Vec::new())),
            last_fetch: Mutex::new(None),
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
        self.refresh(key.as_ref()).await?;
        let now = self.clock.wall_seconds();
        let claims = token
            .claims(&self.verifier(now), |_: Option<&Nonce>| Ok(()))
            .map_err(|error| refused(&error))?;
        let lifetime = claims.expiration() - claims.issue_time();
        if lifetime > TimeDelta::seconds(MAX_LIFETIME + SKEW) {
            return Err(refused(&"it is valid for longer than five minutes"));
        }
        payload(text).ok_or(LabError::InvalidToken)
    }

    fn verifier(&self, now: i64) -> CoreIdTokenVerifier<'static> {
        let audience = ClientId::new(self.settings.audience.clone());
        let issuer = self.settings.issuer.clone();
        let keys = (**self.keys.load()).clone();
        CoreIdTokenVerifier::new_public_client(audience, issuer, keys)
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

    /// Fetches the keys if this one is unknown, or if they are old. Keys that cannot be fetched
    /// again stay in use.
    async fn refresh(&self, key: Option<&JsonWebKeyId>) -> Result<(), LabError> {
        // Single flight: a request that waited here finds the new keys.
        let mut last = self.last_fetch.lock().await;
        let now = self.clock.now();
        let is_older = |age| last.is_none_or(|last: Moment| last.after(age) <= now);
        if is_older(REFRESH) || (!self.knows(key) && is_older(UNKNOWN_KEY_PAUSE)) {
            let http = ProviderCalls::new(&self.http, "gateway_keys");
            match CoreJsonWebKeySet::fetch_async(&self.settings.jwks, &http).await {
                Ok(keys) => self.keys.store(Arc::new(keys)),
                Err(error) => {
                    tracing::warn!(error = chain_text(&error), "cannot read the gateway's keys");
                }
            }
            // After the fetch: if a client leaves during it, the next one may fetch again.
            *last = Some(now);
        }
        match self.keys.load().keys().is_empty() {
            true => Err(LabError::Unavailable(
                "the gateway's keys are not available".to_owned(),
            )),
            false => Ok(()),
        }
    }

    fn knows(&self, id: Option<&JsonWebKeyId>) -> bool {
        let keys = self.keys.load();
        match id {
            Some(id) => keys.keys().iter().any(|key| key.key_id() == Some(id)),
            None => !keys.keys().is_empty(),
        }
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
