//! Redis, where replicas share sign-ins, app sessions, tickets and revocations
//! (docs/behaviour.md#sessions).
//!
//! This module reads and writes Redis; `replication` decides when. No session in memory is looked
//! up here. Every command touches one slot of a cluster.

pub(super) mod announcement;
mod completeness;
pub(super) mod concurrency;
pub(super) mod names;
pub(super) mod records;
mod refresh_lock;
mod revocation_publisher;
mod scripts;
mod sealer;
mod single_use;
mod subject_index;

use std::{sync::Arc, time::Duration};

use super::{
    keys::KeyRing, metrics::SessionMetrics, negative_cache::MissingIds,
    revocation_log::RevocationLog,
};
use crate::{
    model::clock::Clock,
    ops::redis::{Link, LinkPurpose, RedisSettings},
};
use completeness::StoreEpoch;
use records::{RecordParts, Records};
pub use refresh_lock::RefreshLock;
use refresh_lock::RefreshLocks;
use revocation_publisher::RevocationPublisher;
use scripts::Scripts;
use sealer::Sealer;
use single_use::SingleUse;
use subject_index::SubjectIndex;

/// The channel of announcements between replicas.
const CHANNEL: &str = "ludgate:events";

/// The Redis that replicas share, one part for each subject.
pub struct Redis {
    pub(super) link: Arc<Link>,
    pub(super) records: Records,
    pub(super) index: Arc<SubjectIndex>,
    pub(super) epoch: Arc<StoreEpoch>,
    pub(super) revocations: Arc<RevocationPublisher>,
    pub(super) refresh_locks: RefreshLocks,
    pub(super) single_use: Arc<SingleUse>,
    /// Known revocations: those by this replica, and those announced by others.
    pub(super) log: Arc<RevocationLog>,
    pub(super) missing: Arc<MissingIds>,
}

impl Redis {
    /// Not connected yet; [`Link::run`] connects.
    pub fn new(
        settings: RedisSettings,
        keys: Arc<KeyRing>,
        clock: Clock,
        metrics: Arc<SessionMetrics>,
        lifetime: Duration,
    ) -> Redis {
        let purpose = LinkPurpose {
            store: "session store",
            while_away: "sessions in memory stay valid",
            channel: CHANNEL.to_owned(),
        };
        let link = Arc::new(Link::new(settings, purpose, metrics.store.clone()));
        let scripts = Arc::new(Scripts::new());
        let sealer = Arc::new(Sealer::new(keys));
        let missing = Arc::new(MissingIds::new(clock.clone()));
        let log = Arc::new(RevocationLog::new(missing.clone(), clock.clone(), lifetime));
        let epoch = Arc::new(StoreEpoch::new(link.clone(), clock.clone()));
        let index = Arc::new(SubjectIndex::new(
            link.clone(),
            scripts.clone(),
            log.clone(),
            lifetime,
        ));
        let revocations = Arc::new(RevocationPublisher::new(
            link.clone(),
            scripts.clone(),
            log.clone(),
            lifetime,
        ));
        Redis {
            records: Records::new(RecordParts {
                link: link.clone(),
                scripts: scripts.clone(),
                sealer: sealer.clone(),
                epoch: epoch.clone(),
                index: index.clone(),
                revocations: revocations.clone(),
                log: log.clone(),
                missing: missing.clone(),
                clock,
                metrics,
                lifetime,
            }),
            index,
            epoch,
            revocations,
            refresh_locks: RefreshLocks::new(link.clone(), scripts),
            single_use: Arc::new(SingleUse::new(link.clone(), sealer)),
            log,
            missing,
            link,
        }
    }

    /// The connection, for what else replicas share in the same Redis.
    pub fn link(&self) -> &Arc<Link> {
        &self.link
    }
}

impl std::fmt::Debug for Redis {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Redis")
    }
}
