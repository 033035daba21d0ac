//! Background writes to Redis: use, at most once a minute and at least once before a session would
//! expire; sessions that Redis lost; and revocations that could not be published at once.

use std::{sync::Arc, time::Duration};

use tokio::time::Instant;

use super::{provider_logout::ProviderLogout, writer::SessionWriter};
use crate::{
    model::clock::millis,
    session::{
        record::{AppSession, SignIn},
        redis::{Redis, concurrency::run_bounded},
        store::SessionStore,
    },
};

/// Pause before failed writes are repeated while there is a connection.
const RETRY_PAUSE: Duration = Duration::from_secs(1);
/// Use is written at most this often.
const WRITE_INTERVAL: Duration = Duration::from_secs(60);
/// Records that are written at the same time.
const CONCURRENCY: usize = 64;
/// Records between two yields.
const BATCH: usize = 512;

/// The records to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WriteScope {
    /// Those whose exchange is due.
    Due,
    /// All records: Redis may have lost some.
    All,
    /// Those with changes or use that Redis does not have.
    Unsaved,
}

/// The background writer.
pub(crate) struct WriteBehind {
    store: Arc<SessionStore>,
    redis: Arc<Redis>,
    writer: Arc<SessionWriter>,
    logout: Arc<ProviderLogout>,
}

impl WriteBehind {
    pub(super) fn new(
        store: Arc<SessionStore>,
        redis: Arc<Redis>,
        writer: Arc<SessionWriter>,
        logout: Arc<ProviderLogout>,
    ) -> WriteBehind {
        WriteBehind {
            store,
            redis,
            writer,
            logout,
        }
    }

    /// Publishes revocations at once, and repeats those that failed. Never returns.
    pub(super) async fn run_revocations(&self) {
        let interval = self.write_interval() / 4;
        let log = &self.redis.log;
        loop {
            tokio::select! {
                () = log.wait_for_pending() => {}
                () = self.store.clock().sleep(interval) => {}
                () = tokio::time::sleep(RETRY_PAUSE),
                    if self.redis.link.is_up() && log.has_pending() => {}
            }
            // A new connection publishes pending revocations anyway. Without a connection every
            // attempt would fail at once, and this loop would spin.
            if self.redis.link.is_up() {
                self.redis.revocations.publish_all().await;
                self.logout.retry_deferred().await;
            }
        }
    }

    /// Writes use, and all records when Redis may have lost some. Never returns.
    pub(super) async fn run_records(&self) {
        let interval = self.write_interval() / 4;
        let clock = self.store.clock();
        let mut next = clock.now().after(interval);
        // The pause grows with each failure: some records may never be writable.
        let mut retry: Option<(Duration, Instant)> = None;
        loop {
            let scope = tokio::select! {
                () = self.redis.epoch.resync_requested() => WriteScope::All,
                () = clock.sleep_until(next) => WriteScope::Due,
                () = sleep_until(retry.map(|(_, when)| when)) => WriteScope::All,
            };
            // Checked every time: Redis may have been emptied without a lost connection.
            let _ = self.redis.epoch.is_complete().await;
            if scope == WriteScope::All {
                self.redis.log.requeue_all();
                // Announcements were missed while there was no connection.
                self.logout.apply_missed_app_revocations().await;
            }
            let is_written = self.write(scope).await;
            if scope == WriteScope::All {
                let pause = retry.map_or(RETRY_PAUSE, |(pause, _)| (2 * pause).min(WRITE_INTERVAL));
                retry = (!is_written).then(|| (pause, Instant::now() + pause));
            }
            if clock.now() >= next {
                next = clock.now().after(interval);
            }
        }
    }

    /// Writes the records once. Returns whether all writes succeeded.
    pub(super) async fn write(&self, scope: WriteScope) -> bool {
        if !self.redis.link.is_up() {
            return false;
        }
        let mut is_written = true;
        for batch in self.sign_ins_to_write(scope).await.chunks(BATCH) {
            self.mark_restoring(scope).await;
            let writes = batch
                .iter()
                .cloned()
                .map(|sign_in| self.writer.sync_sign_in(sign_in));
            let results = run_bounded(writes, CONCURRENCY).await;
            is_written &= results.into_iter().all(|written| written);
        }
        for batch in self.app_sessions_to_write(scope).await.chunks(BATCH) {
            self.mark_restoring(scope).await;
            let writes = batch
                .iter()
                .cloned()
                .map(|session| self.writer.sync_app_session(session));
            let results = run_bounded(writes, CONCURRENCY).await;
            is_written &= results.into_iter().all(|written| written);
        }
        is_written
    }

    async fn sign_ins_to_write(&self, scope: WriteScope) -> Vec<Arc<SignIn>> {
        let now = self.store.clock().now();
        let interval = millis(self.write_interval());
        let mut selected = Vec::new();
        for (seen, sign_in) in self.store.sign_ins().enumerate() {
            let deadlines = sign_in.deadlines();
            let is_selected = match scope {
                WriteScope::Due => !sign_in.is_stored() || deadlines.is_exchange_due(now, interval),
                WriteScope::All => true,
                WriteScope::Unsaved => !sign_in.is_stored() || deadlines.is_ahead_of_store(),
            };
            // Sign-ins of console tokens are not stored.
            if is_selected && sign_in.is_live(now) && sign_in.tokens.console.is_none() {
                selected.push(sign_in);
            }
            if seen % BATCH == 0 {
                tokio::task::yield_now().await;
            }
        }
        selected
    }

    async fn app_sessions_to_write(&self, scope: WriteScope) -> Vec<Arc<AppSession>> {
        let now = self.store.clock().now();
        let interval = millis(self.write_interval());
        let mut selected = Vec::new();
        for (seen, session) in self.store.app_sessions().enumerate() {
            let deadlines = session.deadlines();
            let is_selected = match scope {
                WriteScope::Due => deadlines.is_exchange_due(now, interval),
                WriteScope::All => true,
                WriteScope::Unsaved => deadlines.is_ahead_of_store(),
            };
            let has_stored_sign_in = session.sign_in().tokens.console.is_none();
            if is_selected && session.is_live(now) && has_stored_sign_in {
                selected.push(session);
            }
            if seen % BATCH == 0 {
                tokio::task::yield_now().await;
            }
        }
        selected
    }

    /// While an emptied Redis is restored, no replica may take an absent record for missing.
    async fn mark_restoring(&self, scope: WriteScope) {
        if scope == WriteScope::All && matches!(self.redis.epoch.is_complete().await, Ok(false)) {
            let _ = self.redis.epoch.mark_restoring().await;
        }
    }

    fn write_interval(&self) -> Duration {
        WRITE_INTERVAL.min(self.store.idle() / 10)
    }
}

async fn sleep_until(when: Option<Instant>) {
    match when {
        Some(when) => tokio::time::sleep_until(when).await,
        None => std::future::pending().await,
    }
}
