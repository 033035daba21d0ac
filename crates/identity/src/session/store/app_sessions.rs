//! The app sessions: found without any bookkeeping, and bounded by moka.
//!
//! moka notes every read, has one reader in 64 put the notes in order, and rebuilds parts of its
//! table when much is taken out of it, with the help of whoever reads meanwhile. So readers have a
//! table of their own, and moka is asked once a second for what is in use, which is enough to know
//! what was not used for longest.

use std::sync::Arc;

use moka::{
    Entry, notification::RemovalCause, ops::compute::Op, policy::EvictionPolicy, sync::Cache,
};

use crate::session::{cookie::RecordKey, key_is_hash::KeyIsHash, record::AppSession};

/// What one record holds, with its places in both tables, in bytes.
const WEIGHT: u32 = 550;

type Found = papaya::HashMap<RecordKey, Arc<AppSession>, KeyIsHash>;

/// Invariant: what `bound` lets go is gone from `found` too.
#[derive(Debug)]
pub(super) struct AppSessions {
    found: Arc<Found>,
    bound: Cache<RecordKey, Arc<AppSession>, KeyIsHash>,
}

impl AppSessions {
    /// None yet, and room for so many bytes: one more lets go what was not used for longest.
    pub(super) fn new(bytes: u64) -> AppSessions {
        let found = Arc::new(Found::with_hasher(KeyIsHash));
        let gone = found.clone();
        let bound = Cache::builder()
            .max_capacity(bytes)
            .eviction_policy(EvictionPolicy::lru())
            .weigher(|_, _| WEIGHT)
            .eviction_listener(
                move |key: Arc<RecordKey>, session: Arc<AppSession>, cause| {
                    if cause != RemovalCause::Replaced {
                        // Whoever holds it by themselves is not to go on with what nobody can find and
                        // end any more.
                        session.end();
                    }
                    // Another may stand under its key by now.
                    let _ = gone
                        .pin()
                        .remove_if(&*key, |_, found| Arc::ptr_eq(found, &session));
                },
            )
            .build_with_hasher(KeyIsHash);
        AppSessions { found, bound }
    }

    /// The session of a key, whether it still counts or not. Waits for nobody.
    pub(super) fn get(&self, key: &RecordKey) -> Option<Arc<AppSession>> {
        self.found.pin().get(key).cloned()
    }

    /// Another one; gives back the one that stands. Of two under one key that is the first, unless
    /// it was ended: of many who bring one at once all get the same, and none goes on beside the
    /// one that is known here.
    pub(super) fn insert(&self, session: Arc<AppSession>) -> Arc<AppSession> {
        let kept = self
            .bound
            .entry(session.key())
            .and_compute_with(|known| match known {
                Some(known) if !known.value().is_ended() => Op::Nop,
                Some(_) | None => {
                    // Before anybody else can see that it is there.
                    self.found.pin().insert(session.key(), session.clone());
                    Op::Put(session.clone())
                }
            });
        kept.into_entry().map_or(session, Entry::into_value)
    }

    /// It is in use: others are let go first.
    pub(super) fn keep_young(&self, session: &AppSession) {
        let _ = self.bound.get(&session.key());
    }

    /// It is over.
    pub(super) fn remove(&self, key: &RecordKey) {
        self.found.pin().remove(key);
        self.bound.invalidate(key);
    }

    /// All of them, whether they still count or not.
    pub(super) fn iter(&self) -> impl Iterator<Item = Arc<AppSession>> {
        self.bound.iter().map(|(_, session)| session)
    }

    /// How many there are, once moka has put its notes in order: not for a data thread.
    pub(super) fn count(&self) -> u64 {
        self.settle();
        self.bound.entry_count()
    }

    /// Has moka put its notes in order, so that nobody else has to.
    pub(super) fn settle(&self) {
        self.bound.run_pending_tasks();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{
        model::{
            app::AppId,
            clock::Moment,
            principal::{PersonClaims, Principal},
            vhost::VirtualHost,
        },
        session::{
            SessionSettings,
            cookie::NewId,
            record::{ProviderTokens, SignIn},
        },
    };

    fn session(sign_in: &Arc<SignIn>, key: RecordKey) -> Arc<AppSession> {
        let at = (AppId::new("hello").expect("an id"), VirtualHost::Site);
        Arc::new(AppSession::begin(
            key,
            at,
            sign_in.clone(),
            Moment(0),
            Duration::from_secs(60),
        ))
    }

    fn sign_in() -> Arc<SignIn> {
        let person = Arc::new(Principal::new(PersonClaims::default(), &[]));
        Arc::new(SignIn::begin(
            key(),
            person,
            ProviderTokens::default(),
            Moment(0),
            &SessionSettings::default(),
        ))
    }

    fn key() -> RecordKey {
        NewId::random().expect("random bytes").key()
    }

    #[test]
    fn what_was_not_used_for_longest_makes_room_and_is_found_no_more() {
        let (sessions, sign_in) = (AppSessions::new(3 * u64::from(WEIGHT)), sign_in());
        let three: Vec<_> = (0..3).map(|_| session(&sign_in, key())).collect();
        for session in &three {
            sessions.insert(session.clone());
            sessions.settle();
        }
        // Looking one up says nothing of its use.
        assert!(sessions.get(&three[1].key()).is_some());
        sessions.keep_young(&three[0]);
        sessions.insert(session(&sign_in, key()));
        assert_eq!(sessions.count(), 3);
        let found: Vec<_> = three
            .iter()
            .map(|session| sessions.get(&session.key()).is_some())
            .collect();
        assert_eq!(found, [true, false, true]);
        assert!(three[1].is_ended() && !three[0].is_ended());
        assert_eq!(sessions.found.len(), 3);
    }

    #[test]
    fn what_is_in_use_says_so_once_a_second_also_when_no_deadline_can_move() {
        let (at, lifetime) = (
            (AppId::new("hello").expect("an id"), VirtualHost::Site),
            SessionSettings::default().lifetime,
        );
        let session = AppSession::begin(key(), at, sign_in(), Moment(0), lifetime);
        let said = [1_000, 1_500, 1_999, 2_000].map(|millis| session.touch(Moment(millis)));
        assert_eq!(said, [true, false, false, true]);
    }

    #[test]
    fn of_one_key_the_first_stands_until_it_is_ended_and_what_is_over_is_nowhere() {
        let (sessions, sign_in, key) = (AppSessions::new(1 << 20), sign_in(), key());
        let (older, newer) = (session(&sign_in, key), session(&sign_in, key));
        assert!(Arc::ptr_eq(&sessions.insert(older.clone()), &older));
        assert!(
            Arc::ptr_eq(&sessions.insert(newer.clone()), &older),
            "both get the same"
        );
        assert!(
            sessions
                .get(&key)
                .is_some_and(|found| Arc::ptr_eq(&found, &older))
        );
        older.end();
        assert!(Arc::ptr_eq(&sessions.insert(newer.clone()), &newer));
        assert_eq!(sessions.count(), 1);
        assert!(
            sessions
                .get(&key)
                .is_some_and(|found| Arc::ptr_eq(&found, &newer))
        );
        sessions.remove(&key);
        assert_eq!(
            (
                sessions.get(&key).is_none(),
                sessions.count(),
                sessions.found.len()
            ),
            (true, 0, 0)
        );
    }
}
