//! Redis, where replicas keep what they all must know: sign-ins, app sessions, tickets, and what was ended (behaviour row 29).
//!
//! What is kept is sealed; its key is in the sealed text too, so that no record can stand in for another. Who may write to Redis can
//! sign people out, and nobody in. How a record is used is told here by `shared`, in memory nothing is looked up here.
//! Every command touches one slot of a cluster.

mod announcement;
pub mod link;
pub mod people;
mod scripts;

use std::{
    collections::HashMap,
    mem,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use moka::{policy::EvictionPolicy, sync::Cache};
use redis::cmd;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use tokio::sync::Notify;

use super::{
    cookie::RecordKey,
    keys::{KeyRing, Purpose},
    record::{AppSession, SignIn},
    written::{Left, WrittenApp, WrittenSignIn},
};
use crate::{
    model::{
        app::AppId,
        clock::{Clock, Moment, millis},
    },
    telemetry::metrics::Metrics,
};
pub use announcement::Announcement;
use link::{CHANNEL, Link, StoreError};
use scripts::{ENDED, GRACE, MISSING, Scripts};

/// Ended records that are remembered here, so that none comes back by a read that was under way.
const MAX_ENDED: u64 = 200_000;
/// A store that began, or was emptied, so lately may not have been told all yet, in milliseconds.
const SETTLES: u64 = 5_000;
/// When the store began, by its own clock.
const EPOCH: &str = "ludgate:epoch";
/// A record that is not there is not asked for again for so long, in milliseconds.
const ABSENT_FOR: u64 = 5_000;
/// People whose sign-out is owed at most.
const MAX_OWED: usize = 10_000;
/// Such records that are remembered.
const MAX_ABSENT: u64 = 100_000;

/// The store that replicas share.
pub struct Redis {
    link: Link,
    scripts: Scripts,
    keys: Arc<KeyRing>,
    clock: Clock,
    metrics: Arc<Metrics>,
    lifetime: u64,
    /// When records were ended, by the wall clock.
    ended: Cache<RecordKey, i64>,
    absent: Cache<RecordKey, Moment>,
    /// What the store was not told yet.
    unsent: Mutex<HashMap<RecordKey, Ending>>,
    /// Whom the provider signed out while the store was away: by person, or by its own session.
    owed: Mutex<Vec<Owed>>,
    /// There is something to tell.
    pub(super) untold: Notify,
    /// The epoch that is old enough to be believed.
    epoch: Mutex<Option<i64>>,
    /// All that is in memory is to be told again.
    pub(super) retell: AtomicBool,
}

/// A person, or a session of the provider's.
pub type Owed = (Option<String>, Option<String>);

/// What becomes of a record that is ended.
#[derive(Clone, Debug)]
struct Ending {
    when: i64,
    what: Announcement,
}

/// A sign-in as it is kept.
#[derive(Debug, Serialize, Deserialize)]
pub struct StoredSignIn {
    /// The record.
    pub sign_in: WrittenSignIn,
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
pub struct StoredApp {
    /// The record.
    pub app: WrittenApp,
    /// The sign-in it stands on.
    sign_in: [u8; 32],
    begun: i64,
}

impl StoredApp {
    /// The sign-in it stands on.
    pub fn sign_in(&self) -> RecordKey {
        RecordKey(self.sign_in)
    }
}

/// What the store says of a record that it was told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// So many milliseconds are left without use, and this is its version there (0 for an app session).
    Left(u64, u64),
    /// It is not there.
    Missing,
    /// It was ended.
    Ended,
}

/// Two kinds of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Table {
    /// Sign-ins.
    SignIns,
    /// App sessions.
    Apps,
}

impl Redis {
    /// Not connected yet; see [`Redis::link`].
    pub fn new(
        settings: link::Settings,
        keys: Arc<KeyRing>,
        clock: Clock,
        metrics: Arc<Metrics>,
        lifetime: std::time::Duration,
    ) -> Redis {
        let bounded = |most| Cache::builder().max_capacity(most).eviction_policy(EvictionPolicy::lru());
        Redis {
            link: Link::new(settings, metrics.clone()),
            scripts: Scripts::new(),
            keys,
            clock,
            metrics,
            lifetime: millis(lifetime),
            ended: bounded(MAX_ENDED).build(),
            absent: Cache::builder().max_capacity(MAX_ABSENT).eviction_policy(EvictionPolicy::lru()).build(),
            unsent: Mutex::default(),
            owed: Mutex::default(),
            untold: Notify::new(),
            epoch: Mutex::default(),
            retell: AtomicBool::new(false),
        }
    }

