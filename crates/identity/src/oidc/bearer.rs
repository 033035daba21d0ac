//! `Authorization: Bearer` (docs/behaviour.md#credentials): a JWT of a known issuer is verified as
//! a credential, and refused if it is invalid. Any other value belongs to the app and is forwarded
//! unchanged.
//!
//! Each issuer has a verifier of its own, with its own keys: a key of one issuer verifies no token
//! of another.

use std::{str::FromStr, sync::Arc, time::Duration};

use aws_lc_rs::digest;
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use http::HeaderValue;
use moka::{policy::EvictionPolicy, sync::Cache};
use openidconnect::{JsonWebKeyId, JsonWebTokenType, Nonce, core::CoreJsonWebKeySet};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{
    claims::{SKEW, Token, TokenError, TokenKind, person},
    context::ProviderContext,
    settings::ForeignAccounts,
};
use crate::model::{
    clock::Moment,
    header_values::bearer_token,
    principal::{PersonClaims, Principal},
};

/// Longest token that is parsed, in bytes.
const MAX_TOKEN: usize = 32 * 1024;
/// How long a verification is cached.
const REMEMBERED: Duration = Duration::from_secs(30);
/// Accepted values of `typ` in the payload of a bearer token. No standard requires this claim.
const BEARER_TYPES: [&str; 2] = ["Bearer", "at+jwt"];
/// Claims of other kinds of tokens, which are refused. A token with `cnf` (RFC 7800) is bound to a
/// key or a certificate and valid only with a proof of possession. Such proofs are not verified
/// here, and accepting the token without one would undo the binding.
const OTHER_KINDS: [(&str, &str); 4] = [
    ("nonce", "an ID token"),
    ("at_hash", "an ID token"),
    ("events", "a security event token"),
    ("cnf", "bound to a key"),
];
/// Tokens in the cache.
const MAX_REMEMBERED: u64 = 10_000;

/// A JWT whose `iss` is the issuer of a verifier. Nothing about it is verified yet.
#[derive(Clone, Copy)]
pub struct IssuerToken<'h>(&'h str);

/// A token that was verified.
#[derive(Clone, Debug)]
pub struct VerifiedToken {
    /// The owner of the token.
    pub principal: Arc<Principal>,
    /// When the token expires, in seconds since 1970. An open stream does not outlive it.
    pub expires: i64,
}

/// The part of the JWT header that selects the signing key.
#[derive(Deserialize)]
struct Header {
    #[serde(default)]
    kid: Option<String>,
}

/// A cache of verified tokens. A program sends the same token with every request, and verifying a
/// signature costs more than the rest of a request.
#[derive(Debug)]
pub struct VerifiedTokenCache(Cache<[u8; 32], Arc<CachedVerification>>);

#[derive(Debug)]
struct CachedVerification {
    verified: VerifiedToken,
    /// The key set that was used. After a change of the keys the token is verified again.
    keys: Arc<CoreJsonWebKeySet>,
    until: Moment,
}

impl Default for VerifiedTokenCache {
    fn default() -> Self {
        let cache = Cache::builder()
            .max_capacity(MAX_REMEMBERED)
            .eviction_policy(EvictionPolicy::lru());
        VerifiedTokenCache(cache.build())
    }
}

/// Verifies bearer tokens of one issuer.
#[derive(Debug)]
pub struct BearerVerifier {
    context: Arc<ProviderContext>,
    /// The accounts of a trusted issuer; `None`: the people of the configured one.
    accounts: Option<ForeignAccounts>,
    cache: VerifiedTokenCache,
}

impl BearerVerifier {
    pub(super) fn new(
        context: Arc<ProviderContext>,
        accounts: Option<ForeignAccounts>,
    ) -> BearerVerifier {
        BearerVerifier {
            context,
            accounts,
            cache: VerifiedTokenCache::default(),
        }
    }

    /// Discovers the issuer, and keeps its keys fresh. Never returns.
    pub(super) async fn keep_informed(&self) {
        self.context.provider.keep_informed().await;
    }

    /// Whether the issuer is discovered. Until then its tokens cannot be verified.
    pub fn is_ready(&self) -> bool {
        self.context.provider.is_discovered()
    }

    /// The token of an Authorization header, if its verification is cached and still valid.
    pub fn cached(&self, authorization: &HeaderValue) -> Option<VerifiedToken> {
        let token = bearer_token(authorization).filter(|token| token.len() <= MAX_TOKEN)?;
        self.cached_by_key(&key_of(token))
    }

    fn cached_by_key(&self, key: &[u8; 32]) -> Option<VerifiedToken> {
        let found = self.cache.0.get(key)?;
        let holds = self.context.clock.now() < found.until
            && self.context.clock.wall_seconds() < found.verified.expires.saturating_add(SKEW)
            && Arc::ptr_eq(&found.keys, &self.context.provider.keys());
        holds.then(|| found.verified.clone())
    }

