//! Redis, where replicas keep what they all must know: sign-ins, app sessions, tickets, and what
//! was ended (behaviour row 29).
//!
//! What is kept is sealed; its key is in the sealed text too, so that no record can stand in for
//! another. Who may write to Redis can sign people out, and nobody in. How a record is used is told
//! here by `shared`, in memory nothing is looked up here. Every command touches one slot of a
//! cluster.

mod announcement;
pub mod endings;
pub mod link;
pub mod people;
mod scripts;

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use futures_util::future::join_all;
use moka::{policy::EvictionPolicy, sync::Cache};
use redis::cmd;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use tokio::sync::{Notify, Semaphore};

use super::{
    cookie::RecordKey,
    keys::{KeyRing, Purpose},
    metrics::SessionMetrics,
    record::{AppSession, SignIn},
    written::{Remaining, StoredAppSession, StoredSignIn},
};
use crate::model::{
    app::AppId,
    clock::{Clock, Moment, millis},
    lookup_limit::{LookupLimit, Quota},
};
pub use announcement::Announcement;
use link::{CHANNEL, Link, StoreError};
use scripts::{ENDED, GRACE, MISSING, Scripts};

/// A store that began, or was emptied, so lately may not have been told all yet, in milliseconds.
const SETTLES: u64 = 5_000;
/// When the store began, by its own clock.
const EPOCH: &str = "ludgate:epoch";
/// Somebody tells an emptied store what it lost; said again while that goes on.
const TELLING: &str = "ludgate:telling";
/// For so long at least, in milliseconds.
const TELLING_FOR: u64 = 5_000;
/// Look-ups that are under way at once at most.
const MAX_LOOKUPS: usize = 256;
/// A record that is not there is not asked for again for so long, in milliseconds.
const ABSENT_FOR: u64 = 5_000;
/// Ids of one client that no record is stored for. A browser that comes back after its sessions are
/// over presents a few, and there may be many behind one address; one that makes them up presents
/// thousands.
const UNKNOWN: Quota = Quota {
    burst: 256,
    refill: 30,
    at_once: 256,
};
/// Such records that are remembered.
const MAX_ABSENT: u64 = 100_000;

/// The store that replicas share.
pub struct Redis {
    link: Link,
    scripts: Scripts,
    keys: Arc<KeyRing>,
    clock: Clock,
    metrics: Arc<SessionMetrics>,
    lifetime: u64,
    endings: endings::RevocationLog,
    absent: Cache<RecordKey, Moment>,
    limit: LookupLimit,
    /// Look-ups that are under way.
    lookups: Semaphore,
    /// When the connection began that there is.
    since: Mutex<Moment>,
    has_connected: AtomicBool,
    /// The connection is back: the others are to be told that the store may not know everything
    /// yet.
    is_back: AtomicBool,
    /// The epoch that is old enough to be believed.
    epoch: Mutex<Option<i64>>,
    /// All that is in memory is to be told again.
    retell: Notify,
}

/// A sign-in as it is kept.
#[derive(Debug, Serialize, Deserialize)]
pub struct ReplicatedSignIn {
    /// The record.
    pub sign_in: StoredSignIn,
    /// Its version.
    pub version: u64,
    /// When it began, by the wall clock in seconds.
    pub begun: i64,
    /// When it is over whatever happens, likewise.
    pub ends: i64,
    /// When the person was last proved, likewise.
    pub proved: i64,
}

/// An app session as it is kept.
#[derive(Debug, Serialize, Deserialize)]
pub struct ReplicatedAppSession {
    /// The record.
    pub app: StoredAppSession,
    /// The sign-in it stands on.
    sign_in: [u8; 32],
    /// When it began, by the wall clock in seconds.
    pub begun: i64,
}

impl ReplicatedAppSession {
    /// The sign-in it stands on.
    pub fn sign_in(&self) -> RecordKey {
        RecordKey(self.sign_in)
    }
}

/// What the store says of a record that it was told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoredState {
    /// So many milliseconds are left without use, and this is its version there (0 for an app
    /// session).
    Live(u64, u64),
    /// It is not there.
    Missing,
    /// It was ended.
    Ended,
}

/// Two kinds of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordKind {
    /// Sign-ins.
    SignIn,
    /// App sessions.
    AppSession,
}

