//! The owners of sessions that expired a short while ago. A form that was filled in on a page that
//! stayed open too long is given back to its owner only.

use std::sync::Arc;

use moka::{policy::EvictionPolicy, sync::Cache};

use super::cookie::RecordKey;
use crate::model::clock::Moment;

/// Sessions that are remembered.
const MAX_SESSIONS: u64 = 100_000;

/// By the key of the record: the owner's subject, and until when it is remembered.
#[derive(Debug)]
pub(super) struct RecentlyExpired(Cache<RecordKey, (Arc<str>, Moment)>);

impl RecentlyExpired {
    pub(super) fn new() -> RecentlyExpired {
        RecentlyExpired(
            Cache::builder()
                .max_capacity(MAX_SESSIONS)
                .eviction_policy(EvictionPolicy::lru())
                .build(),
        )
    }

    pub(super) fn insert(&self, key: RecordKey, subject: Arc<str>, until: Moment) {
        self.0.insert(key, (subject, until));
    }

    pub(super) fn subject(&self, key: &RecordKey, now: Moment) -> Option<Arc<str>> {
        self.0
            .get(key)
            .filter(|(_, until)| now < *until)
            .map(|(subject, _)| subject)
    }
}
