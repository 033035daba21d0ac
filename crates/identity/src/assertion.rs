//! The identity of a person as a JWT (RFC 7519) that an app can verify: signed with ES256 (RFC 7518
//! section 3.4), for this app alone, valid for five minutes.
//!
//! A signature takes some 30 µs, so a token is sent until half of its lifetime has passed.
//!
//! Invariant: signed tokens are looked up by what they say, so none is sent for another person or
//! to another app.

mod claims;
mod key;
mod keys;
mod published;

use std::{fmt, ops::Range, sync::Arc, time::Duration};

use aws_lc_rs::rand;
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use http::HeaderValue;
use moka::{policy::EvictionPolicy, sync::Cache};
use serde_json::Value;

use crate::model::{clock::Clock, site::WebOrigin};
pub use claims::AssertedIdentity;
use claims::{Assertion, IdentityClaims, LIFETIME};
pub use keys::{AssertionKeyError, AssertionKeys};

/// A token is sent for this time after its issue, so that the app has as long to use it.
const SENT: Duration = Duration::from_secs(150);
/// Signed tokens that are kept, in bytes of their text.
const MAX_BYTES: u64 = 8 * 1024 * 1024;

/// Signs identities for apps. Shared by all data threads; nothing in it is locked across an await.
pub struct AssertionSigner {
    keys: Arc<AssertionKeys>,
    /// The `iss` claim: the origin of the site.
    issuer: Box<str>,
    clock: Clock,
    /// By the hash of the claims that name issuer, app and person.
    signed: Cache<[u8; 32], SignedAssertion>,
}

/// A signed token, for one person and one app.
#[derive(Clone, Debug)]
pub struct SignedAssertion {
    value: HeaderValue,
    sent: Range<i64>,
}

impl fmt::Debug for AssertionSigner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AssertionSigner({:?})", self.keys)
    }
}

impl SignedAssertion {
    /// The value of the header.
    pub fn value(&self) -> &HeaderValue {
        &self.value
    }

    /// When it may be sent, in seconds since 1970. It is valid for longer.
    pub fn sent(&self) -> Range<i64> {
        self.sent.clone()
    }
}

impl AssertionSigner {
    /// Signs for apps of this site.
    pub fn new(keys: Arc<AssertionKeys>, site: &WebOrigin, clock: Clock) -> AssertionSigner {
        let bytes = |_: &[u8; 32], signed: &SignedAssertion| {
            u32::try_from(signed.value.len()).unwrap_or(u32::MAX)
        };
        // The default policy may reject a new entry when the cache is full.
        let signed = Cache::builder()
            .max_capacity(MAX_BYTES)
            .weigher(bytes)
            .eviction_policy(EvictionPolicy::lru())
            .build();
        AssertionSigner {
            keys,
            issuer: site.text.clone(),
            clock,
            signed,
        }
    }

    /// The token that says this, signed now or lately. `None`, with a line in the log: it cannot be
    /// signed.
    pub fn assertion(&self, identity: &AssertedIdentity<'_>) -> Option<SignedAssertion> {
        let claims = IdentityClaims::new(&self.issuer, identity);
        let now = self.now();
        let fingerprint = claims.fingerprint()?;
        let known = self.signed.get(&fingerprint);
        if let Some(known) = known.filter(|known| known.sent.contains(&now)) {
            return Some(known);
        }
        let signed = self.sign(&claims, now);
        if signed.is_none() {
            tracing::error!("cannot sign an identity for an app");
        }
        let signed = signed?;
        self.signed.insert(fingerprint, signed.clone());
        Some(signed)
    }

    fn sign(&self, identity: &IdentityClaims<'_>, now: i64) -> Option<SignedAssertion> {
        let mut id = [0; 16];
        rand::fill(&mut id).ok()?;
        let claims = Assertion {
            identity,
            iat: now,
            exp: now.saturating_add(seconds(LIFETIME)),
            jti: URL_SAFE_NO_PAD.encode(id),
        };
        let payload = serde_json::to_vec(&claims).ok()?;
        let token = self.keys.sign(&payload, self.clock.now())?;
        let mut value = HeaderValue::try_from(token).ok()?;
        value.set_sensitive(true);
        let sent = now..now.saturating_add(seconds(SENT));
        Some(SignedAssertion { value, sent })
    }

    /// The wall clock, in seconds since 1970.
    pub fn now(&self) -> i64 {
        self.clock.wall_seconds()
    }

    /// The public keys that apps verify tokens with, as a JWK set (RFC 7517 section 5).
    pub fn key_set(&self) -> Value {
        self.keys.key_set()
    }
}

fn seconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_secs()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
