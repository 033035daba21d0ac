//! The id of a request: in the log, in the app's headers, on every refusal page.

use std::{
    cell::{Cell, RefCell},
    hash::{BuildHasher, RandomState},
};

use bytes::Bytes;
use http::{HeaderValue, request::Parts};

use crate::{forward::request_headers::X_REQUEST_ID, peer::Peer};

/// Length of an id in bytes.
const LENGTH: usize = 32;
/// Ids that share an allocation. A long stream keeps the allocation of its id, so it is small.
const BLOCK: usize = 16;

/// Request ids: 64 random bits a thread, then a counter; unique, not secret.
pub struct RequestIds {
    prefix: u64,
    count: Cell<u64>,
    /// The next ids.
    block: RefCell<Bytes>,
}

impl RequestIds {
    /// Ids of one data thread.
    pub fn new() -> RequestIds {
        // Seeded by the system, without blocking at start-up.
        RequestIds {
            prefix: RandomState::new().hash_one(0),
            count: Cell::new(0),
            block: RefCell::default(),
        }
    }

    /// A trusted peer's id, or a new one.
    pub fn next(&self, parts: &Parts, peer: &Peer) -> HeaderValue {
        let plain = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b':' | b'-');
        if peer.trusted
            && let Some(given) = parts.headers.get(X_REQUEST_ID)
            && (1..=128).contains(&given.len())
            && given.as_bytes().iter().all(plain)
        {
            return given.clone();
        }
        let mut block = self.block.borrow_mut();
        if block.is_empty() {
            *block = self.new_block();
        }
        HeaderValue::from_maybe_shared(block.split_to(LENGTH))
            .unwrap_or_else(|_| HeaderValue::from_static("none"))
    }

    #[cold]
    fn new_block(&self) -> Bytes {
        let first = self.count.get() + 1;
        self.count.set(first + BLOCK as u64 - 1);
        let ids: [[u8; LENGTH]; BLOCK] =
            std::array::from_fn(|at| hex(self.prefix, first + at as u64));
        Bytes::from_owner(Block(ids))
    }
}

impl Default for RequestIds {
    fn default() -> Self {
        RequestIds::new()
    }
}

struct Block([[u8; LENGTH]; BLOCK]);

impl AsRef<[u8]> for Block {
    fn as_ref(&self) -> &[u8] {
        self.0.as_flattened()
    }
}

/// Both numbers, 16 digits each.
fn hex(prefix: u64, count: u64) -> [u8; LENGTH] {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = [0; LENGTH];
    let bytes = [prefix.to_be_bytes(), count.to_be_bytes()];
    for (pair, byte) in text.chunks_exact_mut(2).zip(bytes.as_flattened()) {
        pair[0] = DIGITS[usize::from(byte >> 4)];
        pair[1] = DIGITS[usize::from(byte & 0xf)];
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_has_all_its_digits() {
        assert_eq!(
            &hex(0x0123_4567_89ab_cdef, 0x2a),
            b"0123456789abcdef000000000000002a"
        );
        assert_eq!(&hex(u64::MAX, u64::MAX), &[b'f'; 32]);
    }

    #[test]
    fn ids_count_on_from_block_to_block() {
        let ids = RequestIds::new();
        let peer = Peer::new(
            "192.0.2.1:1".parse().expect("an address"),
            &crate::peer::PeerSettings::default(),
        );
        let (parts, ()) = http::Request::new(()).into_parts();
        for count in 1..=2 * BLOCK as u64 + 1 {
            assert_eq!(ids.next(&parts, &peer).as_bytes(), hex(ids.prefix, count));
        }
    }
}
