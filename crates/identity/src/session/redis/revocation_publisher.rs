//! Publishes revocations: each is written to Redis and announced to the other replicas.

use std::{sync::Arc, time::Duration};

use redis::cmd;

use super::{
    announcement::Announcement,
    concurrency::run_bounded,
    names::{self, RecordKind},
    scripts::{GRACE, Scripts},
};
use crate::{
    model::{app::AppId, clock::millis},
    ops::redis::{Link, StoreError},
    session::{
        cookie::RecordKey,
        revocation_log::{PendingRevocation, RevocationLog},
    },
};

/// Revocations that are published at the same time.
const CONCURRENCY: usize = 64;

/// The revocations in Redis.
pub(crate) struct RevocationPublisher {
    link: Arc<Link>,
    scripts: Arc<Scripts>,
    log: Arc<RevocationLog>,
    /// How long a revocation is kept, in milliseconds.
    ttl: u64,
}

impl RevocationPublisher {
    pub(super) fn new(
        link: Arc<Link>,
        scripts: Arc<Scripts>,
        log: Arc<RevocationLog>,
        lifetime: Duration,
    ) -> RevocationPublisher {
        RevocationPublisher {
            link,
            scripts,
            log,
            ttl: millis(lifetime).saturating_add(GRACE),
        }
    }

    /// Publishes all revocations of the log. Those that fail stay in the log.
    ///
    /// Cancel safety: unpublished revocations stay in the log.
    pub(crate) async fn publish_all(&self) {
        if !self.link.is_up() {
            return;
        }
        let unpublished = self.log.unpublished();
        let tasks = unpublished
            .into_iter()
            .map(|(key, revocation)| self.publish(key, revocation));
        run_bounded(tasks, CONCURRENCY).await;
    }

    /// Publishes the revocation of one sign-in now.
    pub(crate) async fn publish_one(&self, key: RecordKey) {
        if let Some(revocation) = self.log.unpublished_of(&key) {
            self.publish(key, revocation).await;
        }
    }

    /// When all sessions of an app were last revoked, on any replica.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub(crate) async fn app_revoked_at(&self, app: &AppId) -> Result<i64, StoreError> {
        let known = self.log.app_revoked_at(app);
        let name = names::app_revocation(app);
        let stored: Option<i64> = self.link.command(cmd("GET").arg(name)).await?;
        Ok(stored.map_or(known, |stored| stored.max(known)))
    }

    async fn publish(&self, key: RecordKey, revocation: PendingRevocation) {
        let published = self.try_publish(key, &revocation).await;
        if !matches!(published, Err(StoreError::Unavailable)) {
            self.log.mark_published(&key, &revocation);
        }
    }

    async fn try_publish(
        &self,
        key: RecordKey,
        revocation: &PendingRevocation,
    ) -> Result<(), StoreError> {
        match revocation {
            PendingRevocation::App { app, when } => {
                let mut call = self.scripts.revoke_app.key(names::app_revocation(app));
                call.arg(when).arg(self.ttl);
                self.link.script::<i64>(&call).await?;
                let announcement = Announcement::AppRevoked(app.clone(), *when);
                self.link.publish(&announcement.to_string()).await
            }
            PendingRevocation::SignIn { when, is_repeated } => {
                let record = names::record(RecordKind::SignIn, key);
                let mut call = self.scripts.revoke.key(record);
                call.key(names::tombstone(key))
                    .arg(when)
                    .arg(self.ttl)
                    .arg(i32::from(*is_repeated));
                let when: i64 = self.link.script(&call).await?;
                self.log.record_sign_in(key, when);
                let announcement = Announcement::Revoked(key, when);
                self.link.publish(&announcement.to_string()).await
            }
            PendingRevocation::AppSession => {
                let name = names::record(RecordKind::AppSession, key);
                self.link
                    .command::<i64>(cmd("DEL").arg(name))
                    .await
                    .map(|_| ())
            }
        }
    }
}