impl Redis {
    /// Not connected yet; see [`Redis::link`].
    pub fn new(
        settings: link::RedisSettings,
        keys: Arc<KeyRing>,
        clock: Clock,
        metrics: Arc<SessionMetrics>,
        lifetime: Duration,
    ) -> Redis {
        let since = Mutex::new(clock.now());
        Redis {
            link: Link::new(settings, metrics.clone()),
            scripts: Scripts::new(),
            keys,
            metrics,
            lifetime: millis(lifetime),
            endings: endings::RevocationLog::new(),
            absent: Cache::builder()
                .max_capacity(MAX_ABSENT)
                .eviction_policy(EvictionPolicy::lru())
                .build(),
            limit: LookupLimit::new(UNKNOWN, clock.clone()),
            clock,
            lookups: Semaphore::new(MAX_LOOKUPS),
            since,
            has_connected: AtomicBool::new(false),
            is_back: AtomicBool::new(false),
            epoch: Mutex::default(),
            retell: Notify::new(),
        }
    }

    /// The connection, to be kept up.
    pub fn link(&self) -> &Link {
        &self.link
    }

    /// Writes a sign-in, unless a newer version of it is there. Gives back, too, whose time is over
    /// for it: one person has so many and no more.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn save_sign_in(
        &self,
        sign_in: &SignIn,
    ) -> Result<(StoredState, Vec<RecordKey>), StoreError> {
        let (now, wall, version) = (
            self.clock.now(),
            self.clock.wall_seconds(),
            sign_in.version(),
        );
        let Some(written) = StoredSignIn::of(sign_in) else {
            return Ok((StoredState::Missing, Vec::new()));
        };
        let left = sign_in.time_left(now);
        let stored = ReplicatedSignIn {
            sign_in: written,
            version,
            begun: sign_in.begun(),
            ends: wall.saturating_add(seconds(left.absolute)),
            proved: wall.saturating_sub(seconds(now.0.saturating_sub(sign_in.proved().0))),
        };
        let is_new = !sign_in.window().is_told();
        let told = self
            .save(
                RecordKind::SignIn,
                sign_in.key(),
                version,
                &stored,
                (left, sign_in.begun()),
            )
            .await?;
        if let StoredState::Live(idle, stored) = told {
            // Of a newer one that stands there nothing was replaced, and what we have is not told.
            if stored == version {
                sign_in.told(version);
            }
            sign_in.window().extend(now, idle);
        }
        let over = if is_new {
            self.index(sign_in).await?
        } else {
            Vec::new()
        };
        Ok((told, over))
    }

    /// Writes an app session.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn save_app(&self, session: &AppSession) -> Result<StoredState, StoreError> {
        let (now, begun) = (self.clock.now(), session.begun());
        let stored = ReplicatedAppSession {
            app: StoredAppSession::of(session),
            sign_in: session.sign_in().key().0,
            begun,
        };
        let told = self
            .save(
                RecordKind::AppSession,
                session.key(),
                1,
                &stored,
                (session.time_left(now), begun),
            )
            .await?;
        if let StoredState::Live(idle, _) = told {
            session.window().extend(now, idle);
        }
        Ok(told)
    }

    async fn save(
        &self,
        table: RecordKind,
        key: RecordKey,
        version: u64,
        record: &impl Serialize,
        (left, begun): (Remaining, i64),
    ) -> Result<StoredState, StoreError> {
        let sealed = self.sealed(record)?;
        let (record, tombstone) = names(table, key);
        let mut call = self.scripts.save.key(record);
        call.key(tombstone)
            .arg(version)
            .arg(sealed)
            .arg(to_live(left))
            .arg(begun);
        let (left, stored): (i64, u64) = self.link.script(&call).await?;
        Ok(told(left, stored))
    }

    /// Reads a sign-in, and what is left of it; `None` when there is none that counts.
    ///
    /// # Errors
    /// See [`StoreError`]. [`StoreError::Unavailable`] also while it cannot be said yet that there is
    /// none.
    pub async fn load_sign_in(
        &self,
        key: RecordKey,
    ) -> Result<Option<(ReplicatedSignIn, Remaining)>, StoreError> {
        let Some((stored, idle, ended)) = self
            .load::<ReplicatedSignIn>(RecordKind::SignIn, key)
            .await?
        else {
            return Ok(None);
        };
        let ended = ended.max(self.ended(&key));
        let absolute = stored.ends.saturating_sub(self.clock.wall_seconds());
        let absolute = u64::try_from(absolute)
            .unwrap_or(0)
            .min(self.lifetime / 1000)
            * 1000;
        let counts =
            stored.sign_in.key() == key && stored.begun > ended && idle > 0 && absolute > 0;
        Ok(counts.then_some((stored, Remaining { idle, absolute })))
    }

    /// Reads an app session, and how many milliseconds are left of it without use.
    ///
    /// # Errors
    /// As [`Redis::load_sign_in`].
    pub async fn load_app(
        &self,
        key: RecordKey,
    ) -> Result<Option<(ReplicatedAppSession, u64)>, StoreError> {
        let Some((stored, idle, _)) = self
            .load::<ReplicatedAppSession>(RecordKind::AppSession, key)
            .await?
        else {
            return Ok(None);
        };
        let Some((app, _)) = stored.app.read() else {
            return Ok(None);
        };
        let ended = self.app_ended(&app).await?;
        let counts = stored.app.key() == key && idle > 0 && stored.begun > ended;
        Ok(counts.then_some((stored, idle)))
    }

    /// WriteScope of these records are stored: one command for each and one round trip for all, since
    /// made-up cookies must not cost the store more than the client that sends them. Those that are
    /// missing are remembered for a while.
    ///
    /// # Errors
    /// See [`StoreError`]. [`StoreError::Unavailable`] also while it cannot be said yet that one is
    /// missing.
    pub async fn are_stored(
        &self,
        wanted: &[(RecordKind, RecordKey)],
    ) -> Result<Vec<bool>, StoreError> {
        let now = self.clock.now();
        let Ok(_lookup) = self.lookups.try_acquire() else {
            return Err(StoreError::Unavailable);
        };
        let mut commands = redis::pipe();
        for (table, key) in wanted {
            // A tombstone counts too: it says for certain that there is nothing more to find.
            let (record, tombstone) = names(*table, *key);
            commands.cmd("EXISTS").arg(record).arg(tombstone);
        }
        let found: Vec<u64> = self.link.pipeline(&commands).await?;
        if found.contains(&0) && !self.is_settled().await? {
            return Err(StoreError::Unavailable);
        }
        for ((_, key), _) in wanted.iter().zip(&found).filter(|(_, count)| **count == 0) {
            self.absent.insert(*key, now);
        }
        Ok(found.into_iter().map(|count| count > 0).collect())
    }

    /// Whether a record was missing a moment ago.
    pub fn is_known_missing(&self, key: &RecordKey) -> bool {
        let now = self.clock.now();
        self.absent
            .get(key)
            .is_some_and(|asked| now.0 < asked.0.saturating_add(ABSENT_FOR))
    }

    /// How many unknown ids each client may present.
    pub fn limit(&self) -> &LookupLimit {
        &self.limit
    }

    /// What stands at a key, how long it counts without use (0: no longer), and when it was ended.
    async fn load<T: DeserializeOwned>(
        &self,
        table: RecordKind,
        key: RecordKey,
    ) -> Result<Option<(T, u64, i64)>, StoreError> {
        let now = self.clock.now();
        if self.is_known_missing(&key) {
            return Ok(None);
        }
        // Whoever sends made-up cookies does not keep the others from the store.
        let Ok(_lookup) = self.lookups.try_acquire() else {
            return Err(StoreError::Unavailable);
        };
        let (record, tombstone) = names(table, key);
        let mut call = self.scripts.load.key(record);
        call.key(tombstone);
        let loaded: Result<(Option<String>, i64, i64), StoreError> = self.link.script(&call).await;
        let (sealed, ttl, ended) = match loaded {
            // As good as absent, and counted.
            Err(StoreError::WrongType) => return Ok(None),
            loaded => loaded?,
        };
        let Some(sealed) = sealed else {
            if ended < 0 && !self.is_settled().await? {
                return Err(StoreError::Unavailable);
            }
            self.absent.insert(key, now);
            return Ok(None);
        };
        let opened = self.keys.open(Purpose::Sessions, &sealed).ok();
        let Some(record) = opened.and_then(|plain| serde_json::from_slice(&plain).ok()) else {
            self.metrics.store("foreign");
            tracing::warn!(
                session = key.short(),
                "cannot decrypt a record in the session store"
            );
            return Ok(None);
        };
        Ok(Some((
            record,
            u64::try_from(ttl).unwrap_or(0).saturating_sub(GRACE),
            ended,
        )))
    }

    /// Tells of use here, and learns of use elsewhere.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn touch(
        &self,
        table: RecordKind,
        key: RecordKey,
        left: Remaining,
    ) -> Result<StoredState, StoreError> {
        let (record, tombstone) = names(table, key);
        let mut call = self.scripts.touch.key(record);
        call.key(tombstone).arg(to_live(left));
        let (left, version): (i64, u64) = self.link.script(&call).await?;
        Ok(told(left, version))
    }

    /// There is a new connection: what was announced meanwhile was missed, and the store may have
    /// forgotten.
    pub fn is_new(&self) {
        *self.since.lock().unwrap_or_else(PoisonError::into_inner) = self.clock.now();
        if self.has_connected.swap(true, Relaxed) {
            *self.epoch.lock().unwrap_or_else(PoisonError::into_inner) = None;
            self.is_back.store(true, Relaxed);
        }
        self.tell_all_again();
    }

    /// Whether the connection is so new that the others may not have told everything yet.
    pub fn is_young(&self) -> bool {
        let since = *self.since.lock().unwrap_or_else(PoisonError::into_inner);
        self.clock.now().0 < since.0.saturating_add(SETTLES)
    }

    /// All that is in memory is to be told again.
    pub fn tell_all_again(&self) {
        self.retell.notify_one();
    }

    /// Until that is so.
    pub async fn forgot(&self) {
        self.retell.notified().await;
    }

    /// This replica puts back what it has in memory: until it has, nobody is to believe that
    /// something is not there.
    pub async fn says_that_it_tells(&self) {
        let _ = self
            .link
            .command::<()>(cmd("SET").arg(TELLING).arg(1).arg("PX").arg(TELLING_FOR))
            .await;
    }

    /// Tells the other replicas.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn announce(&self, what: &Announcement) -> Result<(), StoreError> {
        self.link
            .command::<i64>(cmd("PUBLISH").arg(CHANNEL).arg(what.to_string()))
            .await
            .map(|_| ())
    }

    /// Whether the store has been up for long enough to be believed that something is not there:
    /// after it was emptied, replicas put back what they have in memory, and that takes a moment.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn is_settled(&self) -> Result<bool, StoreError> {
        // While it was away replicas may have taken sign-ins that they have not told yet, and all
        // have lost it, perhaps.
        if self.is_back.load(Relaxed) {
            self.link
                .command::<()>(cmd("SET").arg(TELLING).arg(1).arg("PX").arg(TELLING_FOR))
                .await?;
            self.is_back.store(false, Relaxed);
        }
        let epoch: Option<i64> = self.link.command(cmd("GET").arg(EPOCH)).await?;
        let known = *self.epoch.lock().unwrap_or_else(PoisonError::into_inner);
        if epoch.is_some() && epoch == known {
            return Ok(true);
        }
        let (seconds, micros): (i64, i64) = self.link.command(&cmd("TIME")).await?;
        let now = seconds.saturating_mul(1000).saturating_add(micros / 1000);
        let Some(epoch) = epoch else {
            let begins: Option<String> = self
                .link
                .command(cmd("SET").arg(EPOCH).arg(now).arg("NX"))
                .await?;
            self.tell_all_again();
            if begins.is_some() {
                tracing::info!("the session store is empty; sessions in memory are stored again");
                self.announce(&Announcement::Emptied).await?;
            }
            return Ok(false);
        };
        if known.is_some() {
            // Another replica found it empty.
            *self.epoch.lock().unwrap_or_else(PoisonError::into_inner) = None;
            self.tell_all_again();
        }
        let old = now.saturating_sub(epoch) >= i64::try_from(SETTLES).unwrap_or(i64::MAX);
        let settled = old
            && self
                .link
                .command::<Option<i64>>(cmd("GET").arg(TELLING))
                .await?
                .is_none();
        if settled {
            *self.epoch.lock().unwrap_or_else(PoisonError::into_inner) = Some(epoch);
        }
        Ok(settled)
    }

    fn sealed(&self, record: &impl Serialize) -> Result<String, StoreError> {
        let plain = serde_json::to_vec(record).map_err(|_| StoreError::WrongType)?;
        self.keys
            .seal(Purpose::Sessions, &plain)
            .map_err(|_| StoreError::Unavailable)
    }
}

