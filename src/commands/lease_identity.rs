//! The name of a process in its lease.

use std::{
    hash::{BuildHasher, RandomState},
    process,
};

/// Names this process in the lease: the pod, and a number that no other process has. A restarted
/// container waits until the lease of its predecessor expires.
pub(super) fn lease_identity() -> String {
    let host = std::env::var("HOSTNAME").unwrap_or_else(|_| "ludgate".to_owned());
    // Each `RandomState` has its own key.
    format!("{host}_{:016x}", RandomState::new().hash_one(process::id()))
}
