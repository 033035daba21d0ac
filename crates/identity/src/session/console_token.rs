//! What a sign-in remembers of the console's token that it stands on: enough to know it again, and
//! nothing that could be used in its place.

use std::{
    hash::{DefaultHasher, Hasher},
    sync::atomic::{AtomicI64, AtomicU64, Ordering},
};

/// The token that last proved a sign-in.
#[derive(Debug)]
pub struct ConsoleToken {
    seen: AtomicU64,
    expires: AtomicI64,
}

/// A token in short. Not a secure hash: it saves the second look at a token that was seen a moment
/// ago, and whoever found another of the same would gain no more than that their own is looked at
/// later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenFingerprint(u64);

impl TokenFingerprint {
    /// Of the bytes of a token.
    pub fn from_token(token: &[u8]) -> TokenFingerprint {
        let mut hasher = DefaultHasher::new();
        hasher.write(token);
        TokenFingerprint(hasher.finish())
    }
}

impl ConsoleToken {
    /// A token that holds until `expires`, in seconds since 1970.
    pub fn new(token: TokenFingerprint, expires: i64) -> ConsoleToken {
        ConsoleToken {
            seen: AtomicU64::new(token.0),
            expires: AtomicI64::new(expires),
        }
    }

    /// Whether it is this one.
    pub fn is(&self, token: TokenFingerprint) -> bool {
        self.seen.load(Ordering::Relaxed) == token.0
    }

    /// Until when it holds, in seconds since 1970.
    pub fn expires(&self) -> i64 {
        self.expires.load(Ordering::Relaxed)
    }

    /// Another one has proved the same person.
    pub fn replace(&self, token: TokenFingerprint, expires: i64) {
        self.seen.store(token.0, Ordering::Relaxed);
        self.expires.store(expires, Ordering::Relaxed);
    }
}
