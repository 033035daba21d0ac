//! Concurrency limits of one app, over all data threads.
//!
//! One client gets at most a share of each limit, so that the app stays usable for the others.
//! Holders are recorded only above an eighth of a share: below that no client can exceed its share,
//! and a request costs two atomic operations.

use std::{
    collections::HashMap,
    hash::{BuildHasher, RandomState},
    net::IpAddr,
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{
            AtomicU64, AtomicUsize,
            Ordering::{AcqRel, Relaxed},
        },
    },
};

use super::principal::Principal;

/// The counters of one app. They survive changes of the app while it is published.
#[derive(Clone, Debug, Default)]
pub struct Load(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    uploading: AtomicUsize,
    waiting: AtomicUsize,
    connections: AtomicUsize,
    /// Allocated at the first high load; most apps never need it.
    holders: OnceLock<Box<Holders>>,
}

/// Slots in use per client. The hash is keyed, so clients cannot choose keys that collide.
#[derive(Debug, Default)]
struct Holders {
    key: RandomState,
    held: Mutex<HashMap<(u64, SlotKind), usize>>,
}

/// The kinds of slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SlotKind {
    /// A request with a body whose answer has not begun. The delay may be the client's, so it does
    /// not use a slot of [`SlotKind::Waiting`].
    Uploading,
    /// A request without a body whose answer has not begun: the app is still working on it.
    Waiting,
    /// An open connection.
    Connection,
}

/// The client that holds a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Holder<'h> {
    /// A signed-in person, by subject, since many people may share an address.
    Person(&'h str),
    /// An anonymous client, by address or network.
    Client(IpAddr),
    /// Clients behind a proxy that names none of them: no share applies.
    Unknown,
}

impl<'h> Holder<'h> {
    /// The person, if signed in, else the client.
    pub fn new(person: Option<&'h Principal>, client: Option<IpAddr>) -> Holder<'h> {
        match (person, client) {
            (Some(person), _) => Holder::Person(&person.subject),
            (None, Some(client)) => Holder::Client(client),
            (None, None) => Holder::Unknown,
        }
    }
}

/// The limits of one kind of slot.
#[derive(Clone, Copy, Debug)]
pub struct Limit {
    /// Limit of all clients together.
    pub all: usize,
    /// Limit of one client.
    pub each: usize,
}

impl Limit {
    /// A limit for all clients, of which each may have `percent`, but at least one.
    pub fn new(all: usize, percent: usize) -> Limit {
        Limit {
            all,
            each: (all.saturating_mul(percent) / 100).clamp(1, all.max(1)),
        }
    }

    /// Up to this many slots in use, holders are not recorded.
    fn untracked(self) -> usize {
        self.each / 8
    }
}

impl Load {
    /// Acquires a slot, if the app and this holder have one left. Dropping the guard returns it.
    pub fn acquire(&self, slot: SlotKind, limit: Limit, holder: Holder<'_>) -> Option<LoadGuard> {
        let guard = LoadGuard {
            counts: self.0.clone(),
            slot,
            holder: AtomicU64::new(NO_HOLDER),
        };
        // Counted before the check: dropping the guard undoes it if the limit is exceeded.
        let before = self.0.counter(slot).fetch_add(1, Relaxed);
        (before < limit.all && guard.track(before, limit, holder)).then_some(guard)
    }
}

impl Counts {
    fn counter(&self, slot: SlotKind) -> &AtomicUsize {
        match slot {
            SlotKind::Uploading => &self.uploading,
            SlotKind::Waiting => &self.waiting,
            SlotKind::Connection => &self.connections,
        }
    }
}

impl Holders {
    fn hash(&self, holder: Holder<'_>) -> u64 {
        self.key.hash_one(holder).max(NO_HOLDER + 1)
    }

    fn add(&self, holder: u64, slot: SlotKind, limit: usize) -> bool {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let count = held.entry((holder, slot)).or_default();
        let fits = *count < limit;
        if fits {
            *count += 1;
        }
        fits
    }

    fn remove(&self, holder: u64, slot: SlotKind) {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = held.get_mut(&(holder, slot)) {
            *count -= 1;
            if *count == 0 {
                held.remove(&(holder, slot));
            }
        }
    }
}

/// The hash of no holder.
const NO_HOLDER: u64 = 0;

/// One of those that are counted.
#[derive(Debug)]
pub struct LoadGuard {
    counts: Arc<Counts>,
    slot: SlotKind,
    /// Hash of the holder, if it is tracked.
    holder: AtomicU64,
}

impl LoadGuard {
    /// Moves the slot of a pooled connection to its next client. Returns whether that client's
    /// share allows it.
    pub fn reassign(&self, limit: Limit, holder: Holder<'_>) -> bool {
        self.release_share();
        self.track(
            self.counts
                .counter(self.slot)
                .load(Relaxed)
                .saturating_sub(1),
            limit,
            holder,
        )
    }