impl std::fmt::Debug for Redis {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Redis")
    }
}

/// The names of a record and of its tombstone: in one slot of a cluster, since only what is in
/// braces is hashed.
fn names(table: RecordKind, key: RecordKey) -> (String, String) {
    let (of, key) = (
        match table {
            RecordKind::SignIn => "s",
            RecordKind::AppSession => "a",
        },
        key.hex(),
    );
    (
        format!("ludgate:{of}:{{{key}}}"),
        format!("ludgate:x:{{{key}}}"),
    )
}

fn revoked(app: &AppId) -> String {
    format!("ludgate:r:{}", RecordKey::from_name(app.as_str()).hex())
}

fn to_live(left: Remaining) -> u64 {
    left.idle.min(left.absolute).saturating_add(GRACE)
}

fn told(left: i64, version: u64) -> StoredState {
    match left {
        ENDED => StoredState::Ended,
        MISSING => StoredState::Missing,
        left => StoredState::Live(
            u64::try_from(left).unwrap_or(0).saturating_sub(GRACE),
            version,
        ),
    }
}

fn seconds(millis: u64) -> i64 {
    i64::try_from(millis / 1000).unwrap_or(i64::MAX)
}

/// At once, and in bounded numbers.
pub(super) async fn all_of<T>(
    tasks: impl Iterator<Item = impl Future<Output = T>>,
    at_once: usize,
) -> Vec<T> {
    let (mut tasks, mut done) = (tasks.peekable(), Vec::new());
    while tasks.peek().is_some() {
        done.extend(join_all(tasks.by_ref().take(at_once)).await);
    }
    done
}
