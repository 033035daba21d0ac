//! Loads sessions that are not in memory from Redis.

use std::sync::Arc;

use super::error::{SessionLoadError, StoreUnavailable};
use crate::{
    model::{
        client::Client,
        clock::Moment,
        lookup_limit::{LookupLimit, LookupPermit, Quota},
    },
    ops::redis::StoreError,
    session::{
        app_session_id::AppSessionId,
        cookie::RecordKey,
        record::{RestoredSignIn, SignIn, SignInUpdate},
        redis::{Redis, names::RecordKind, records::ReplicatedSignIn},
        remaining::Remaining,
        store::SessionStore,
    },
};

/// Unknown ids of one client. A browser with expired sessions presents a few, and many browsers may
/// share an address; enumeration presents thousands.
const UNKNOWN_IDS: Quota = Quota {
    burst: 256,
    refill: 30,
    at_once: 256,
};

/// Loads records from Redis into the memory store.
pub(crate) struct SessionLoader {
    store: Arc<SessionStore>,
    redis: Arc<Redis>,
    limit: LookupLimit,
}

impl SessionLoader {
    pub(super) fn new(store: Arc<SessionStore>, redis: Arc<Redis>) -> SessionLoader {
        let limit = LookupLimit::new(UNKNOWN_IDS, store.clock().clone());
        SessionLoader {
            store,
            redis,
            limit,
        }
    }

