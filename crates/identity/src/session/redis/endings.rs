//! What was ended here, and is still to be told: to the store, and by it to the other replicas.

use std::{
    collections::HashMap,
    mem,
    sync::{Mutex, PoisonError},
};

use moka::{policy::EvictionPolicy, sync::Cache};
use redis::cmd;
use tokio::sync::Notify;

use super::{Announcement, RecordKind, Redis, StoreError, all_of, names, revoked, scripts::GRACE};
use crate::{model::app::AppId, session::cookie::RecordKey};

/// Ended records that are remembered here, so that none comes back: by a read that was under way,
/// or by a store that forgot.
const MAX_ENDED: u64 = 200_000;
/// Apps whose sessions were ended, likewise.
const MAX_APPS: u64 = 10_000;
/// What waits to be told at most; the rest is told when everything is told again.
const MAX_UNSENT: usize = 200_000;
/// BySubject whose sign-out is owed at most.
const MAX_OWED: usize = 10_000;
/// RevocationLog that are told at once.
const AT_ONCE: usize = 64;

/// A person, or a session of the provider's.
pub type DeferredLogout = (Option<String>, Option<String>);

/// What was ended, by the wall clock.
pub(super) struct RevocationLog {
    ended: Cache<RecordKey, i64>,
    apps: Cache<AppId, i64>,
    /// What the store was not told yet.
    unsent: Mutex<HashMap<RecordKey, PendingRevocation>>,
    /// Whom the provider signed out while the store was away.
    owed: Mutex<Vec<DeferredLogout>>,
    waiting: Notify,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum PendingRevocation {
    /// A sign-in ends now, whatever its clock says; or it was ended then, which is told again.
    SignIn { when: i64, again: bool },
    /// All sessions of an app that began until then.
    App { app: AppId, when: i64 },
    /// One app session made room for another.
    Session,
}

impl RevocationLog {
    pub(super) fn new() -> RevocationLog {
        RevocationLog {
            ended: Cache::builder()
                .max_capacity(MAX_ENDED)
                .eviction_policy(EvictionPolicy::lru())
                .build(),
            apps: Cache::builder()
                .max_capacity(MAX_APPS)
                .eviction_policy(EvictionPolicy::lru())
                .build(),
            unsent: Mutex::default(),
            owed: Mutex::default(),
            waiting: Notify::new(),
        }
    }

    fn later(&self, key: RecordKey, ending: PendingRevocation) {
        let mut unsent = self.unsent.lock().unwrap_or_else(PoisonError::into_inner);
        if unsent.len() < MAX_UNSENT || unsent.contains_key(&key) {
            unsent.insert(key, ending);
        }
        drop(unsent);
        self.waiting.notify_one();
    }

    fn take_out(&self, key: &RecordKey, told: &PendingRevocation) {
        let mut unsent = self.unsent.lock().unwrap_or_else(PoisonError::into_inner);
        if unsent.get(key) == Some(told) {
            unsent.remove(key);
        }
    }
}

impl Redis {
    /// Ends a sign-in for everybody, one that began then as far as it is known here: here at once,
    /// elsewhere as soon as the store can be told.
    pub fn end(&self, key: RecordKey, begun: Option<i64>) {
        // The clock of the replica where it began may be ahead of ours.
        let when = self.clock.wall_seconds().max(begun.unwrap_or(i64::MIN));
        self.was_ended(key, when);
        self.endings
            .later(key, PendingRevocation::SignIn { when, again: false });
    }

    /// Ends all sessions of an app that began until now.
    pub fn end_app(&self, app: &AppId) {
        let when = self.clock.wall_seconds();
        self.app_was_ended(app, when);
        self.endings.later(
            RecordKey::from_name(app.as_str()),
            PendingRevocation::App {
                app: app.clone(),
                when,
            },
        );
    }

    /// An app session made room for another of its sign-in.
    pub fn forget_app(&self, key: RecordKey) {
        self.absent.insert(key, self.clock.now());
        self.endings.later(key, PendingRevocation::Session);
    }

    /// A sign-in under this key begins now, though one was ended: the second in which it begins is
    /// a later one.
    pub fn begins(&self, key: &RecordKey) -> i64 {
        let now = self.clock.wall_seconds();
        self.endings
            .ended
            .get(key)
            .map_or(now, |ended| now.max(ended.saturating_add(1)))
    }

    /// It was ended at that second, wherever.
    pub fn was_ended(&self, key: RecordKey, when: i64) {
        let known = self.endings.ended.get(&key).unwrap_or(i64::MIN);
        self.endings.ended.insert(key, when.max(known));
    }

    /// All sessions of an app were ended at that second, wherever.
    pub fn app_was_ended(&self, app: &AppId, when: i64) {
        let known = self.endings.apps.get(app).unwrap_or(i64::MIN);
        self.endings.apps.insert(app.clone(), when.max(known));
    }