    /// The token of an Authorization header, if its `iss` is this issuer.
    pub fn parse_header<'h>(&self, authorization: &'h HeaderValue) -> Option<IssuerToken<'h>> {
        self.parse(bearer_token(authorization)?)
    }

    /// The token in a cookie, if its `iss` is this issuer.
    pub fn parse_cookie<'h>(&self, value: &'h [u8]) -> Option<IssuerToken<'h>> {
        self.parse(std::str::from_utf8(value).ok()?)
    }

    fn parse<'h>(&self, token: &'h str) -> Option<IssuerToken<'h>> {
        if token.len() > MAX_TOKEN {
            return None;
        }
        let payload: Map<String, Value> = decode(token.split('.').nth(1)?)?;
        let issuer = payload.get("iss")?.as_str()?;
        (issuer == self.context.settings.issuer.as_str()).then_some(IssuerToken(token))
    }

    /// The id of the token's key, if the keys must be fetched from the issuer first. The inner
    /// `None` stands for a token that names no key.
    pub fn missing_key(&self, token: IssuerToken<'_>) -> Option<Option<JsonWebKeyId>> {
        let kid = token
            .0
            .split('.')
            .next()
            .and_then(decode::<Header>)
            .and_then(|header| header.kid);
        let kid = kid.map(JsonWebKeyId::new);
        (!self.context.provider.knows(kid.as_ref())).then_some(kid)
    }

    /// Fetches the issuer's keys if this one is unknown, at most once in 30 s for all clients
    /// together. Runs on the control runtime.
    pub async fn look_for_key(&self, key: Option<JsonWebKeyId>) {
        self.context.provider.look_for_key(key.as_ref()).await;
    }

    /// Verifies the token with the current keys.
    ///
    /// # Errors
    /// See [`TokenError`].
    pub fn verify(&self, token: IssuerToken<'_>) -> Result<VerifiedToken, TokenError> {
        let key = key_of(token.0);
        if let Some(verified) = self.cached_by_key(&key) {
            return Ok(verified);
        }
        // Loaded before the verification: if the keys change meanwhile, the cached entry holds the
        // older set, and the token is verified again.
        let keys = self.context.provider.keys();
        let (claims, expires) = self.verify_claims(token.0)?;
        let principal = Arc::new(Principal::new(claims, &self.context.settings.admin_groups));
        let verified = VerifiedToken { principal, expires };
        let until = self.context.clock.now().after(REMEMBERED);
        self.cache.0.insert(
            key,
            Arc::new(CachedVerification {
                verified: verified.clone(),
                keys,
                until,
            }),
        );
        Ok(verified)
    }

    fn verify_claims(&self, token: &str) -> Result<(PersonClaims, i64), TokenError> {
        let refused = |error: &dyn std::fmt::Display| TokenError::Refused(error.to_string());
        // The kind of the token is checked first. Keycloak states it in the payload: ID, Refresh,
        // Offline and DPoP tokens are not bearer tokens.
        let payload: Map<String, Value> = token
            .split('.')
            .nth(1)
            .and_then(decode)
            .ok_or(TokenError::Kind("not a JWT"))?;
        let is_bearer = |typ: &Value| {
            typ.as_str().is_some_and(|typ| {
                BEARER_TYPES
                    .iter()
                    .any(|known| typ.eq_ignore_ascii_case(known))
            })
        };
        if payload.get("typ").is_some_and(|typ| !is_bearer(typ)) {
            return Err(TokenError::Kind("typ"));
        }
        for (claim, kind) in OTHER_KINDS {
            if payload.contains_key(claim) {
                return Err(TokenError::Kind(kind));
            }
        }
        if !payload
            .get("exp")
            .is_some_and(|exp| exp.is_i64() || exp.is_u64())
        {
            return Err(TokenError::Time("exp"));
        }
        let parsed = Token::from_str(token).map_err(|error| refused(&error))?;
        let token_verifier = self.context.token_verifier();
        let types = ["jwt", "at+jwt"]
            .into_iter()
            .filter_map(|typ| JsonWebTokenType::new(typ.to_owned()).normalize().ok());
        let verifier = token_verifier
            .verifier()
            .set_allowed_jose_types(types)
            // Any of the configured audiences is accepted, which is checked below.
            .require_audience_match(false);
        let no_nonce = |nonce: Option<&Nonce>| match nonce {
            None => Ok(()),
            Some(_) => Err("an ID token".to_owned()),
        };
        let claims = parsed
            .claims(&verifier, no_nonce)
            .map_err(|error| refused(&error))?;
        let ours = |name: &str| {
            self.context
                .settings
                .audiences
                .iter()
                .any(|audience| audience == name)
        };
        if !claims
            .audiences()
            .iter()
            .any(|audience| ours(audience.as_str()))
        {
            return Err(TokenError::Audience);
        }
        // A workload's token is for us by its audience; `azp` names the workload, not a client.
        let is_foreign = self.accounts.is_some();
        token_verifier.verify_common(claims, |party| {
            is_foreign || party == self.context.settings.client_id || ours(party)
        })?;
        let person = person(claims, &self.context.settings, TokenKind::Access);
        let person = match &self.accounts {
            Some(accounts) => accounts.account(claims, person)?,
            None => person,
        };
        // A trusted issuer may have groups of the default provider.
        let person = self.context.settings.accounts.account(person)?;
        Ok((person, claims.expiration().timestamp()))
    }
}

fn key_of(token: &str) -> [u8; 32] {
    let mut key = [0; 32];
    key.copy_from_slice(digest::digest(&digest::SHA256, token.as_bytes()).as_ref());
    key
}

fn decode<T: serde::de::DeserializeOwned>(part: &str) -> Option<T> {
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).ok()?).ok()
}
