//! Redis, where replicas share the operations on labs: a lock for each person, the last operation,
//! and its events.
//!
//! The operation says what must be done, and the lock who does it. An operation that is open and
//! has no lock is without an owner, and each replica may take it over.

pub(super) mod held_lock;
mod names;
mod scripts;
mod sealing;
pub(super) mod stored_operation;

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use ludgate_identity::session::keys::KeyRing;
use ludgate_model::clock::millis;
use ludgate_ops::redis::{Link, LinkEvent, LinkPurpose, RedisSettings, StoreError, StoreMetrics};
use redis::cmd;
use tokio::time::Instant;

use super::{
    operation::OperationKind, operation_end::OperationEnd, operation_request::OperationRequest,
};
use crate::events::LabEvent;
use held_lock::{HeldLock, LAPSES_AFTER};
use names::{EPOCH, StoreNames};
use scripts::Scripts;
use sealing::{OperationSealer, SealedPlace};
use stored_operation::{END, PLAN, StoredOperation};

/// Operations are kept for this long: open ones from their start, others from their end. A request
/// that comes again within this time is recognised.
const OPERATION_KEPT: Duration = Duration::from_secs(24 * 3600);
/// Events of an operation are kept for this long after the last one.
const EVENTS_KEPT: Duration = Duration::from_secs(3600);
/// A person without an open operation is looked at for this long.
const OPEN_KEPT: Duration = Duration::from_secs(60);

/// How replicas share operations.
#[derive(Clone, Debug)]
pub struct OperationStoreSettings {
    /// The Redis.
    pub redis: RedisSettings,
    /// Keys that seal what is stored. All replicas have the same.
    pub keys: Arc<KeyRing>,
    /// The metrics of the connection.
    pub metrics: StoreMetrics,
}

/// An operation that is to begin.
#[derive(Clone, Debug)]
pub(super) struct NewOperation {
    pub(super) number: u64,
    pub(super) kind: OperationKind,
    pub(super) request: OperationRequest,
}

/// What came of an attempt to begin an operation.
#[derive(Debug)]
pub(super) enum Begun {
    /// Another replica was faster.
    Changed,
    /// It begins when the owner of the lock has released it.
    Waiting,
    /// This process has the lock.
    Held(HeldLock),
}

/// What came of an attempt to take over an operation.
#[derive(Debug)]
pub(super) enum Claimed {
    /// None is open.
    Nothing,
    /// Another owner has the lock.
    HeldElsewhere,
    /// This process has the lock, with this token, by a command that began at this time.
    Held(String, Instant),
}

/// What came of a renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Renewal {
    /// The lock has another owner, or none.
    Lost,
    /// The lock is renewed.
    Renewed,
    /// The same, and another operation is to run.
    Superseded,
}

/// An event of the store.
#[derive(Debug)]
pub(super) enum StoreEvent {
    /// There is a new connection. Announcements were missed before it.
    Connected,
    /// Another replica has changed the operation of a person.
    Changed(String),
}

/// The operations that replicas share.
pub(super) struct OperationStore {
    link: Link,
    names: StoreNames,
    scripts: Scripts,
    sealer: OperationSealer,
    /// Distinguishes this process's announcements from those of others.
    replica: String,
    /// From when on the content can be trusted; `None`: not known yet.
    settled_at: Mutex<Option<Instant>>,
}

fn random_token() -> Result<String, StoreError> {
    let mut bytes = [0; 16];
    aws_lc_rs::rand::fill(&mut bytes).map_err(|_| StoreError::Unavailable)?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}

fn place_of_event(place: usize) -> String {
    format!("event {place}")
}

impl OperationStore {
    /// Not connected yet; [`OperationStore::run`] connects. `scope` differs between lab
    /// controllers that use one Redis.
    pub(super) fn new(settings: OperationStoreSettings, scope: &str) -> OperationStore {
        let names = StoreNames::new(scope);
        let purpose = LinkPurpose {
            store: "store of lab operations",
            while_away: "labs stay as they are, and no operation begins",
            channel: names.channel(),
        };
        OperationStore {
            link: Link::new(settings.redis, purpose, settings.metrics),
            names,
            scripts: Scripts::new(),
            sealer: OperationSealer::new(settings.keys),
            replica: random_token().unwrap_or_default(),
            settled_at: Mutex::new(None),
        }
    }

    /// Connects, and reconnects whenever the connection is lost. Never returns.
    pub(super) async fn run(&self, on_event: impl Fn(StoreEvent)) {
        let on_link_event = |event: LinkEvent| match event {
            LinkEvent::Connected => {
                self.set_settled(None);
                on_event(StoreEvent::Connected);
            }
            LinkEvent::Message(text) => {
                let text = String::from_utf8_lossy(&text);
                if let Some((replica, username)) = text.split_once(' ')
                    && replica != self.replica
                {
                    on_event(StoreEvent::Changed(username.to_owned()));
                }
            }
        };
        self.link.run(on_link_event).await;
    }

