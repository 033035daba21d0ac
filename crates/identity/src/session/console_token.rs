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
pub struct Short(u64);

impl Short {
    /// Of the bytes of a token.
    pub fn of(token: &[u8]) -> Short {
        let mut hasher = DefaultHasher::new();
        hasher.write(token);
        Short(hasher.finish())
    }
}

impl ConsoleToken {
    /// A token that holds until `expires`, in seconds since 1970.
    pub fn new(token: Short, expires: i64) -> ConsoleToken {
        ConsoleToken {
            seen: AtomicU64::new(token.0),
            expires: AtomicI64::new(expires),
        }
    }

    /// Whether it is this one.
    pub fn is(&self, token: Short) -> bool {
        self.seen.load(Ordering::Relaxed) == token.0
    }

    /// Until when it holds, in seconds since 1970.
    pub fn expires(&self) -> i64 {
        self.expires.load(Ordering::Relaxed)
    }

    /// Another one has proved the same person.
    pub fn replace(&self, token: Short, expires: i64) {
        self.seen.store(token.0, Ordering::Relaxed);
        self.expires.store(expires, Ordering::Relaxed);
    }
}