    /// The connection, to be kept up.
    pub fn link(&self) -> &Link {
        &self.link
    }

    /// Writes a sign-in, unless a newer version of it is there. Gives back, too, whose time is over for it: one person has so many
    /// and no more.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn save_sign_in(&self, sign_in: &SignIn) -> Result<(Told, Vec<RecordKey>), StoreError> {
        let (now, wall, version) = (self.clock.now(), self.clock.wall_seconds(), sign_in.version());
        let Some(written) = WrittenSignIn::of(sign_in) else { return Ok((Told::Missing, Vec::new())) };
        let left = sign_in.time_left(now);
        let stored = StoredSignIn {
            sign_in: written,
            version,
            begun: sign_in.begun(),
            ends: wall.saturating_add(seconds(left.absolute)),
            proved: wall.saturating_sub(seconds(now.0.saturating_sub(sign_in.proved().0))),
        };
        let is_new = !sign_in.window().is_told();
        let told =
            self.save(Table::SignIns, sign_in.key(), version, &stored, (left, sign_in.begun())).await?;
        if let Told::Left(idle, _) = told {
            sign_in.told(version);
            sign_in.window().extend(now, idle);
        }
        let over = if is_new { self.index(sign_in).await? } else { Vec::new() };
        Ok((told, over))
    }

    /// Writes an app session.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn save_app(&self, key: RecordKey, session: &AppSession) -> Result<Told, StoreError> {
        let (now, begun) = (self.clock.now(), self.clock.wall_seconds());
        let stored =
            StoredApp { app: WrittenApp::of(key, session), sign_in: session.sign_in().key().0, begun };
        let told = self.save(Table::Apps, key, 1, &stored, (session.time_left(now), begun)).await?;
        if let Told::Left(idle, _) = told {
            session.window().extend(now, idle);
        }
        Ok(told)
    }

    async fn save(
        &self,
        table: Table,
        key: RecordKey,
        version: u64,
        record: &impl Serialize,
        (left, begun): (Left, i64),
    ) -> Result<Told, StoreError> {
        let sealed = self.sealed(record)?;
        let (record, tombstone) = names(table, key);
        let mut call = self.scripts.save.key(record);
        call.key(tombstone).arg(version).arg(sealed).arg(to_live(left)).arg(begun);
        let left: i64 = self.link.script(&call).await?;
        Ok(told(left, version))
    }

    /// Reads a sign-in, and what is left of it; `None` when there is none that counts.
    ///
    /// # Errors
    /// See [`StoreError`]. [`StoreError::Away`] also while it cannot be said yet that there is none.
    pub async fn load_sign_in(&self, key: RecordKey) -> Result<Option<(StoredSignIn, Left)>, StoreError> {
        let Some((stored, idle, ended)) = self.load::<StoredSignIn>(Table::SignIns, key).await? else {
            return Ok(None);
        };
        let ended = ended.max(self.ended.get(&key).unwrap_or(i64::MIN));
        let absolute = stored.ends.saturating_sub(self.clock.wall_seconds());
        let absolute = u64::try_from(absolute).unwrap_or(0).min(self.lifetime / 1000) * 1000;
        let counts = stored.sign_in.key() == key && stored.begun > ended && idle > 0 && absolute > 0;
        Ok(counts.then_some((stored, Left { idle, absolute })))
    }

    /// Reads an app session, and how many milliseconds are left of it without use.
    ///
    /// # Errors
    /// As [`Redis::load_sign_in`].
    pub async fn load_app(&self, key: RecordKey) -> Result<Option<(StoredApp, u64)>, StoreError> {
        let Some((stored, idle, _)) = self.load::<StoredApp>(Table::Apps, key).await? else {
            return Ok(None);
        };
        let Some((app, _)) = stored.app.read() else { return Ok(None) };
        let revoked: Option<i64> = self.link.command(cmd("GET").arg(revoked(&app))).await?;
        let counts = stored.app.key() == key && idle > 0 && revoked.is_none_or(|when| stored.begun > when);
        Ok(counts.then_some((stored, idle)))
    }

    /// What stands at a key, how long it counts without use (0: no longer), and when it was ended.
    async fn load<T: DeserializeOwned>(
        &self,
        table: Table,
        key: RecordKey,
    ) -> Result<Option<(T, u64, i64)>, StoreError> {
        let now = self.clock.now();
        if self.absent.get(&key).is_some_and(|asked| now.0 < asked.0.saturating_add(ABSENT_FOR)) {
            return Ok(None);
        }
        let (record, tombstone) = names(table, key);
        let mut call = self.scripts.load.key(record);
        call.key(tombstone);
        let loaded: Result<(Option<String>, i64, i64), StoreError> = self.link.script(&call).await;
        let (sealed, ttl, ended) = match loaded {
            // As good as absent, and counted.
            Err(StoreError::Foreign) => return Ok(None),
            loaded => loaded?,
        };
        let Some(sealed) = sealed else {
            if ended < 0 && !self.is_settled().await? {
                return Err(StoreError::Away);
            }
            self.absent.insert(key, now);
            return Ok(None);
        };
        let opened = self.keys.open(Purpose::Sessions, &sealed).ok();
        let Some(record) = opened.and_then(|plain| serde_json::from_slice(&plain).ok()) else {
            self.metrics.store("foreign");
            tracing::warn!(session = key.short(), "a record in the session store cannot be opened");
            return Ok(None);
        };
        Ok(Some((record, u64::try_from(ttl).unwrap_or(0).saturating_sub(GRACE), ended)))
    }

    /// Tells of use here, and learns of use elsewhere.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn touch(&self, table: Table, key: RecordKey, left: Left) -> Result<Told, StoreError> {
        let (record, tombstone) = names(table, key);
        let mut call = self.scripts.touch.key(record);
        call.key(tombstone).arg(to_live(left));
        let (left, version): (i64, u64) = self.link.script(&call).await?;
        Ok(told(left, version))
    }

    /// Ends a sign-in for everybody: here at once, elsewhere as soon as the store can be told.
    pub fn end(&self, key: RecordKey) {
        let when = self.clock.wall_seconds();
        self.ended.insert(key, when);
        self.later(key, Ending { when, what: Announcement::Ended(key, when) });
    }

    /// Ends all sessions of an app.
    pub fn end_app(&self, app: &AppId) {
        let when = self.clock.wall_seconds();
        let key = RecordKey::of_name(app.as_str());
        self.later(key, Ending { when, what: Announcement::EndedApp(app.clone()) });
    }

    /// A sign-in under this key begins now, though one was ended: the second in which it begins is a later one.
    pub fn begins(&self, key: &RecordKey) -> i64 {
        let now = self.clock.wall_seconds();
        self.ended.get(key).map_or(now, |ended| now.max(ended.saturating_add(1)))
    }

    /// Another replica has ended it at that second.
    pub fn was_ended(&self, key: RecordKey, when: i64) {
        self.ended.insert(key, when);
    }

    /// Whether a sign-in that began then was ended since.
    pub fn is_ended(&self, key: &RecordKey, begun: i64) -> bool {
        self.ended.get(key).is_some_and(|ended| ended >= begun)
    }

    /// Somebody is to be signed out as soon as the store says which sign-ins are theirs.
    pub fn owe(&self, owed: Owed) {
        let mut all = self.owed.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() < MAX_OWED && !all.contains(&owed) {
            all.push(owed);
        }
    }

    /// Who is; they are not afterwards.
    pub fn owed(&self) -> Vec<Owed> {
        mem::take(&mut *self.owed.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// There is a new connection: what was announced meanwhile was missed, and the store may have forgotten.
    pub fn tell_all_again(&self) {
        self.retell.store(true, Ordering::Release);
        self.untold.notify_one();
    }

    fn later(&self, key: RecordKey, ending: Ending) {
        self.unsent.lock().unwrap_or_else(PoisonError::into_inner).insert(key, ending);
        self.untold.notify_one();
    }

    /// Tells the store what was ended; what it cannot be told stays for the next time.
    ///
    /// Cancel safety: what was not told when this is dropped is lost; run it to its end.
    pub async fn tell_endings(&self) {
        if !self.link.is_up() {
            return;
        }
        let unsent = mem::take(&mut *self.unsent.lock().unwrap_or_else(PoisonError::into_inner));
        for (key, ending) in unsent {
            if matches!(self.tell_ending(key, &ending).await, Err(StoreError::Away)) {
                self.unsent.lock().unwrap_or_else(PoisonError::into_inner).entry(key).or_insert(ending);
            }
        }
    }

    async fn tell_ending(&self, key: RecordKey, Ending { when, what }: &Ending) -> Result<(), StoreError> {
        let kept_for = self.lifetime.saturating_add(GRACE);
        match what {
            Announcement::EndedApp(app) => {
                self.link
                    .command::<()>(cmd("SET").arg(revoked(app)).arg(when).arg("PX").arg(kept_for))
                    .await?;
            }
            Announcement::Ended(..) | Announcement::Changed(_) | Announcement::Emptied => {
                let (record, tombstone) = names(Table::SignIns, key);
                let mut call = self.scripts.end.key(record);
                call.key(tombstone).arg(when).arg(kept_for);
                self.link.script::<i64>(&call).await?;
            }
        }
        self.announce(what).await
    }

    /// Tells the other replicas.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn announce(&self, what: &Announcement) -> Result<(), StoreError> {
        self.link.command::<i64>(cmd("PUBLISH").arg(CHANNEL).arg(what.to_string())).await.map(|_| ())
    }

    /// Whether the store has been up for long enough to be believed that something is not there: after it was emptied, replicas
    /// put back what they have in memory, and that takes a moment.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn is_settled(&self) -> Result<bool, StoreError> {
        let epoch: Option<i64> = self.link.command(cmd("GET").arg(EPOCH)).await?;
        let known = *self.epoch.lock().unwrap_or_else(PoisonError::into_inner);
        if epoch.is_some() && epoch == known {
            return Ok(true);
        }
        let (seconds, micros): (i64, i64) = self.link.command(&cmd("TIME")).await?;
        let now = seconds.saturating_mul(1000).saturating_add(micros / 1000);
        let Some(epoch) = epoch else {
            let begins: Option<String> = self.link.command(cmd("SET").arg(EPOCH).arg(now).arg("NX")).await?;
            self.tell_all_again();
            if begins.is_some() {
                tracing::info!(
                    "the session store is new or was emptied; what is in memory is put there again"
                );
                self.announce(&Announcement::Emptied).await?;
            }
            return Ok(false);
        };
        if known.is_some() {
            // Another replica found it empty.
            *self.epoch.lock().unwrap_or_else(PoisonError::into_inner) = None;
            self.tell_all_again();
        }
        let settled = now.saturating_sub(epoch) >= i64::try_from(SETTLES).unwrap_or(i64::MAX);
        if settled {
            *self.epoch.lock().unwrap_or_else(PoisonError::into_inner) = Some(epoch);
        }
        Ok(settled)
    }

    fn sealed(&self, record: &impl Serialize) -> Result<String, StoreError> {
        let plain = serde_json::to_vec(record).map_err(|_| StoreError::Foreign)?;
        self.keys.seal(Purpose::Sessions, &plain).map_err(|_| StoreError::Away)
    }
}

impl std::fmt::Debug for Redis {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Redis")
    }
}

/// The names of a record and of its tombstone: in one slot of a cluster, since only what is in braces is hashed.
fn names(table: Table, key: RecordKey) -> (String, String) {
    let (of, key) = (
        match table {
            Table::SignIns => "s",
            Table::Apps => "a",
        },
        key.hex(),
    );
    (format!("ludgate:{of}:{{{key}}}"), format!("ludgate:x:{{{key}}}"))
}

fn revoked(app: &AppId) -> String {
    format!("ludgate:r:{}", RecordKey::of_name(app.as_str()).hex())
}

fn to_live(left: Left) -> u64 {
    left.idle.min(left.absolute).saturating_add(GRACE)
}

fn told(left: i64, version: u64) -> Told {
    match left {
        ENDED => Told::Ended,
        MISSING => Told::Missing,
        left => Told::Left(u64::try_from(left).unwrap_or(0).saturating_sub(GRACE), version),
    }
}

fn seconds(millis: u64) -> i64 {
    i64::try_from(millis / 1000).unwrap_or(i64::MAX)
}
