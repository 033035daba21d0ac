//! Known revocations: those by this replica, which wait to be published, and those by other
//! replicas, so that no late read restores a revoked session.

use std::{
    collections::HashMap,
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use moka::{policy::EvictionPolicy, sync::Cache};
use tokio::sync::Notify;

use super::{cookie::RecordKey, logout_scope::LogoutScope, negative_cache::MissingIds};
use crate::model::{app::AppId, clock::Clock};

/// Revoked sign-ins that are remembered. A read that was under way, or a Redis that lost its data,
/// must not restore them.
const MAX_SIGN_INS: u64 = 200_000;
/// Apps whose sessions were revoked, likewise.
const MAX_APPS: u64 = 10_000;
/// Unpublished revocations; the rest is published with the next full synchronisation.
const MAX_UNPUBLISHED: usize = 200_000;
/// Logouts that wait for Redis.
const MAX_DEFERRED: usize = 10_000;

/// A revocation that is not published yet. Times are wall clock seconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PendingRevocation {
    /// A sign-in, however it is dated in Redis. `is_repeated`: it was published before, so a newer
    /// sign-in under the same key is left alone.
    SignIn { when: i64, is_repeated: bool },
    /// All sessions of an app that started until then.
    App { app: AppId, when: i64 },
    /// One app session that made room for another.
    AppSession,
}

/// What was revoked, by the wall clock in seconds.
#[derive(Debug)]
pub(crate) struct RevocationLog {
    sign_ins: Cache<RecordKey, i64>,
    apps: Cache<AppId, i64>,
    unpublished: Mutex<HashMap<RecordKey, PendingRevocation>>,
    /// Logouts of providers, while Redis cannot list the sign-ins.
    deferred: Mutex<Vec<LogoutScope>>,
    added: Notify,
    missing: Arc<MissingIds>,
    clock: Clock,
    lifetime: Duration,
}

impl RevocationLog {
    /// An empty log. `lifetime` is the longest life of a session, after which its revocation may be
    /// forgotten.
    pub(crate) fn new(missing: Arc<MissingIds>, clock: Clock, lifetime: Duration) -> RevocationLog {
        RevocationLog {
            sign_ins: Cache::builder()
                .max_capacity(MAX_SIGN_INS)
                .eviction_policy(EvictionPolicy::lru())
                .build(),
            apps: Cache::builder()
                .max_capacity(MAX_APPS)
                .eviction_policy(EvictionPolicy::lru())
                .build(),
            unpublished: Mutex::default(),
            deferred: Mutex::default(),
            added: Notify::new(),
            missing,
            clock,
            lifetime,
        }
    }

    /// Revokes a sign-in on all replicas: here at once, elsewhere when it is published.
    /// `started_at` is its start, if it is known here.
    pub(crate) fn revoke_sign_in(&self, key: RecordKey, started_at: Option<i64>) {
        // The clock of the replica where it started may be ahead of ours.
        let when = self
            .clock
            .wall_seconds()
            .max(started_at.unwrap_or(i64::MIN));
        self.record_sign_in(key, when);
        let is_repeated = false;
        self.enqueue(key, PendingRevocation::SignIn { when, is_repeated });
    }

    /// Revokes all sessions of an app that started until now.
    pub(crate) fn revoke_app(&self, app: &AppId) {
        let when = self.clock.wall_seconds();
        self.record_app(app, when);
        self.enqueue_app(app.clone(), when);
    }

    /// Removes an app session that made room for another one of its sign-in.
    pub(crate) fn discard_app_session(&self, key: RecordKey) {
        self.missing.insert(key, self.clock.now());
        self.enqueue(key, PendingRevocation::AppSession);
    }

    /// Records the revocation of a sign-in, by any replica.
    pub(crate) fn record_sign_in(&self, key: RecordKey, when: i64) {
        let known = self.sign_in_revoked_at(&key);
        self.sign_ins.insert(key, when.max(known));
    }

    /// Records the revocation of all sessions of an app, by any replica.
    pub(crate) fn record_app(&self, app: &AppId, when: i64) {
        let known = self.app_revoked_at(app);
        self.apps.insert(app.clone(), when.max(known));
    }