    /// When a sign-in under this key was ended, as far as is known here.
    pub(super) fn ended(&self, key: &RecordKey) -> i64 {
        self.endings.ended.get(key).unwrap_or(i64::MIN)
    }

    /// Whether a sign-in that began then was ended since.
    pub fn is_ended(&self, key: &RecordKey, begun: i64) -> bool {
        self.ended(key) >= begun
    }

    /// When all sessions of an app were ended last; asks the store too.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn app_ended(&self, app: &AppId) -> Result<i64, StoreError> {
        let known = self.endings.apps.get(app).unwrap_or(i64::MIN);
        let stored: Option<i64> = self.link.command(cmd("GET").arg(revoked(app))).await?;
        Ok(stored.map_or(known, |stored| stored.max(known)))
    }

    /// Somebody is to be signed out as soon as the store says which sign-ins are theirs.
    pub fn owe(&self, owed: DeferredLogout) {
        let mut all = self
            .endings
            .owed
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if all.len() < MAX_OWED && !all.contains(&owed) {
            all.push(owed);
        }
    }

    /// Who is; they are not afterwards.
    pub fn owed(&self) -> Vec<DeferredLogout> {
        mem::take(
            &mut *self
                .endings
                .owed
                .lock()
                .unwrap_or_else(PoisonError::into_inner),
        )
    }

    /// Whether something could not be told, or somebody not be signed out.
    pub fn owes(&self) -> bool {
        let unsent = self
            .endings
            .unsent
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        !unsent.is_empty()
            || !self
                .endings
                .owed
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .is_empty()
    }

    /// There is something to tell.
    pub async fn has_endings(&self) {
        self.endings.waiting.notified().await;
    }

    /// A store that forgot has forgotten what was ended, too.
    pub fn tell_endings_again(&self) {
        let oldest = self
            .clock
            .wall_seconds()
            .saturating_sub_unsigned(self.lifetime / 1000);
        for (key, when) in self
            .endings
            .ended
            .iter()
            .filter(|(_, when)| *when >= oldest)
        {
            let unsent = self
                .endings
                .unsent
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .contains_key(&key);
            if !unsent {
                self.endings
                    .later(*key, PendingRevocation::SignIn { when, again: true });
            }
        }
        for (app, when) in self.endings.apps.iter().filter(|(_, when)| *when >= oldest) {
            let key = RecordKey::from_name(app.as_str());
            self.endings.later(
                key,
                PendingRevocation::App {
                    app: AppId::clone(&app),
                    when,
                },
            );
        }
        // For what waits already.
        self.endings.waiting.notify_one();
    }

    /// Tells the store what was ended; what it cannot be told stays for the next time.
    ///
    /// Cancel safety: what was not told stays.
    pub async fn tell_endings(&self) {
        if !self.link.is_up() {
            return;
        }
        let unsent: Vec<(RecordKey, PendingRevocation)> = {
            let unsent = self
                .endings
                .unsent
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            unsent
                .iter()
                .map(|(key, ending)| (*key, ending.clone()))
                .collect()
        };
        all_of(
            unsent
                .into_iter()
                .map(|(key, ending)| self.tell(key, ending)),
            AT_ONCE,
        )
        .await;
    }

    /// Tells of one sign-in now, for whoever waits for it to have ended everywhere.
    pub async fn tell_ending_of(&self, key: RecordKey) {
        let unsent = self
            .endings
            .unsent
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(&key)
            .cloned();
        if let Some(ending) = unsent {
            self.tell(key, ending).await;
        }
    }

    async fn tell(&self, key: RecordKey, ending: PendingRevocation) {
        if !matches!(
            self.tell_one(key, &ending).await,
            Err(StoreError::Unavailable)
        ) {
            self.endings.take_out(&key, &ending);
        }
    }

    async fn tell_one(&self, key: RecordKey, ending: &PendingRevocation) -> Result<(), StoreError> {
        let kept_for = self.lifetime.saturating_add(GRACE);
        match ending {
            PendingRevocation::App { app, when } => {
                let mut call = self.scripts.revoke.key(revoked(app));
                call.arg(when).arg(kept_for);
                self.link.script::<i64>(&call).await?;
                self.announce(&Announcement::EndedApp(app.clone(), *when))
                    .await
            }
            PendingRevocation::SignIn { when, again } => {
                let (record, tombstone) = names(RecordKind::SignIn, key);
                let mut call = self.scripts.end.key(record);
                call.key(tombstone)
                    .arg(when)
                    .arg(kept_for)
                    .arg(i32::from(*again));
                let when: i64 = self.link.script(&call).await?;
                self.was_ended(key, when);
                self.announce(&Announcement::Ended(key, when)).await
            }
            PendingRevocation::Session => {
                let (record, _) = names(RecordKind::AppSession, key);
                self.link
                    .command::<i64>(cmd("DEL").arg(record))
                    .await
                    .map(|_| ())
            }
        }
    }
}
