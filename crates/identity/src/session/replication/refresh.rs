//! Refreshes of a sign-in at the provider, by one replica at a time.

use std::sync::Arc;

use super::{loader::SessionLoader, writer::SessionWriter};
use crate::{
    ops::redis::StoreError,
    session::{
        access_token::AccessTokenState,
        record::SignIn,
        redis::{Redis, RefreshLock},
        store::SessionStore,
    },
};

/// The result of an attempt to take the refresh lock of a sign-in.
pub enum RefreshLockAttempt {
    /// This replica may call the provider. Without Redis there is no lock to release.
    Acquired(Option<RefreshLock>),
    /// Another replica has refreshed the sign-in, and its result is in memory now.
    AlreadyRefreshed,
    /// Another replica is refreshing.
    HeldElsewhere,
    /// Redis is unavailable, or the connection is too new to be trusted.
    Unavailable,
}

/// What a refresh is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefreshPurpose {
    /// The person is confirmed.
    Confirmation,
    /// An app gets a new access token.
    AccessToken,
}

/// Takes and releases refresh locks.
pub(crate) struct RefreshCoordinator {
    store: Arc<SessionStore>,
    redis: Arc<Redis>,
    loader: Arc<SessionLoader>,
    writer: Arc<SessionWriter>,
}

impl RefreshCoordinator {
    pub(super) fn new(
        store: Arc<SessionStore>,
        redis: Arc<Redis>,
        loader: Arc<SessionLoader>,
        writer: Arc<SessionWriter>,
    ) -> RefreshCoordinator {
        RefreshCoordinator {
            store,
            redis,
            loader,
            writer,
        }
    }

    pub(super) async fn acquire(
        &self,
        sign_in: &Arc<SignIn>,
        purpose: RefreshPurpose,
    ) -> Result<RefreshLockAttempt, StoreError> {
        // On a new connection, newer records of other replicas may still be missing.
        let epoch = &self.redis.epoch;
        if epoch.is_connection_new() || !epoch.is_complete().await? {
            return Ok(RefreshLockAttempt::Unavailable);
        }
        let key = sign_in.key();
        let Some(lock) = self.redis.refresh_locks.acquire(key).await? else {
            return Ok(RefreshLockAttempt::HeldElsewhere);
        };
        // Read under the lock: the last holder stored its result before the release.
        match self.redis.records.load_sign_in(key).await? {
            Some((record, remaining)) => {
                self.loader.apply(key, record, remaining);
                // Another replica refreshed while this one waited. Its result may also have come
                // just before, by an announcement.
                if self.has_result(sign_in, purpose) {
                    self.redis.refresh_locks.release(lock).await;
                    return Ok(RefreshLockAttempt::AlreadyRefreshed);
                }
            }
            None => self.writer.save(sign_in).await,
        }
        // A token that works once is used only if its successor can be stored.
        if !sign_in.is_stored() {
            self.writer.save(sign_in).await;
        }
        if sign_in.is_stored() {
            return Ok(RefreshLockAttempt::Acquired(Some(lock)));
        }
        self.redis.refresh_locks.release(lock).await;
        Ok(RefreshLockAttempt::Unavailable)
    }

    /// Whether another replica has just done what a refresh is for.
    fn has_result(&self, sign_in: &SignIn, purpose: RefreshPurpose) -> bool {
        let clock = self.store.clock();
        match purpose {
            RefreshPurpose::Confirmation => {
                let confirmed_at = sign_in.check().confirmed_at();
                clock.now() < confirmed_at.after(self.store.recheck() / 2)
            }
            RefreshPurpose::AccessToken => {
                let state = sign_in.tokens.access_token_state(clock.wall_seconds());
                // An app gets no token of a person who is not confirmed.
                state == AccessTokenState::Fresh && !sign_in.check().is_required()
            }
        }
    }

    /// Releases the lock, unless the result could not be stored: another replica would present a
    /// token that was used. Then the lock expires.
    pub(super) async fn release(&self, sign_in: &SignIn, lock: RefreshLock) {
        if sign_in.is_stored() || sign_in.is_revoked() {
            self.redis.refresh_locks.release(lock).await;
        }
    }
}
