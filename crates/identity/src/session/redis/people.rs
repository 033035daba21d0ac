//! Whose sign-ins there are, the lock of a proof, and what is good once: tickets and logout tokens.

use redis::cmd;
use serde::{Serialize, de::DeserializeOwned};

use super::{RecordKind, Redis, StoreError, names, scripts::GRACE};
use crate::session::{
    cookie::{NewId, RecordKey},
    keys::Purpose,
    record::SignIn,
};

/// Sign-ins of one person that are found; more have ended.
const MOST_OF_ONE: usize = 50;
/// A lock nobody gave back is free again after this long, in milliseconds: longer than two calls to
/// the provider may take.
const LOCKED_FOR: u64 = 30_000;
/// A ticket is of use for this long, in milliseconds.
const TICKET_FOR: u64 = 30_000;

/// The right to ask the provider about somebody. Given back by [`Redis::unlock`], or by time.
pub struct RefreshLock {
    name: String,
    holder: String,
}

impl Redis {
    /// Makes a sign-in findable by its person and by the provider's session. Of too many of one
    /// person ends the oldest, and gives them back.
    pub(super) async fn index(&self, sign_in: &SignIn) -> Result<Vec<RecordKey>, StoreError> {
        let mut over = Vec::new();
        let (kept_for, key) = (self.lifetime.saturating_add(GRACE), sign_in.key().hex());
        let person = of_subject(&sign_in.principal().subject);
        // In one step: two tasks may tell of one sign-in at the same time, and a key that stands in
        // the list twice counts twice.
        let mut append = self.scripts.append.key(&person);
        append.arg(&key).arg(kept_for);
        let all: Vec<String> = self.link.script(&append).await?;
        if all.len() > MOST_OF_ONE {
            let (live, dead) = self.parted(all).await?;
            let room = live.len().saturating_sub(MOST_OF_ONE);
            for key in dead.iter().chain(live.iter().take(room)) {
                self.link
                    .command::<i64>(cmd("LREM").arg(&person).arg(0).arg(key))
                    .await?;
            }
            for key in live
                .iter()
                .take(room)
                .filter_map(|key| RecordKey::from_hex(key))
            {
                self.end(key, None);
                over.push(key);
            }
        }
        if let Some(session) = &sign_in.tokens.session_id {
            let session = of_session(session);
            self.link
                .command::<i64>(cmd("SADD").arg(&session).arg(&key))
                .await?;
            self.link
                .command::<i64>(cmd("PEXPIRE").arg(&session).arg(kept_for))
                .await?;
            let all: Vec<String> = self.link.command(cmd("SMEMBERS").arg(&session)).await?;
            if all.len() > MOST_OF_ONE {
                for key in self.parted(all).await?.1 {
                    self.link
                        .command::<i64>(cmd("SREM").arg(&session).arg(key))
                        .await?;
                }
            }
        }
        Ok(over)
    }

    /// Keys whose sign-in is there, and those whose is not.
    async fn parted(&self, keys: Vec<String>) -> Result<(Vec<String>, Vec<String>), StoreError> {
        let (mut live, mut dead) = (Vec::new(), Vec::new());
        for key in keys {
            let there = match RecordKey::from_hex(&key) {
                Some(of) => {
                    self.link
                        .command::<i64>(cmd("EXISTS").arg(names(RecordKind::SignIn, of).0))
                        .await?
                        > 0
                }
                None => false,
            };
            if there {
                live.push(key)
            } else {
                dead.push(key)
            }
        }
        Ok((live, dead))
    }

    /// The sign-ins of a person, oldest first; some may be over.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn of_subject(&self, subject: &str) -> Result<Vec<RecordKey>, StoreError> {
        let keys: Vec<String> = self
            .link
            .command(cmd("LRANGE").arg(of_subject(subject)).arg(0).arg(-1))
            .await?;
        Ok(keys
            .iter()
            .filter_map(|key| RecordKey::from_hex(key))
            .collect())
    }

    /// The sign-ins of a session of the provider's; some may be over.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn of_session(&self, session: &str) -> Result<Vec<RecordKey>, StoreError> {
        let keys: Vec<String> = self
            .link
            .command(cmd("SMEMBERS").arg(of_session(session)))
            .await?;
        Ok(keys
            .iter()
            .filter_map(|key| RecordKey::from_hex(key))
            .collect())
    }

    /// The right to ask the provider about somebody; `None` while another replica has it.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn lock(&self, key: RecordKey) -> Result<Option<RefreshLock>, StoreError> {
        let name = format!("ludgate:l:{{{}}}", key.hex());
        let holder = NewId::random()
            .map_err(|_| StoreError::Unavailable)?
            .as_str()
            .to_owned();
        let taken: Option<String> = self
            .link
            .command(
                cmd("SET")
                    .arg(&name)
                    .arg(&holder)
                    .arg("NX")
                    .arg("PX")
                    .arg(LOCKED_FOR),
            )
            .await?;
        Ok(taken.map(|_| RefreshLock { name, holder }))
    }

    /// Gives it back. Where the store cannot be told, time does.
    pub async fn unlock(&self, lock: RefreshLock) {
        let mut call = self.scripts.unlock.key(lock.name);
        call.arg(lock.holder);
        let _ = self.link.script::<i64>(&call).await;
    }

    /// Keeps what a ticket stands for.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn give_ticket(
        &self,
        key: RecordKey,
        ticket: &impl Serialize,
    ) -> Result<(), StoreError> {
        let sealed = self.sealed(&(key.0, ticket))?;
        self.link
            .command(
                cmd("SET")
                    .arg(ticket_name(key))
                    .arg(sealed)
                    .arg("PX")
                    .arg(TICKET_FOR),
            )
            .await
    }

    /// Takes it: whatever comes of it, it is gone.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn take_ticket<T: DeserializeOwned>(
        &self,
        key: RecordKey,
    ) -> Result<Option<T>, StoreError> {
        let sealed: Option<String> =
            match self.link.command(cmd("GETDEL").arg(ticket_name(key))).await {
                Err(StoreError::WrongType) => None,
                taken => taken?,
            };
        let plain = sealed.and_then(|sealed| self.keys.open(Purpose::Sessions, &sealed).ok());
        let ticket: Option<([u8; 32], T)> =
            plain.and_then(|plain| serde_json::from_slice(&plain).ok());
        Ok(ticket
            .filter(|(of, _)| *of == key.0)
            .map(|(_, ticket)| ticket))
    }

    /// Whether a token that is good once comes for the first time anywhere; `kept_for` in
    /// milliseconds.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn is_first(&self, token: &str, kept_for: u64) -> Result<bool, StoreError> {
        let name = used_name(token);
        let first: Option<String> = self
            .link
            .command(
                cmd("SET")
                    .arg(name)
                    .arg(1)
                    .arg("NX")
                    .arg("PX")
                    .arg(kept_for),
            )
            .await?;
        Ok(first.is_some())
    }

    /// It may come again.
    pub async fn forget_first(&self, token: &str) {
        let _ = self
            .link
            .command::<i64>(cmd("DEL").arg(used_name(token)))
            .await;
    }
}

fn used_name(token: &str) -> String {
    format!("ludgate:j:{}", RecordKey::from_name(token).hex())
}

fn of_subject(subject: &str) -> String {
    format!("ludgate:p:{}", RecordKey::from_name(subject).hex())
}

fn of_session(session: &str) -> String {
    format!("ludgate:o:{}", RecordKey::from_name(session).hex())
}

fn ticket_name(key: RecordKey) -> String {
    format!("ludgate:t:{}", key.hex())
}
