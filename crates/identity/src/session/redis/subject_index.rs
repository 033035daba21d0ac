//! The sign-ins of each person and of each session of the provider, on all replicas together.

use std::{sync::Arc, time::Duration};

use redis::cmd;

use super::{
    names::{self, RecordKind},
    scripts::{GRACE, Scripts},
};
use crate::{
    model::clock::millis,
    ops::redis::{Link, StoreError},
    session::{cookie::RecordKey, record::SignIn, revocation_log::RevocationLog},
};

/// Sign-ins of one person; the oldest is revoked for the next one.
const MAX_PER_SUBJECT: usize = 50;

/// Lists of sign-ins in Redis.
pub(crate) struct SubjectIndex {
    link: Arc<Link>,
    scripts: Arc<Scripts>,
    revocations: Arc<RevocationLog>,
    /// How long a list is kept after its last change, in milliseconds.
    ttl: u64,
}

/// Sign-ins whose record exists, and those whose record does not.
#[derive(Default)]
struct Partition {
    present: Vec<String>,
    absent: Vec<String>,
}

impl SubjectIndex {
    pub(super) fn new(
        link: Arc<Link>,
        scripts: Arc<Scripts>,
        revocations: Arc<RevocationLog>,
        lifetime: Duration,
    ) -> SubjectIndex {
        SubjectIndex {
            link,
            scripts,
            revocations,
            ttl: millis(lifetime).saturating_add(GRACE),
        }
    }

    /// Adds a sign-in to the lists. Returns the sign-ins of the person that were revoked to make
    /// room.
    pub(super) async fn insert(&self, sign_in: &SignIn) -> Result<Vec<RecordKey>, StoreError> {
        let key = sign_in.key().hex();
        let revoked = self
            .insert_by_subject(&sign_in.principal().subject.clone(), &key)
            .await?;
        if let Some(session) = &sign_in.tokens.session_id {
            self.insert_by_provider_session(session, &key).await?;
        }
        Ok(revoked)
    }

    async fn insert_by_subject(
        &self,
        subject: &str,
        key: &str,
    ) -> Result<Vec<RecordKey>, StoreError> {
        let list = names::subject(subject);
        // In one step: two tasks may store one sign-in at the same time, and a key that is in the
        // list twice would count twice.
        let mut append = self.scripts.append.key(&list);
        append.arg(key).arg(self.ttl);
        let all: Vec<String> = self.link.script(&append).await?;
        if all.len() <= MAX_PER_SUBJECT {
            return Ok(Vec::new());
        }
        let Partition { present, absent } = self.partition(all).await?;
        let excess = present.len().saturating_sub(MAX_PER_SUBJECT);
        let oldest = present.iter().take(excess);
        for key in absent.iter().chain(oldest.clone()) {
            self.link
                .command::<i64>(cmd("LREM").arg(&list).arg(0).arg(key))
                .await?;
        }
        let revoked: Vec<_> = oldest.filter_map(|key| RecordKey::from_hex(key)).collect();
        for key in &revoked {
            self.revocations.revoke_sign_in(*key, None);
        }
        Ok(revoked)
    }

    async fn insert_by_provider_session(&self, session: &str, key: &str) -> Result<(), StoreError> {
        let set = names::provider_session(session);
        self.link
            .command::<i64>(cmd("SADD").arg(&set).arg(key))
            .await?;
        self.link
            .command::<i64>(cmd("PEXPIRE").arg(&set).arg(self.ttl))
            .await?;
        let all: Vec<String> = self.link.command(cmd("SMEMBERS").arg(&set)).await?;
        if all.len() > MAX_PER_SUBJECT {
            for key in self.partition(all).await?.absent {
                self.link
                    .command::<i64>(cmd("SREM").arg(&set).arg(key))
                    .await?;
            }
        }
        Ok(())
    }

    async fn partition(&self, keys: Vec<String>) -> Result<Partition, StoreError> {
        let mut partition = Partition::default();
        for key in keys {
            let is_present = match RecordKey::from_hex(&key) {
                Some(parsed) => {
                    let name = names::record(RecordKind::SignIn, parsed);
                    self.link.command::<i64>(cmd("EXISTS").arg(name)).await? > 0
                }
                None => false,
            };
            if is_present {
                partition.present.push(key);
            } else {
                partition.absent.push(key);
            }
        }
        Ok(partition)
    }

    /// The sign-ins of a person, oldest first; some may be expired.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub(crate) async fn of_subject(&self, subject: &str) -> Result<Vec<RecordKey>, StoreError> {
        let list = names::subject(subject);
        let keys: Vec<String> = self
            .link
            .command(cmd("LRANGE").arg(list).arg(0).arg(-1))
            .await?;
        Ok(parsed(&keys))
    }

    /// The sign-ins of a session of the provider; some may be expired.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub(crate) async fn of_provider_session(
        &self,
        session: &str,
    ) -> Result<Vec<RecordKey>, StoreError> {
        let set = names::provider_session(session);
        let keys: Vec<String> = self.link.command(cmd("SMEMBERS").arg(set)).await?;
        Ok(parsed(&keys))
    }
}

fn parsed(keys: &[String]) -> Vec<RecordKey> {
    keys.iter()
        .filter_map(|key| RecordKey::from_hex(key))
        .collect()
}
