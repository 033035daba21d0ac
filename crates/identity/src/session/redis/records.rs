//! Sign-ins and app sessions in Redis.
//!
//! Records are sealed. The sealed text contains the key of the record, so a record is not valid
//! under another key: with write access to Redis one can revoke sessions, but not forge one.

use std::{sync::Arc, time::Duration};

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use tokio::sync::Semaphore;

use super::{
    completeness::StoreEpoch,
    names::{self, RecordKind},
    revocation_publisher::RevocationPublisher,
    scripts::{GRACE, MISSING, REVOKED, Scripts},
    sealer::Sealer,
    subject_index::SubjectIndex,
};
use crate::{
    model::clock::Clock,
    ops::redis::{Link, StoreError},
    session::{
        cookie::RecordKey,
        metrics::SessionMetrics,
        negative_cache::MissingIds,
        record::{AppSession, SignIn},
        remaining::Remaining,
        revocation_log::RevocationLog,
        stored::{StoredAppSession, StoredSignIn},
    },
};

/// Look-ups in flight, so that made-up cookies do not keep other clients from Redis.
const MAX_LOOKUPS: usize = 256;

/// A sign-in as Redis stores it. Times are wall clock seconds.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ReplicatedSignIn {
    pub(crate) sign_in: StoredSignIn,
    pub(crate) version: u64,
    #[serde(rename = "begun")]
    pub(crate) started_at: i64,
    #[serde(rename = "ends")]
    pub(crate) absolute_deadline: i64,
    #[serde(rename = "proved")]
    pub(crate) confirmed_at: i64,
}

/// An app session as Redis stores it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ReplicatedAppSession {
    pub(crate) app: StoredAppSession,
    sign_in: [u8; 32],
    #[serde(rename = "begun")]
    pub(crate) started_at: i64,
}

impl ReplicatedAppSession {
    /// The key of its sign-in.
    pub(crate) fn sign_in(&self) -> RecordKey {
        RecordKey(self.sign_in)
    }
}

/// The state of a record in Redis after a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StoredState {
    Live {
        /// Milliseconds until it expires without use.
        idle: u64,
        /// 0 for an app session.
        version: u64,
    },
    Missing,
    Revoked,
}

/// A sign-in was written.
pub(crate) struct SavedSignIn {
    pub(crate) state: StoredState,
    /// Sign-ins of the same person that were revoked to make room.
    pub(crate) revoked: Vec<RecordKey>,
}

/// A record that was read.
struct Loaded<T> {
    record: T,
    /// Milliseconds until it expires without use; 0: it has expired.
    idle: u64,
    /// When a record with its key was revoked, by the wall clock; negative: never.
    revoked_at: i64,
}

/// The parameters of a write.
struct NewRecord<'r, T> {
    kind: RecordKind,
    key: RecordKey,
    version: u64,
    record: &'r T,
    remaining: Remaining,
    started_at: i64,
}

/// The parts that records need.
pub(super) struct RecordParts {
    pub(super) link: Arc<Link>,
    pub(super) scripts: Arc<Scripts>,
    pub(super) sealer: Arc<Sealer>,
    pub(super) epoch: Arc<StoreEpoch>,
    pub(super) index: Arc<SubjectIndex>,
    pub(super) revocations: Arc<RevocationPublisher>,
    pub(super) log: Arc<RevocationLog>,
    pub(super) missing: Arc<MissingIds>,
    pub(super) clock: Clock,
    pub(super) metrics: Arc<SessionMetrics>,
    pub(super) lifetime: Duration,
}

/// The records in Redis.
pub(crate) struct Records {
    parts: RecordParts,
    lookups: Semaphore,
}

impl Records {
    pub(super) fn new(parts: RecordParts) -> Records {
        Records {
            parts,
            lookups: Semaphore::new(MAX_LOOKUPS),
        }
    }

