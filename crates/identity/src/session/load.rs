//! Loads sessions that are not in memory from the store that replicas share.

use std::sync::Arc;

use super::{
    cookie::RecordKey,
    record::SignIn,
    redis::{Redis, Table, link::StoreError},
    shared::Away,
    store::Sessions,
    written::Left,
};
use crate::model::{client::Client, lookup_limit::LookupPermit};

/// Why sessions were not loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotLoaded {
    /// The store cannot be asked now.
    Away,
    /// This client has looked up too many unknown sessions.
    TooMany,
}

impl<E: Into<Away>> From<E> for NotLoaded {
    fn from(error: E) -> NotLoaded {
        let Away = error.into();
        NotLoaded::Away
    }
}

impl Sessions {
    /// Loads the sessions of these cookies into memory, unless they are there. Unknown ids count
    /// against a limit of the client that presents them.
    ///
    /// # Errors
    /// When one of them is not in memory and cannot be asked for.
    pub async fn bring<'c>(
        &self,
        app_cookies: impl Iterator<Item = &'c [u8]>,
        sign_in_cookies: impl Iterator<Item = &'c [u8]>,
        client: Client,
    ) -> Result<(), NotLoaded> {
        let Some(redis) = self.redis() else {
            return Ok(());
        };
        let now = self.now();
        let apps = app_cookies
            .filter_map(RecordKey::of)
            .map(|key| (Table::Apps, key));
        let sign_ins = sign_in_cookies
            .filter_map(RecordKey::of)
            .map(|key| (Table::SignIns, key));
        let is_here = |table: Table, key: &RecordKey| match table {
            Table::Apps => self
                .app_by_key(key)
                .is_some_and(|session| session.is_live(now)),
            Table::SignIns => self
                .sign_in_by_key(key)
                .is_some_and(|sign_in| sign_in.is_live(now)),
        };
        let unknown: Vec<_> = apps
            .chain(sign_ins)
            .filter(|(table, key)| !is_here(*table, key) && !redis.is_known_missing(key))
            .collect();
        if unknown.is_empty() {
            return Ok(());
        }
        let attempts = self.attempts(redis, client, unknown.len())?;
        let stored = match redis.are_stored(&unknown).await {
            Ok(stored) => stored,
            Err(error) => {
                // That nothing is known of it is not the client's fault.
                attempts.into_iter().for_each(LookupPermit::found);
                return Err(error.into());
            }
        };
        let looked_up = stored.iter().zip(attempts);
        looked_up
            .filter(|(is_stored, _)| **is_stored)
            .for_each(|(_, attempt)| attempt.found());
        for ((table, key), _) in unknown
            .iter()
            .zip(stored)
            .filter(|(_, is_stored)| *is_stored)
        {
            match table {
                Table::Apps => self.bring_app(redis, *key).await?,
                Table::SignIns => drop(self.bring_sign_in(redis, *key).await?),
            }
        }
        Ok(())
    }

    /// Leave for so many look-ups. Clients that a proxy does not name cannot be told apart: only
    /// the number of look-ups that are under way bounds them.
    fn attempts(
        &self,
        redis: &Redis,
        client: Client,
        count: usize,
    ) -> Result<Vec<LookupPermit>, NotLoaded> {
        let Some(client) = client.limit_key else {
            return Ok(Vec::new());
        };
        let mut attempts = Vec::with_capacity(count);
        while attempts.len() < count {
            match redis.limit().acquire(client) {
                Some(attempt) => attempts.push(attempt),
                None => {
                    // Nothing is looked up, so nothing was spent.
                    attempts.into_iter().for_each(LookupPermit::found);
                    return Err(NotLoaded::TooMany);
                }
            }
        }
        Ok(attempts)
    }

    async fn bring_app(&self, redis: &Redis, key: RecordKey) -> Result<(), StoreError> {
        let Some((stored, idle)) = redis.load_app(key).await? else {
            return Ok(());
        };
        let Some(sign_in) = self.bring_sign_in(redis, stored.sign_in()).await? else {
            return Ok(());
        };
        let now = self.now();
        let known = self.app_by_key(&key).filter(|session| !session.is_ended());
        match (known, stored.app.read()) {
            (Some(session), _) => session.window().extend(now, idle),
            (None, Some(of)) => {
                let left = Left {
                    idle,
                    absolute: sign_in.time_left(now).absolute,
                };
                self.mint_restored(key, &sign_in, of, (left, stored.begun));
                if let Some(session) = self.app_by_key(&key) {
                    session.window().extend(now, idle);
                }
            }
            (None, None) => {}
        }
        Ok(())
    }

    /// The live sign-in of a key, from memory or from the store.
    pub(super) async fn bring_sign_in(
        &self,
        redis: &Redis,
        key: RecordKey,
    ) -> Result<Option<Arc<SignIn>>, StoreError> {
        let known = self.sign_in_by_key(&key);
        if let Some(known) = known.filter(|sign_in| sign_in.is_live(self.now())) {
            return Ok(Some(known));
        }
        let Some((stored, left)) = redis.load_sign_in(key).await? else {
            return Ok(None);
        };
        Ok(self.take_in(redis, key, stored, left))
    }
}
