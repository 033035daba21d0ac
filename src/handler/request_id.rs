//! The id of a request: in the log, in the app's headers, on every refusal page.

use std::{
    cell::Cell,
    hash::{BuildHasher, RandomState},
};

use bytes::Bytes;
use http::{HeaderValue, request::Parts};

use crate::{forward::request_headers::X_REQUEST_ID, peer::Peer};

/// Request ids: 64 random bits a thread, then a counter; unique, not secret.
pub struct RequestIds {
    prefix: u64,
    count: Cell<u64>,
}

impl RequestIds {
    /// Ids of one data thread.
    pub fn new() -> RequestIds {
        // Seeded by the system, without blocking at start-up.
        RequestIds {
            prefix: RandomState::new().hash_one(0),
            count: Cell::new(0),
        }
    }

    /// A trusted peer's id, or a new one.
    pub fn next(&self, parts: &Parts, peer: &Peer) -> HeaderValue {
        let given = parts.headers.get(X_REQUEST_ID).filter(|id| {
            let plain =
                |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b':' | b'-');
            peer.trusted && (1..=128).contains(&id.len()) && id.as_bytes().iter().all(plain)
        });
        if let Some(given) = given {
            return given.clone();
        }
        let count = self.count.get() + 1;
        self.count.set(count);
        // One allocation, also for the copies in the log and in the headers.
        let id = Bytes::from_owner(hex(self.prefix, count));
        HeaderValue::from_maybe_shared(id).unwrap_or_else(|_| HeaderValue::from_static("none"))
    }
}

impl Default for RequestIds {
    fn default() -> Self {
        RequestIds::new()
    }
}

/// Both numbers, 16 digits each.
fn hex(prefix: u64, count: u64) -> [u8; 32] {
    let number = u128::from(prefix) << 64 | u128::from(count);
    // The lowest four bits at each place from the left.
    std::array::from_fn(|at| b"0123456789abcdef"[(number >> (124 - 4 * at)) as usize & 0xf])
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
}
