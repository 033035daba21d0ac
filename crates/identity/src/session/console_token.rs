//! The console's token behind a sign-in. Only a fingerprint and the expiry are kept, which cannot
//! be used in place of the token.

use std::{
    hash::{DefaultHasher, Hasher},
    sync::atomic::{AtomicI64, AtomicU64, Ordering},
};

/// The console's token that last confirmed a sign-in.
#[derive(Debug)]
pub struct ConsoleToken {
    fingerprint: AtomicU64,
    expires: AtomicI64,
}

/// A fingerprint of a token. Not a secure hash: it only saves a second verification of the same
/// token. With a colliding token an attacker would only delay the verification of that token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenFingerprint(u64);

impl TokenFingerprint {
    /// The fingerprint of the bytes of a token.
    pub fn from_token(token: &[u8]) -> TokenFingerprint {
        let mut hasher = DefaultHasher::new();
        hasher.write(token);
        TokenFingerprint(hasher.finish())
    }
}

impl ConsoleToken {
    /// A token that is valid until `expires`, in seconds since 1970.
    pub fn new(token: TokenFingerprint, expires: i64) -> ConsoleToken {
        ConsoleToken {
            fingerprint: AtomicU64::new(token.0),
            expires: AtomicI64::new(expires),
        }
    }

    /// Whether this is the token.
    pub fn matches(&self, token: TokenFingerprint) -> bool {
        self.fingerprint.load(Ordering::Relaxed) == token.0
    }

    /// When the token expires, in seconds since 1970.
    pub fn expires(&self) -> i64 {
        self.expires.load(Ordering::Relaxed)
    }

    /// Replaces the token by another one of the same person.
    pub(super) fn replace(&self, token: TokenFingerprint, expires: i64) {
        self.fingerprint.store(token.0, Ordering::Relaxed);
        self.expires.store(expires, Ordering::Relaxed);
    }
}
