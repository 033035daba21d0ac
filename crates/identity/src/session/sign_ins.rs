//! The table of sign-ins, bounded by moka.

use std::{cell::Cell, sync::Arc};

use moka::{notification::RemovalCause, ops::compute::Op, policy::EvictionPolicy, sync::Cache};

use super::{cookie::RecordKey, passthrough_hasher::KeyIsHash, record::SignIn};

/// Invariant: a sign-in that leaves the table by eviction is revoked.
#[derive(Debug)]
pub(super) struct SignIns(Cache<RecordKey, Arc<SignIn>, KeyIsHash>);

impl SignIns {
    /// An empty table for so many bytes; when it is full, the least recently used sign-in is
    /// evicted.
    pub(super) fn new(bytes: u64) -> SignIns {
        SignIns(
            Cache::builder()
                .max_capacity(bytes)
                .eviction_policy(EvictionPolicy::lru())
                .weigher(|_, sign_in: &Arc<SignIn>| sign_in.weight())
                // App sessions hold their sign-in. Without this they would stay valid where
                // sign-out can no longer find them.
                .eviction_listener(|_, sign_in, cause| {
                    if cause != RemovalCause::Replaced {
                        sign_in.revoke();
                    }
                })
                .build_with_hasher(KeyIsHash),
        )
    }

    /// The sign-in of a key, live or not. Counts as use for the order of eviction.
    pub(super) fn get(&self, key: &RecordKey) -> Option<Arc<SignIn>> {
        self.0.get(key)
    }

    /// Inserts a sign-in in place of any other with its key.
    pub(super) fn insert(&self, sign_in: Arc<SignIn>) {
        self.0.insert(sign_in.key(), sign_in);
    }

    /// Inserts a sign-in and returns the one that is in the table: the first one wins, unless it
    /// was revoked.
    pub(super) fn insert_unless_present(&self, new: &Arc<SignIn>) -> Arc<SignIn> {
        let entry = self
            .0
            .entry(new.key())
            .and_compute_with(|known| match known {
                Some(known) if !known.value().is_revoked() => Op::Nop,
                Some(_) | None => Op::Put(new.clone()),
            });
        entry
            .into_entry()
            .map_or_else(|| new.clone(), |entry| entry.into_value())
    }

    /// The sign-in of a key, made by `new` if there is none: once, also for concurrent calls. Also
    /// returns whether this call made it.
    pub(super) fn get_or_insert_with(
        &self,
        key: RecordKey,
        new: impl FnOnce() -> SignIn,
    ) -> (Arc<SignIn>, bool) {
        let is_new = Cell::new(false);
        let sign_in = self.0.get_with(key, || {
            is_new.set(true);
            Arc::new(new())
        });
        (sign_in, is_new.get())
    }

    /// Removes this very sign-in, and not one that has started under the same key since.
    pub(super) fn remove(&self, sign_in: &SignIn) {
        let _ = self
            .0
            .entry(sign_in.key())
            .and_compute_with(|found| match found {
                Some(found) if std::ptr::eq(Arc::as_ptr(found.value()), sign_in) => Op::Remove,
                Some(_) | None => Op::Nop,
            });
    }

    /// All sign-ins, live or not.
    pub(super) fn iter(&self) -> impl Iterator<Item = Arc<SignIn>> {
        self.0.iter().map(|(_, sign_in)| sign_in)
    }

    /// The number of sign-ins, after moka's housekeeping: not for a data thread.
    pub(super) fn count(&self) -> u64 {
        self.run_housekeeping();
        self.0.entry_count()
    }

    /// Runs moka's housekeeping, which a reader would have to run otherwise.
    pub(super) fn run_housekeeping(&self) {
        self.0.run_pending_tasks();
    }
}
