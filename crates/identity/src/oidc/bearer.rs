//! `Authorization: Bearer` (docs/behaviour.md#credentials): a JWT of our issuer is a credential, or
//! it is refused; anything else belongs to the app and passes untouched.

use std::{str::FromStr, sync::Arc, time::Duration};

use aws_lc_rs::digest;
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use http::HeaderValue;
use moka::{policy::EvictionPolicy, sync::Cache};
use openidconnect::{JsonWebKeyId, JsonWebTokenType, Nonce, core::CoreJsonWebKeySet};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{
    claims::{SKEW, Token, TokenError, person},
    context::ProviderContext,
};
use crate::model::{
    clock::Moment,
    principal::{PersonClaims, Principal},
};

/// Longest token that is looked at, in bytes.
const MAX_TOKEN: usize = 32 * 1024;
/// A verification is good for this long; then the token is verified again.
const REMEMBERED: Duration = Duration::from_secs(30);
/// What a bearer token may say of its kind in its payload, where no standard asks for it.
const BEARER_TYPES: [&str; 2] = ["Bearer", "at+jwt"];
/// Claims that make it another kind of token. One with `cnf` (RFC 7800) is good only with a proof
/// of the key or the certificate that it names, which is not asked for here: to take it without
/// would undo what it was bound for.
const OTHER_KINDS: [(&str, &str); 4] = [
    ("nonce", "an ID token"),
    ("at_hash", "an ID token"),
    ("events", "a security event token"),
    ("cnf", "bound to a key"),
];
/// Most tokens that are remembered.
const MAX_REMEMBERED: u64 = 10_000;

/// A JWT that says it comes from our issuer; nothing else about it is known yet.
#[derive(Clone, Copy)]
pub struct IssuerToken<'h>(&'h str);

/// A token that holds.
#[derive(Clone, Debug)]
pub struct VerifiedToken {
    /// Whose it is.
    pub principal: Arc<Principal>,
    /// Until when, in seconds since 1970; a stream does not outlast it.
    pub expires: i64,
}

/// The parts of a header that decide which key is looked for.
#[derive(Deserialize)]
struct Header {
    #[serde(default)]
    kid: Option<String>,
}

/// Tokens that were verified a moment ago: a program sends the same one with every request, and a
/// signature costs more than all the rest of a request.
#[derive(Debug)]
pub struct VerifiedTokenCache(Cache<[u8; 32], Arc<CachedVerification>>);

#[derive(Debug)]
struct CachedVerification {
    verified: VerifiedToken,
    /// By which keys. Others have come since: it is verified again.
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

/// Verifies bearer tokens.
#[derive(Debug)]
pub struct BearerVerifier {
    context: Arc<ProviderContext>,
    cache: VerifiedTokenCache,
}

impl BearerVerifier {
    pub(super) fn new(context: Arc<ProviderContext>) -> BearerVerifier {
        BearerVerifier {
            context,
            cache: VerifiedTokenCache::default(),
        }
    }

    /// The token of an Authorization header, when it was verified a moment ago and still holds.
    pub fn cached(&self, authorization: &HeaderValue) -> Option<VerifiedToken> {
        let (scheme, token) = authorization.to_str().ok()?.split_once(' ')?;
        let is_bearer = scheme.eq_ignore_ascii_case("bearer") && token.len() <= MAX_TOKEN;
        if is_bearer {
            self.cached_by_key(&key_of(token.trim_matches(' ')))
        } else {
            None
        }
    }

    fn cached_by_key(&self, key: &[u8; 32]) -> Option<VerifiedToken> {
        let found = self.cache.0.get(key)?;
        let holds = self.context.clock.now() < found.until
            && self.context.clock.wall_seconds() < found.verified.expires.saturating_add(SKEW)
            && Arc::ptr_eq(&found.keys, &self.context.provider.keys());
        holds.then(|| found.verified.clone())
    }

    /// The token of an Authorization header, when it claims to be of our issuer.
    pub fn parse_header<'h>(&self, authorization: &'h HeaderValue) -> Option<IssuerToken<'h>> {
        let text = authorization.to_str().ok()?;
        let (scheme, token) = text.split_once(' ')?;
        let token = token.trim_matches(' ');
        if scheme.eq_ignore_ascii_case("bearer") {
            self.parse(token)
        } else {
            None
        }
    }

    /// The token in a cookie, when it claims to be of our issuer.
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

    /// The key the token names, when it must be looked for at the provider first.
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

    /// Looks for a key at the provider, at most once in 30 s for everybody; runs on the control
    /// runtime.
    pub async fn look_for_key(&self, key: Option<JsonWebKeyId>) {
        self.context.provider.look_for_key(key.as_ref()).await;
    }

    /// Judges the token with the keys at hand.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn verify(&self, token: IssuerToken<'_>) -> Result<VerifiedToken, TokenError> {
        let key = key_of(token.0);
        if let Some(verified) = self.cached_by_key(&key) {
            return Ok(verified);
        }
        // Taken before: by these it is verified, or by newer ones that it need not be asked of
        // again.
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
        // What kind of token it is comes first, before anything is made of it. Keycloak says the
        // kind in the payload: ID, Refresh, Offline and DPoP tokens are no bearer tokens.
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
            // Any of the configured audiences will do; that is checked below.
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
        token_verifier.verify_common(claims, |party| {
            party == self.context.settings.client_id || ours(party)
        })?;
        Ok((
            person(claims, &self.context.settings.groups_claim),
            claims.expiration().timestamp(),
        ))
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
