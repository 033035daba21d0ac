//! Loads sessions that are not in memory from the store that replicas share.

use std::sync::Arc;

use super::{
    cookie::RecordKey,
    record::SignIn,
    redis::{RecordKind, Redis, link::StoreError},
    shared::StoreUnavailable,
    store::Sessions,
    written::Remaining,
};
use crate::model::{client::Client, lookup_limit::Attempt};

/// Why sessions were not loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionLoadError {
    /// The store cannot be asked now.
    Unavailable,
    /// This client has looked up too many unknown sessions.
    TooManyUnknown,
}

impl<E: Into<StoreUnavailable>> From<E> for SessionLoadError {
    fn from(error: E) -> SessionLoadError {
        let StoreUnavailable = error.into();
        SessionLoadError::Unavailable
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
    ) -> Result<(), SessionLoadError> {
        let Some(redis) = self.redis() else {
            return Ok(());
        };
        let now = self.now();
        let apps = app_cookies
            .filter_map(RecordKey::parse)
            .map(|key| (RecordKind::AppSession, key));
        let sign_ins = sign_in_cookies
            .filter_map(RecordKey::parse)
            .map(|key| (RecordKind::SignIn, key));
        let is_here = |table: RecordKind, key: &RecordKey| match table {
            RecordKind::AppSession => self
                .app_by_key(key)
                .is_some_and(|session| session.is_live(now)),
            RecordKind::SignIn => self
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
                attempts.into_iter().for_each(Attempt::found);
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
                RecordKind::AppSession => self.bring_app(redis, *key).await?,
                RecordKind::SignIn => drop(self.bring_sign_in(redis, *key).await?),
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
    ) -> Result<Vec<Attempt>, SessionLoadError> {
        let Some(client) = client.limit_key else {
            return Ok(Vec::new());
        };
        let mut attempts = Vec::with_capacity(count);
        while attempts.len() < count {
            match redis.limit().attempt(client) {
                Some(attempt) => attempts.push(attempt),
                None => {
                    // Nothing is looked up, so nothing was spent.
                    attempts.into_iter().for_each(Attempt::found);
                    return Err(SessionLoadError::TooManyUnknown);
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
                let left = Remaining {
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