    /// Whether operations can begin: there is a connection, and what Redis does not have is not
    /// lost.
    pub(super) fn is_ready(&self) -> bool {
        let settled_at = *self.settled_at();
        self.link.is_up() && settled_at.is_some_and(|at| at <= Instant::now())
    }

    /// Whether there is a connection.
    pub(super) fn is_up(&self) -> bool {
        self.link.is_up()
    }

    fn settled_at(&self) -> MutexGuard<'_, Option<Instant>> {
        let settled_at = self.settled_at.lock();
        settled_at.unwrap_or_else(PoisonError::into_inner)
    }

    fn set_settled(&self, at: Option<Instant>) {
        *self.settled_at() = at;
    }

    /// Finds out whether Redis has lost its data. Then owners of lost locks may still be at work,
    /// so no operation begins until each of them has noticed.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub(super) async fn settle(&self) -> Result<(), StoreError> {
        let age: u64 = self.link.script(&self.scripts.age.key(EPOCH)).await?;
        let wait = LAPSES_AFTER.saturating_sub(Duration::from_millis(age));
        self.set_settled(Some(Instant::now() + wait));
        Ok(())
    }

    fn check_ready(&self) -> Result<(), StoreError> {
        match self.is_ready() {
            true => Ok(()),
            false => Err(StoreError::Unavailable),
        }
    }

    /// Begins an operation in the place of the one that the caller has seen; an empty version is
    /// that of none.
    ///
    /// # Errors
    /// See [`StoreError`]. The operation may have begun nevertheless, and then a replica takes it
    /// over.
    pub(super) async fn begin(
        &self,
        username: &str,
        version: &str,
        operation: &NewOperation,
    ) -> Result<Begun, StoreError> {
        self.check_ready()?;
        let NewOperation {
            number,
            kind,
            request,
        } = operation;
        let place = SealedPlace {
            username,
            number: *number,
            field: PLAN,
        };
        let plan = request.plan.as_ref();
        let plan = plan.map(|plan| self.sealer.seal(place, plan)).transpose()?;
        let token = random_token()?;
        // Before the operation: a person who is not there would not be looked at.
        self.add_open(username).await?;
        let began = Instant::now();
        let mut call = self.scripts.begin.key(self.names.operation(username));
        call.key(self.names.lock(username))
            .arg(version)
            .arg(&token)
            .arg(millis(LAPSES_AFTER))
            .arg(millis(OPERATION_KEPT))
            .arg(number)
            .arg(kind.as_str())
            .arg(request.key.as_deref().unwrap_or_default())
            .arg(plan.unwrap_or_default())
            .arg(request.pod.as_deref().unwrap_or_default());
        let begun: i64 = self.link.script(&call).await?;
        Ok(match begun {
            2 => Begun::Held(HeldLock::new(username, *number, token, began)),
            1 => Begun::Waiting,
            _ => Begun::Changed,
        })
    }

    /// Takes the lock of a person whose operation has no owner.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub(super) async fn claim(&self, username: &str) -> Result<Claimed, StoreError> {
        self.check_ready()?;
        let token = random_token()?;
        let began = Instant::now();
        let mut call = self.scripts.claim.key(self.names.operation(username));
        call.key(self.names.lock(username))
            .arg(&token)
            .arg(millis(LAPSES_AFTER));
        let claimed: i64 = self.link.script(&call).await?;
        Ok(match claimed {
            2 => Claimed::Held(token, began),
            1 => Claimed::HeldElsewhere,
            _ => Claimed::Nothing,
        })
    }

    /// Renews a lock.
    ///
    /// # Errors
    /// See [`StoreError`]. The lock may be renewed nevertheless.
    pub(super) async fn renew(&self, lock: &HeldLock) -> Result<Renewal, StoreError> {
        let began = Instant::now();
        let mut call = self.scripts.renew.key(self.names.lock(&lock.username));
        call.key(self.names.operation(&lock.username))
            .arg(&lock.token)
            .arg(millis(LAPSES_AFTER))
            .arg(lock.number);
        let renewed: i64 = self.link.script(&call).await?;
        if renewed == 0 {
            return Ok(Renewal::Lost);
        }
        lock.set_renewed(began);
        Ok(match renewed {
            1 => Renewal::Renewed,
            _ => Renewal::Superseded,
        })
    }

    /// The last operation of a person.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub(super) async fn load(&self, username: &str) -> Result<Option<StoredOperation>, StoreError> {
        let name = self.names.operation(username);
        let fields = self.link.command(cmd("HGETALL").arg(name)).await?;
        Ok(StoredOperation::read(username, fields, &self.sealer))
    }

    /// The events of an operation from a place on.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub(super) async fn events(
        &self,
        username: &str,
        number: u64,
        from: usize,
    ) -> Result<Vec<LabEvent>, StoreError> {
        let name = self.names.events(username, number);
        let mut range = cmd("LRANGE");
        range.arg(name).arg(from).arg(-1);
        let sealed: Vec<String> = self.link.command(&range).await?;
        let events = sealed.iter().enumerate().map(|(at, sealed)| {
            let field = place_of_event(from + at);
            let place = SealedPlace {
                username,
                number,
                field: &field,
            };
            let event = self.sealer.open(place, sealed);
            // The places of later events stay.
            event.unwrap_or_else(|| LabEvent::error("This event cannot be decrypted"))
        });
        Ok(events.collect())
    }

    /// Adds events, of which the first gets this place. Returns whether the lock is still held.
    ///
    /// # Errors
    /// See [`StoreError`]. The same events can be added again.
    pub(super) async fn append(
        &self,
        lock: &HeldLock,
        from: usize,
        events: &[LabEvent],
    ) -> Result<bool, StoreError> {
        let mut call = self.scripts.append.key(self.names.lock(&lock.username));
        call.key(self.names.events(&lock.username, lock.number))
            .arg(&lock.token)
            .arg(from)
            .arg(millis(EVENTS_KEPT));
        for (at, event) in events.iter().enumerate() {
            let field = place_of_event(from + at);
            call.arg(self.sealer.seal(lock_place(lock, &field), event)?);
        }
        self.link.script::<i64>(&call).await.map(|held| held != 0)
    }

    /// Notes the pod of a spawn. Returns whether the lock is still held.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub(super) async fn set_pod(&self, lock: &HeldLock, uid: &str) -> Result<bool, StoreError> {
        let mut call = self.scripts.set_pod.key(self.names.lock(&lock.username));
        call.key(self.names.operation(&lock.username))
            .arg(&lock.token)
            .arg(lock.number)
            .arg(uid);
        self.link.script::<i64>(&call).await.map(|held| held != 0)
    }

    /// Ends an operation and releases its lock. Returns whether the lock was still held.
    ///
    /// # Errors
    /// See [`StoreError`]. The operation may have ended nevertheless.
    pub(super) async fn end(
        &self,
        lock: &HeldLock,
        end: &OperationEnd,
    ) -> Result<bool, StoreError> {
        let sealed = self.sealer.seal(lock_place(lock, END), end)?;
        let mut call = self.scripts.end.key(self.names.lock(&lock.username));
        call.key(self.names.operation(&lock.username))
            .key(self.names.events(&lock.username, lock.number))
            .arg(&lock.token)
            .arg(lock.number)
            .arg(sealed)
            .arg(millis(OPERATION_KEPT))
            .arg(millis(EVENTS_KEPT));
        self.link.script::<i64>(&call).await.map(|held| held != 0)
    }

    /// Releases a lock. Its operation stays open, and another replica takes it over.
    pub(super) async fn release(&self, lock: &HeldLock) {
        let mut call = self.scripts.release.key(self.names.lock(&lock.username));
        call.arg(&lock.token);
        // A lock that is not released lapses.
        let _ = self.link.script::<i64>(&call).await;
    }

    async fn add_open(&self, username: &str) -> Result<(), StoreError> {
        let mut call = self.scripts.add_open.key(self.names.open());
        call.arg(username);
        self.link.script::<i64>(&call).await.map(|_| ())
    }

    /// The persons who may have an open operation.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub(super) async fn open(&self) -> Result<Vec<String>, StoreError> {
        let mut range = cmd("ZRANGE");
        range.arg(self.names.open()).arg(0).arg(-1);
        self.link.command(&range).await
    }

    /// A person has no open operation. One who was added just now stays.
    pub(super) async fn remove_open(&self, username: &str) {
        let mut call = self.scripts.remove_open.key(self.names.open());
        call.arg(username).arg(millis(OPEN_KEPT));
        let _ = self.link.script::<i64>(&call).await;
    }

    /// Tells the other replicas that the operation of a person has changed. What is not announced
    /// is found by the next look at open operations.
    pub(super) async fn announce(&self, username: &str) {
        let text = format!("{} {username}", self.replica);
        let _ = self.link.publish(&text).await;
    }
}

fn lock_place<'p>(lock: &'p HeldLock, field: &'p str) -> SealedPlace<'p> {
    SealedPlace {
        username: &lock.username,
        number: lock.number,
        field,
    }
}
