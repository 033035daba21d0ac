//! The table of app sessions. Look-ups do no bookkeeping; moka bounds the number of records.
//!
//! moka records every read, makes one reader in 64 process the records, and makes readers help to
//! rebuild its table when many entries are removed. So look-ups use a separate papaya table. The
//! use of a session is recorded in moka once a second, which is precise enough for the order of
//! eviction.

use std::sync::Arc;

use moka::{
    Entry, notification::RemovalCause, ops::compute::Op, policy::EvictionPolicy, sync::Cache,
};

use super::{cookie::RecordKey, passthrough_hasher::KeyIsHash, record::AppSession};

/// One record with its entries in both tables, in bytes.
const WEIGHT: u32 = 550;

type LookupTable = papaya::HashMap<RecordKey, Arc<AppSession>, KeyIsHash>;

/// Invariant: an entry that leaves `bounded` leaves `lookup` too.
#[derive(Debug)]
pub(super) struct AppSessions {
    lookup: Arc<LookupTable>,
    bounded: Cache<RecordKey, Arc<AppSession>, KeyIsHash>,
}

impl AppSessions {
    /// An empty table for so many bytes; when it is full, the least recently used session is
    /// evicted.
    pub(super) fn new(bytes: u64) -> AppSessions {
        let lookup = Arc::new(LookupTable::with_hasher(KeyIsHash));
        let evicted_from = lookup.clone();
        let on_eviction = move |key: Arc<RecordKey>, session: Arc<AppSession>, cause| {
            if cause != RemovalCause::Replaced {
                // Other `Arc` holders must not keep using a session that sign-out can no longer
                // find.
                session.revoke();
            }
            // The key may already hold another session.
            let _ = evicted_from
                .pin()
                .remove_if(&*key, |_, found| Arc::ptr_eq(found, &session));
        };
        let bounded = Cache::builder()
            .max_capacity(bytes)
            .eviction_policy(EvictionPolicy::lru())
            .weigher(|_, _| WEIGHT)
            .eviction_listener(on_eviction)
            .build_with_hasher(KeyIsHash);
        AppSessions { lookup, bounded }
    }

    /// The session of a key, live or not. Takes no lock.
    pub(super) fn get(&self, key: &RecordKey) -> Option<Arc<AppSession>> {
        self.lookup.pin().get(key).cloned()
    }

    /// Inserts a session and returns the one that is in the table. The first one under a key wins
    /// unless it was revoked, so that all tasks that load one session get the same.
    pub(super) fn insert(&self, session: Arc<AppSession>) -> Arc<AppSession> {
        let entry = self
            .bounded
            .entry(session.key())
            .and_compute_with(|known| match known {
                Some(known) if !known.value().is_revoked() => Op::Nop,
                Some(_) | None => {
                    // First, so that the entry is never visible in `bounded` alone.
                    self.lookup.pin().insert(session.key(), session.clone());
                    Op::Put(session.clone())
                }
            });
        entry.into_entry().map_or(session, Entry::into_value)
    }

    /// Marks a session as just used for the order of eviction.
    pub(super) fn record_use(&self, session: &AppSession) {
        let _ = self.bounded.get(&session.key());
    }

    /// Removes a session.
    pub(super) fn remove(&self, key: &RecordKey) {
        self.lookup.pin().remove(key);
        self.bounded.invalidate(key);
    }

    /// All sessions, live or not.
    pub(super) fn iter(&self) -> impl Iterator<Item = Arc<AppSession>> {
        self.bounded.iter().map(|(_, session)| session)
    }

    /// The number of sessions, after moka's housekeeping: not for a data thread.
    pub(super) fn count(&self) -> u64 {
        self.run_housekeeping();
        self.bounded.entry_count()
    }

    /// Runs moka's housekeeping, which a reader would have to run otherwise.
    pub(super) fn run_housekeeping(&self) {
        self.bounded.run_pending_tasks();
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
            SessionSettings, app_session_id::AppSessionId, cookie::NewId,
            provider_tokens::ProviderTokens, record::SignIn,
        },
    };

    fn id(key: RecordKey) -> AppSessionId {
        AppSessionId {
            key,
            app: AppId::new("hello").expect("an id"),
            vhost: VirtualHost::Site,
            started_at: 0,
            own_idle: None,
        }
    }

    fn session(sign_in: &Arc<SignIn>, key: RecordKey) -> Arc<AppSession> {
        let idle = Duration::from_secs(60);
        Arc::new(AppSession::new(id(key), sign_in.clone(), Moment(0), idle))
    }

    fn sign_in() -> Arc<SignIn> {
        let person = Arc::new(Principal::new(PersonClaims::default(), &[]));
        Arc::new(SignIn::new(
            key(),
            person,
            ProviderTokens::default(),
            Moment(0),
            0,
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
            sessions.run_housekeeping();
        }
        // A look-up does not count as use.
        assert!(sessions.get(&three[1].key()).is_some());
        sessions.record_use(&three[0]);
        sessions.insert(session(&sign_in, key()));
        assert_eq!(sessions.count(), 3);
        let found: Vec<_> = three
            .iter()
            .map(|session| sessions.get(&session.key()).is_some())
            .collect();
        assert_eq!(found, [true, false, true]);
        assert!(three[1].is_revoked() && !three[0].is_revoked());
        assert_eq!(sessions.lookup.len(), 3);
    }

    #[test]
    fn what_is_in_use_says_so_once_a_second_also_when_no_deadline_can_move() {
        let lifetime = SessionSettings::default().lifetime;
        let session = AppSession::new(id(key()), sign_in(), Moment(0), lifetime);
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
        older.revoke();
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
                sessions.lookup.len()
            ),
            (true, 0, 0)
        );
    }
}
