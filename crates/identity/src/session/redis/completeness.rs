//! Whether Redis is complete, so that an absent record can be taken for missing.
//!
//! After Redis lost its data, the replicas store the sessions in their memory again. Until that is
//! done, an absent record may still be restored, so its client gets 503 and is not sent to sign in.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicBool, Ordering::Relaxed},
};

use redis::cmd;
use tokio::sync::Notify;

use super::{
    announcement::Announcement,
    names::{EPOCH, RESTORING},
};
use crate::{
    model::clock::{Clock, Moment},
    ops::redis::{Link, StoreError},
};

/// Redis may be incomplete for so long after its data began, in milliseconds.
const SETTLING_TIME: u64 = 5_000;
/// How long the mark of a restoring replica lasts, in milliseconds; it is renewed meanwhile.
const RESTORING_FOR: u64 = 5_000;

/// The beginning of the data in Redis, and of the connection to it.
pub(crate) struct StoreEpoch {
    link: Arc<Link>,
    clock: Clock,
    connected_at: Mutex<Moment>,
    has_connected: AtomicBool,
    /// The connection was lost and is back: Redis must be marked as incomplete for all replicas.
    must_mark: AtomicBool,
    /// The epoch that was found to be complete.
    complete: Mutex<Option<i64>>,
    resync: Notify,
}

impl StoreEpoch {
    pub(super) fn new(link: Arc<Link>, clock: Clock) -> StoreEpoch {
        StoreEpoch {
            link,
            connected_at: Mutex::new(clock.now()),
            clock,
            has_connected: AtomicBool::new(false),
            must_mark: AtomicBool::new(false),
            complete: Mutex::default(),
            resync: Notify::new(),
        }
    }

    /// Records a new connection. Announcements were missed before it, and Redis may have lost data.
    pub(crate) fn on_connected(&self) {
        let now = self.clock.now();
        *self
            .connected_at
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = now;
        if self.has_connected.swap(true, Relaxed) {
            self.set_complete(None);
            self.must_mark.store(true, Relaxed);
        }
        self.request_resync();
    }

    /// Whether the connection is so new that other replicas may still be storing their sessions.
    pub(crate) fn is_connection_new(&self) -> bool {
        let connected_at = *self
            .connected_at
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        self.clock.now().0 < connected_at.0.saturating_add(SETTLING_TIME)
    }

    /// Requests that all sessions in memory are stored again.
    pub(crate) fn request_resync(&self) {
        self.resync.notify_one();
    }

    /// Waits for such a request.
    pub(crate) async fn resync_requested(&self) {
        self.resync.notified().await;
    }

    /// Marks Redis as incomplete for a while: this replica is storing its sessions again.
    pub(crate) async fn mark_restoring(&self) -> Result<(), StoreError> {
        let mut mark = cmd("SET");
        mark.arg(RESTORING).arg(1).arg("PX").arg(RESTORING_FOR);
        self.link.command::<()>(&mark).await
    }

    /// Whether Redis is complete: its data is old enough, and no replica is restoring.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub(crate) async fn is_complete(&self) -> Result<bool, StoreError> {
        // During the outage replicas may have started sign-ins that Redis does not have, and Redis
        // may have lost its data.
        if self.must_mark.load(Relaxed) {
            self.mark_restoring().await?;
            self.must_mark.store(false, Relaxed);
        }
        let epoch: Option<i64> = self.link.command(cmd("GET").arg(EPOCH)).await?;
        let known = *self.complete.lock().unwrap_or_else(PoisonError::into_inner);
        if epoch.is_some() && epoch == known {
            return Ok(true);
        }
        let now = self.time_of_redis().await?;
        let Some(epoch) = epoch else {
            self.begin_epoch(now).await?;
            return Ok(false);
        };
        if known.is_some() {
            // Another replica found Redis empty.
            self.set_complete(None);
            self.request_resync();
        }
        let is_old = now.saturating_sub(epoch) >= i64::try_from(SETTLING_TIME).unwrap_or(i64::MAX);
        let is_complete = is_old && !self.is_restoring().await?;
        if is_complete {
            self.set_complete(Some(epoch));
        }
        Ok(is_complete)
    }

    /// Redis is empty. The first replica to notice writes the epoch and announces the loss.
    async fn begin_epoch(&self, now: i64) -> Result<(), StoreError> {
        let first: Option<String> = self
            .link
            .command(cmd("SET").arg(EPOCH).arg(now).arg("NX"))
            .await?;
        self.request_resync();
        if first.is_some() {
            tracing::info!("the session store is empty; sessions in memory are stored again");
            self.link
                .publish(&Announcement::Emptied.to_string())
                .await?;
        }
        Ok(())
    }

    /// In milliseconds since 1970.
    async fn time_of_redis(&self) -> Result<i64, StoreError> {
        let (seconds, micros): (i64, i64) = self.link.command(&cmd("TIME")).await?;
        Ok(seconds.saturating_mul(1000).saturating_add(micros / 1000))
    }

    async fn is_restoring(&self) -> Result<bool, StoreError> {
        let mark: Option<i64> = self.link.command(cmd("GET").arg(RESTORING)).await?;
        Ok(mark.is_some())
    }

    fn set_complete(&self, epoch: Option<i64>) {
        *self.complete.lock().unwrap_or_else(PoisonError::into_inner) = epoch;
    }
}