    /// Returns the slot to its holder's share early. The app's count stays.
    pub fn release_share(&self) {
        if self.holder.load(Relaxed) == NO_HOLDER {
            return;
        }
        let holder = self.holder.swap(NO_HOLDER, AcqRel);
        if let (Some(holders), true) = (self.counts.holders.get(), holder != NO_HOLDER) {
            holders.remove(holder, self.slot);
        }
    }

    /// Tracks the holder once enough slots are in use for shares to matter. `before` is the number
    /// of other slots in use.
    fn track(&self, before: usize, limit: Limit, holder: Holder<'_>) -> bool {
        if before < limit.untracked() || limit.each >= limit.all || holder == Holder::Unknown {
            return true;
        }
        let holders = self.counts.holders.get_or_init(Box::default);
        let hash = holders.hash(holder);
        let fits = holders.add(hash, self.slot, limit.each - limit.untracked());
        if fits {
            self.holder.store(hash, Relaxed);
        }
        fits
    }
}

impl Drop for LoadGuard {
    fn drop(&mut self) {
        self.release_share();
        self.counts.counter(self.slot).fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALICE: Holder<'_> = Holder::Person("alice");
    const BOB: Holder<'_> = Holder::Person("bob");

    fn whole(all: usize) -> Limit {
        Limit::new(all, 100)
    }

    #[test]
    fn there_are_as_many_as_there_may_be_and_another_when_one_is_given_back() {
        let load = Load::default();
        let held: Vec<_> = (0..3)
            .map(|_| {
                load.acquire(SlotKind::Waiting, whole(3), ALICE)
                    .expect("free")
            })
            .collect();
        assert!(load.acquire(SlotKind::Waiting, whole(3), BOB).is_none());
        assert!(
            load.clone()
                .acquire(SlotKind::Waiting, whole(3), BOB)
                .is_none()
        );
        assert!(
            load.acquire(SlotKind::Connection, whole(1), ALICE)
                .is_some(),
            "the other is counted apart"
        );
        assert!(
            load.acquire(SlotKind::Uploading, whole(1), ALICE).is_some(),
            "and so are uploads"
        );
        drop(held);
        assert!(
            load.acquire(SlotKind::Waiting, whole(1), BOB).is_some(),
            "refusals hold nothing"
        );
    }

    #[test]
    fn one_client_has_its_share_and_the_others_theirs() {
        let limit = Limit::new(40, 25);
        for slot in [SlotKind::Waiting, SlotKind::Uploading, SlotKind::Connection] {
            let load = Load::default();
            let take = |holder| load.acquire(slot, limit, holder);
            let alices: Vec<_> = std::iter::from_fn(|| take(ALICE)).collect();
            assert_eq!(alices.len(), limit.each, "{slot:?}");
            let bobs: Vec<_> = std::iter::from_fn(|| take(BOB)).collect();
            assert_eq!(
                bobs.len(),
                limit.each - limit.untracked(),
                "those that came first were not noted"
            );
            let address = Holder::Client("192.0.2.1".parse().expect("an address"));
            let others: Vec<_> = std::iter::from_fn(|| take(address)).collect();
            let unknown: Vec<_> = std::iter::from_fn(|| take(Holder::Unknown)).collect();
            assert_eq!(
                alices.len() + bobs.len() + others.len() + unknown.len(),
                limit.all
            );
            drop((alices, bobs, others, unknown));
            assert_eq!(load.0.counter(slot).load(Relaxed), 0);
            let holders = load.0.holders.get().expect("made");
            assert!(
                holders.held.lock().expect("no panic").is_empty(),
                "nothing is kept of those who left"
            );
        }
    }

    #[test]
    fn a_pooled_connection_counts_for_its_current_user() {
        let (load, limit) = (Load::default(), Limit::new(16, 25));
        let take = |holder| load.acquire(SlotKind::Connection, limit, holder);
        let _bobs: Vec<_> = (0..2).map(|_| take(BOB).expect("his share")).collect();
        let alices: Vec<_> = std::iter::from_fn(|| take(ALICE)).collect();
        assert!(take(ALICE).is_none());
        alices.iter().for_each(LoadGuard::release_share);
        assert!(alices.iter().take(2).all(|kept| kept.reassign(limit, BOB)));
        assert!(!alices[2].reassign(limit, BOB), "he has his share");
        assert!(alices[2].reassign(limit, ALICE) && alices[3].reassign(limit, ALICE));
    }
}
