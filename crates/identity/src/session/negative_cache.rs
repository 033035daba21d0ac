//! Record keys that Redis did not have a moment ago, so that a repeated cookie costs no second
//! look-up.

use moka::{policy::EvictionPolicy, sync::Cache};

use super::cookie::RecordKey;
use crate::model::clock::{Clock, Moment};

/// A missing record is not looked up again for so long, in milliseconds.
const REMEMBERED_FOR: u64 = 5_000;
/// Keys that are remembered.
const MAX_KEYS: u64 = 100_000;

/// A negative cache of record keys.
#[derive(Debug)]
pub(crate) struct MissingIds {
    keys: Cache<RecordKey, Moment>,
    clock: Clock,
}

impl MissingIds {
    pub(crate) fn new(clock: Clock) -> MissingIds {
        MissingIds {
            keys: Cache::builder()
                .max_capacity(MAX_KEYS)
                .eviction_policy(EvictionPolicy::lru())
                .build(),
            clock,
        }
    }

    /// Remembers a key that was missing at that moment.
    pub(crate) fn insert(&self, key: RecordKey, looked_up: Moment) {
        self.keys.insert(key, looked_up);
    }

    pub(crate) fn contains(&self, key: &RecordKey) -> bool {
        let now = self.clock.now();
        self.keys
            .get(key)
            .is_some_and(|looked_up| now.0 < looked_up.0.saturating_add(REMEMBERED_FOR))
    }
}