    /// Loads the sessions of these cookies, unless they are in memory.
    pub(super) async fn load_cookies<'c>(
        &self,
        app_cookies: impl Iterator<Item = &'c [u8]>,
        sign_in_cookies: impl Iterator<Item = &'c [u8]>,
        client: Client,
    ) -> Result<(), SessionLoadError> {
        let apps = app_cookies
            .filter_map(RecordKey::parse)
            .map(|key| (RecordKind::AppSession, key));
        let sign_ins = sign_in_cookies
            .filter_map(RecordKey::parse)
            .map(|key| (RecordKind::SignIn, key));
        let now = self.store.clock().now();
        let unknown: Vec<_> = apps
            .chain(sign_ins)
            .filter(|(kind, key)| {
                !self.is_in_memory(*kind, key, now) && !self.redis.missing.contains(key)
            })
            .collect();
        if unknown.is_empty() {
            return Ok(());
        }
        let attempts = self.attempts(client, unknown.len())?;
        let exist = match self.redis.records.exist(&unknown).await {
            Ok(exist) => exist,
            Err(error) => {
                // An outage must not count against the client.
                attempts.into_iter().for_each(LookupPermit::found);
                return Err(error.into());
            }
        };
        for (_, attempt) in exist.iter().zip(attempts).filter(|(exists, _)| **exists) {
            attempt.found();
        }
        for ((kind, key), _) in unknown.iter().zip(exist).filter(|(_, exists)| *exists) {
            match kind {
                RecordKind::AppSession => self.load_app_session(*key).await?,
                RecordKind::SignIn => drop(self.load_sign_in(*key).await?),
            }
        }
        Ok(())
    }

    fn is_in_memory(&self, kind: RecordKind, key: &RecordKey, now: Moment) -> bool {
        match kind {
            RecordKind::AppSession => self
                .store
                .app_session_by_key(key)
                .is_some_and(|session| session.is_live(now)),
            RecordKind::SignIn => self
                .store
                .sign_in_by_key(key)
                .is_some_and(|sign_in| sign_in.is_live(now)),
        }
    }

    /// Permits for so many look-ups. Clients behind a proxy that does not forward their addresses
    /// share one, so they are bounded only by the number of look-ups in flight.
    fn attempts(
        &self,
        client: Client,
        count: usize,
    ) -> Result<Vec<LookupPermit>, SessionLoadError> {
        let Some(client) = client.limit_key else {
            return Ok(Vec::new());
        };
        let mut attempts = Vec::with_capacity(count);
        while attempts.len() < count {
            match self.limit.acquire(client) {
                Some(attempt) => attempts.push(attempt),
                None => {
                    // Nothing is looked up, so nothing is charged.
                    attempts.into_iter().for_each(LookupPermit::found);
                    return Err(SessionLoadError::TooManyUnknown);
                }
            }
        }
        Ok(attempts)
    }

    async fn load_app_session(&self, key: RecordKey) -> Result<(), StoreError> {
        let Some((record, idle)) = self.redis.records.load_app_session(key).await? else {
            return Ok(());
        };
        let Some(sign_in) = self.load_sign_in(record.sign_in()).await? else {
            return Ok(());
        };
        let now = self.store.clock().now();
        let known = self.store.app_session_by_key(&key);
        if let Some(session) = known.filter(|session| !session.is_revoked()) {
            session.deadlines().merge_stored(now, idle);
            return Ok(());
        }
        let Some((app, vhost)) = record.app.app_and_vhost() else {
            return Ok(());
        };
        let remaining = Remaining {
            idle,
            absolute: sign_in.remaining(now).absolute,
        };
        let id = AppSessionId {
            key,
            app,
            vhost,
            started_at: record.started_at,
            own_idle: record.app.own_idle(),
        };
        self.store.restore_app_session(id, &sign_in, remaining);
        if let Some(session) = self.store.app_session_by_key(&key) {
            session.deadlines().merge_stored(now, idle);
        }
        Ok(())
    }

    /// The live sign-in of a key, from memory or from Redis.
    pub(crate) async fn load_sign_in(
        &self,
        key: RecordKey,
    ) -> Result<Option<Arc<SignIn>>, StoreError> {
        let now = self.store.clock().now();
        let known = self.store.sign_in_by_key(&key);
        if let Some(known) = known.filter(|sign_in| sign_in.is_live(now)) {
            return Ok(Some(known));
        }
        let Some((record, remaining)) = self.redis.records.load_sign_in(key).await? else {
            return Ok(None);
        };
        Ok(self.apply(key, record, remaining))
    }

    /// Loads all sign-ins of a person and of a session of the provider.
    pub(super) async fn load_by_subject(
        &self,
        subject: Option<&str>,
        session: Option<&str>,
    ) -> Result<(), StoreUnavailable> {
        // The index of an emptied Redis may not be restored yet.
        if !self.redis.epoch.is_complete().await? {
            return Err(StoreUnavailable);
        }
        let mut keys = Vec::new();
        if let Some(subject) = subject {
            keys.extend(self.redis.index.of_subject(subject).await?);
        }
        if let Some(session) = session {
            keys.extend(self.redis.index.of_provider_session(session).await?);
        }
        for key in keys {
            self.load_sign_in(key).await?;
        }
        Ok(())
    }

    /// Reads a sign-in again that another replica has changed.
    pub(super) async fn reload(&self, known: &SignIn) {
        let key = known.key();
        if let Ok(Some((record, remaining))) = self.redis.records.load_sign_in(key).await {
            self.apply(key, record, remaining);
        }
    }

    /// Applies a record of Redis to the sign-in in memory, or inserts it. `None` when it was
    /// revoked meanwhile.
    pub(super) fn apply(
        &self,
        key: RecordKey,
        record: ReplicatedSignIn,
        remaining: Remaining,
    ) -> Option<Arc<SignIn>> {
        let clock = self.store.clock();
        let now = clock.now();
        let age = u64::try_from(clock.wall_seconds().saturating_sub(record.confirmed_at))
            .unwrap_or(0)
            .saturating_mul(1000);
        let confirmed_at = Moment(now.0.saturating_sub(age));
        let is_fresh = now < confirmed_at.after(self.store.recheck());
        let version = record.version;
        let started_at = record.started_at;
        let (principal, tokens) = record.sign_in.into_parts();
        let update = SignInUpdate {
            version,
            principal: principal.clone(),
            refresh_token: tokens.refresh_token.load_full(),
            access_token: tokens.access_token.load_full(),
            confirmed_at,
            is_fresh,
        };
        let known = self
            .store
            .sign_in_by_key(&key)
            .filter(|sign_in| !sign_in.is_revoked());
        let sign_in = known.unwrap_or_else(|| {
            self.store.insert_loaded(RestoredSignIn {
                key,
                principal,
                tokens,
                remaining,
                confirmed_at,
                started_at,
                version,
                stored_version: version,
                requires_check: !is_fresh,
            })
        });
        // Of two tasks that load one record, one may have read it before it changed.
        if sign_in.apply_update(update) {
            self.store.policy_changes().notify();
        }
        sign_in.mark_stored(version);
        sign_in.deadlines().merge_stored(now, remaining.idle);
        // It may have been revoked while the read was under way.
        if self.redis.log.sign_in_revoked_at(&key) >= started_at {
            self.store.revoke_local(&sign_in);
            return None;
        }
        Some(sign_in)
    }
}
