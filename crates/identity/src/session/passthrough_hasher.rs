//! A hasher for tables whose keys are hashes already.

use std::hash::{BuildHasher, Hasher};

/// The key already is a SHA-256: its first bytes serve as the hash.
#[derive(Clone, Copy, Debug, Default)]
pub struct KeyIsHash;

/// See [`KeyIsHash`].
#[derive(Debug, Default)]
pub struct FirstBytes(u64);

impl BuildHasher for KeyIsHash {
    type Hasher = FirstBytes;

    fn build_hasher(&self) -> FirstBytes {
        FirstBytes(0)
    }
}

impl Hasher for FirstBytes {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        let mut first = [0; 8];
        let len = bytes.len().min(8);
        first[..len].copy_from_slice(&bytes[..len]);
        // An array is hashed as its length and then its bytes. XOR, so that one call does not
        // overwrite the other.
        self.0 ^= u64::from_le_bytes(first);
    }

    fn write_usize(&mut self, _: usize) {}
}