    /// Writes a sign-in, unless Redis has a newer version, and indexes a new one.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub(crate) async fn save_sign_in(&self, sign_in: &SignIn) -> Result<SavedSignIn, StoreError> {
        let now = self.parts.clock.now();
        let wall = self.parts.clock.wall_seconds();
        let version = sign_in.version();
        let Some(stored) = StoredSignIn::from_sign_in(sign_in) else {
            return Ok(SavedSignIn {
                state: StoredState::Missing,
                revoked: Vec::new(),
            });
        };
        let remaining = sign_in.remaining(now);
        let since_confirmation = now.0.saturating_sub(sign_in.check().confirmed_at().0);
        let record = ReplicatedSignIn {
            sign_in: stored,
            version,
            started_at: sign_in.started_at(),
            absolute_deadline: wall.saturating_add(seconds(remaining.absolute)),
            confirmed_at: wall.saturating_sub(seconds(since_confirmation)),
        };
        let is_new = !sign_in.deadlines().is_stored();
        let state = self
            .save(NewRecord {
                kind: RecordKind::SignIn,
                key: sign_in.key(),
                version,
                record: &record,
                remaining,
                started_at: sign_in.started_at(),
            })
            .await?;
        if let StoredState::Live {
            idle,
            version: stored,
        } = state
        {
            // A newer version in Redis was not replaced; then ours is not stored.
            if stored == version {
                sign_in.mark_stored(version);
            }
            sign_in.deadlines().merge_stored(now, idle);
        }
        let revoked = if is_new {
            self.parts.index.insert(sign_in).await?
        } else {
            Vec::new()
        };
        Ok(SavedSignIn { state, revoked })
    }

    /// Writes an app session.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub(crate) async fn save_app_session(
        &self,
        session: &AppSession,
    ) -> Result<StoredState, StoreError> {
        let now = self.parts.clock.now();
        let started_at = session.started_at();
        let record = ReplicatedAppSession {
            app: StoredAppSession::from_session(session),
            sign_in: session.sign_in().key().0,
            started_at,
        };
        let state = self
            .save(NewRecord {
                kind: RecordKind::AppSession,
                key: session.key(),
                version: 1,
                record: &record,
                remaining: session.remaining(now),
                started_at,
            })
            .await?;
        if let StoredState::Live { idle, .. } = state {
            session.deadlines().merge_stored(now, idle);
        }
        Ok(state)
    }

    async fn save(&self, new: NewRecord<'_, impl Serialize>) -> Result<StoredState, StoreError> {
        let sealed = self.parts.sealer.seal(new.record)?;
        let name = names::record(new.kind, new.key);
        let mut call = self.parts.scripts.save.key(name);
        call.key(names::tombstone(new.key))
            .arg(new.version)
            .arg(sealed)
            .arg(ttl(new.remaining))
            .arg(new.started_at);
        let (left, version): (i64, u64) = self.parts.link.script(&call).await?;
        Ok(stored_state(left, version))
    }

    /// Reads a sign-in and the time it has left; `None` when there is no live one.
    ///
    /// # Errors
    /// See [`StoreError`]. [`StoreError::Unavailable`] also while Redis may be incomplete.
    pub(crate) async fn load_sign_in(
        &self,
        key: RecordKey,
    ) -> Result<Option<(ReplicatedSignIn, Remaining)>, StoreError> {
        let loaded = self
            .load::<ReplicatedSignIn>(RecordKind::SignIn, key)
            .await?;
        let Some(Loaded {
            record,
            idle,
            revoked_at,
        }) = loaded
        else {
            return Ok(None);
        };
        let revoked_at = revoked_at.max(self.parts.log.sign_in_revoked_at(&key));
        let wall = self.parts.clock.wall_seconds();
        let absolute = u64::try_from(record.absolute_deadline.saturating_sub(wall))
            .unwrap_or(0)
            .min(self.parts.lifetime.as_secs())
            * 1000;
        let is_live = record.sign_in.key() == key
            && record.started_at > revoked_at
            && idle > 0
            && absolute > 0;
        Ok(is_live.then_some((record, Remaining { idle, absolute })))
    }

    /// Reads an app session and the milliseconds until it expires without use.
    ///
    /// # Errors
    /// As [`Records::load_sign_in`].
    pub(crate) async fn load_app_session(
        &self,
        key: RecordKey,
    ) -> Result<Option<(ReplicatedAppSession, u64)>, StoreError> {
        let kind = RecordKind::AppSession;
        let Some(loaded) = self.load::<ReplicatedAppSession>(kind, key).await? else {
            return Ok(None);
        };
        let record = loaded.record;
        let Some((app, _)) = record.app.app_and_vhost() else {
            return Ok(None);
        };
        let revoked_at = self.parts.revocations.app_revoked_at(&app).await?;
        let is_live = record.app.key() == key && loaded.idle > 0 && record.started_at > revoked_at;
        Ok(is_live.then_some((record, loaded.idle)))
    }

    /// Whether each of these records exists: one command for each and one round trip for all, so
    /// that made-up cookies do not cost Redis more than the client that sends them. Missing ones
    /// are remembered for a while.
    ///
    /// # Errors
    /// See [`StoreError`]. [`StoreError::Unavailable`] also while Redis may be incomplete.
    pub(crate) async fn exist(
        &self,
        wanted: &[(RecordKind, RecordKey)],
    ) -> Result<Vec<bool>, StoreError> {
        let now = self.parts.clock.now();
        let Ok(_lookup) = self.lookups.try_acquire() else {
            return Err(StoreError::Unavailable);
        };
        let mut commands = redis::pipe();
        for (kind, key) in wanted {
            // A tombstone counts too: the record was revoked, so it is not missing.
            commands
                .cmd("EXISTS")
                .arg(names::record(*kind, *key))
                .arg(names::tombstone(*key));
        }
        let found: Vec<u64> = self.parts.link.pipeline(&commands).await?;
        if found.contains(&0) && !self.parts.epoch.is_complete().await? {
            return Err(StoreError::Unavailable);
        }
        for ((_, key), _) in wanted.iter().zip(&found).filter(|(_, count)| **count == 0) {
            self.parts.missing.insert(*key, now);
        }
        Ok(found.into_iter().map(|count| count > 0).collect())
    }

    async fn load<T: DeserializeOwned>(
        &self,
        kind: RecordKind,
        key: RecordKey,
    ) -> Result<Option<Loaded<T>>, StoreError> {
        let now = self.parts.clock.now();
        if self.parts.missing.contains(&key) {
            return Ok(None);
        }
        let Ok(_lookup) = self.lookups.try_acquire() else {
            return Err(StoreError::Unavailable);
        };
        let mut call = self.parts.scripts.load.key(names::record(kind, key));
        call.key(names::tombstone(key));
        let reply: Result<(Option<String>, i64, i64), StoreError> =
            self.parts.link.script(&call).await;
        let (sealed, left, revoked_at) = match reply {
            // Treated as missing; the link has counted it.
            Err(StoreError::WrongType) => return Ok(None),
            reply => reply?,
        };
        let Some(sealed) = sealed else {
            if revoked_at < 0 && !self.parts.epoch.is_complete().await? {
                return Err(StoreError::Unavailable);
            }
            self.parts.missing.insert(key, now);
            return Ok(None);
        };
        let Some(record) = self.parts.sealer.open(&sealed) else {
            self.parts.metrics.store.count("foreign");
            tracing::warn!(
                session = key.short(),
                "cannot decrypt a record in the session store"
            );
            return Ok(None);
        };
        Ok(Some(Loaded {
            record,
            idle: u64::try_from(left).unwrap_or(0).saturating_sub(GRACE),
            revoked_at,
        }))
    }

    /// Writes use on this replica to Redis, and returns the state that includes use on others.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub(crate) async fn touch(
        &self,
        kind: RecordKind,
        key: RecordKey,
        remaining: Remaining,
    ) -> Result<StoredState, StoreError> {
        let mut call = self.parts.scripts.touch.key(names::record(kind, key));
        call.key(names::tombstone(key)).arg(ttl(remaining));
        let (left, version): (i64, u64) = self.parts.link.script(&call).await?;
        Ok(stored_state(left, version))
    }
}

fn ttl(remaining: Remaining) -> u64 {
    remaining.idle.min(remaining.absolute).saturating_add(GRACE)
}

fn stored_state(left: i64, version: u64) -> StoredState {
    match left {
        REVOKED => StoredState::Revoked,
        MISSING => StoredState::Missing,
        left => StoredState::Live {
            idle: u64::try_from(left).unwrap_or(0).saturating_sub(GRACE),
            version,
        },
    }
}

fn seconds(millis: u64) -> i64 {
    i64::try_from(millis / 1000).unwrap_or(i64::MAX)
}