    /// The start of a sign-in that begins now, in wall clock seconds: always after the last
    /// revocation under its key.
    pub(crate) fn start_after_revocation(&self, key: &RecordKey) -> i64 {
        let now = self.clock.wall_seconds();
        self.sign_ins
            .get(key)
            .map_or(now, |revoked| now.max(revoked.saturating_add(1)))
    }

    /// When a sign-in with this key was last revoked, according to this log.
    pub(crate) fn sign_in_revoked_at(&self, key: &RecordKey) -> i64 {
        self.sign_ins.get(key).unwrap_or(i64::MIN)
    }

    /// When all sessions of an app were last revoked, according to this log.
    pub(crate) fn app_revoked_at(&self, app: &AppId) -> i64 {
        self.apps.get(app).unwrap_or(i64::MIN)
    }

    /// Defers a logout until Redis can list the sign-ins.
    pub(crate) fn defer(&self, logout: LogoutScope) {
        let mut deferred = self.lock_deferred();
        if deferred.len() < MAX_DEFERRED && !deferred.contains(&logout) {
            deferred.push(logout);
        }
    }

    /// Removes and returns the deferred logouts.
    pub(crate) fn drain_deferred(&self) -> Vec<LogoutScope> {
        mem::take(&mut *self.lock_deferred())
    }

    /// Whether anything waits for Redis.
    pub(crate) fn has_pending(&self) -> bool {
        let is_published = self.lock_unpublished().is_empty();
        !is_published || !self.lock_deferred().is_empty()
    }

    /// Waits for a revocation to publish.
    pub(crate) async fn wait_for_pending(&self) {
        self.added.notified().await;
    }

    /// A copy of the unpublished revocations.
    pub(crate) fn unpublished(&self) -> Vec<(RecordKey, PendingRevocation)> {
        self.lock_unpublished()
            .iter()
            .map(|(key, revocation)| (*key, revocation.clone()))
            .collect()
    }

    /// The unpublished revocation of one key.
    pub(crate) fn unpublished_of(&self, key: &RecordKey) -> Option<PendingRevocation> {
        self.lock_unpublished().get(key).cloned()
    }

    /// Removes a revocation that was published, unless a newer one has replaced it.
    pub(crate) fn mark_published(&self, key: &RecordKey, published: &PendingRevocation) {
        let mut unpublished = self.lock_unpublished();
        if unpublished.get(key) == Some(published) {
            unpublished.remove(key);
        }
    }

    /// Enqueues all known revocations again: a Redis that lost its data has lost them, too.
    pub(crate) fn requeue_all(&self) {
        let oldest = self
            .clock
            .wall_seconds()
            .saturating_sub_unsigned(self.lifetime.as_secs());
        for (key, when) in self.sign_ins.iter().filter(|(_, when)| *when >= oldest) {
            let is_queued = self.lock_unpublished().contains_key(&key);
            if !is_queued {
                let is_repeated = true;
                self.enqueue(*key, PendingRevocation::SignIn { when, is_repeated });
            }
        }
        for (app, when) in self.apps.iter().filter(|(_, when)| *when >= oldest) {
            self.enqueue_app(AppId::clone(&app), when);
        }
        // For revocations that are in the queue already.
        self.added.notify_one();
    }

    fn enqueue_app(&self, app: AppId, when: i64) {
        let key = RecordKey::from_name(app.as_str());
        self.enqueue(key, PendingRevocation::App { app, when });
    }

    fn enqueue(&self, key: RecordKey, revocation: PendingRevocation) {
        let mut unpublished = self.lock_unpublished();
        if unpublished.len() < MAX_UNPUBLISHED || unpublished.contains_key(&key) {
            unpublished.insert(key, revocation);
        }
        drop(unpublished);
        self.added.notify_one();
    }

    fn lock_unpublished(&self) -> MutexGuard<'_, HashMap<RecordKey, PendingRevocation>> {
        self.unpublished
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_deferred(&self) -> MutexGuard<'_, Vec<LogoutScope>> {
        self.deferred.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
