//! Writes sessions to Redis. A new session is written before its cookie is sent.

use std::{cmp::Ordering, sync::Arc};

use super::loader::SessionLoader;
use crate::{
    ops::redis::StoreError,
    session::{
        record::{AppSession, SignIn},
        redis::{
            Redis,
            announcement::Announcement,
            names::RecordKind,
            records::{SavedSignIn, StoredState},
        },
        store::SessionStore,
    },
};

/// Writes records to Redis, and applies the replies to memory.
pub(crate) struct SessionWriter {
    store: Arc<SessionStore>,
    redis: Arc<Redis>,
    loader: Arc<SessionLoader>,
}

impl SessionWriter {
    pub(super) fn new(
        store: Arc<SessionStore>,
        redis: Arc<Redis>,
        loader: Arc<SessionLoader>,
    ) -> SessionWriter {
        SessionWriter {
            store,
            redis,
            loader,
        }
    }

    /// Writes a sign-in. During an outage it is marked, and written later.
    pub(super) async fn save(&self, sign_in: &Arc<SignIn>) {
        match self.redis.records.save_sign_in(sign_in).await {
            Ok(SavedSignIn { state, revoked }) => {
                match state {
                    StoredState::Revoked => self.store.revoke_local(sign_in),
                    StoredState::Live { version, .. } if version > sign_in.version() => {
                        self.loader.reload(sign_in).await;
                    }
                    StoredState::Live { .. } | StoredState::Missing => {}
                }
                for key in revoked {
                    if let Some(sign_in) = self.store.sign_in_by_key(&key) {
                        self.store.revoke_local(&sign_in);
                    }
                }
            }
            Err(StoreError::Unavailable | StoreError::WrongType) => {
                sign_in.deadlines().mark_unstored();
            }
        }
    }

    /// Writes an app session, and its sign-in if Redis does not have it.
    pub(super) async fn save_app_session(&self, session: &Arc<AppSession>) {
        let sign_in = session.sign_in();
        if sign_in.tokens.console.is_some() {
            return;
        }
        if !sign_in.is_stored() {
            self.save(sign_in).await;
        }
        if self.redis.records.save_app_session(session).await.is_err() {
            session.deadlines().mark_unstored();
        }
    }

    /// Writes a changed sign-in and announces the change to the other replicas.
    pub(super) async fn save_changed(&self, sign_in: &Arc<SignIn>) {
        self.save(sign_in).await;
        let changed = Announcement::Changed(sign_in.key());
        let _ = self.redis.link.publish(&changed.to_string()).await;
    }

    /// Exchanges the idle deadline of a sign-in with Redis, or writes the sign-in if Redis does not
    /// have it. Returns whether that succeeded.
    pub(super) async fn sync_sign_in(&self, sign_in: Arc<SignIn>) -> bool {
        if !sign_in.is_stored() {
            self.save(&sign_in).await;
            return sign_in.is_stored() || sign_in.is_revoked();
        }
        let now = self.store.clock().now();
        let remaining = sign_in.remaining(now);
        let records = &self.redis.records;
        match records
            .touch(RecordKind::SignIn, sign_in.key(), remaining)
            .await
        {
            Ok(StoredState::Live { idle, version }) => {
                sign_in.deadlines().merge_stored(now, idle);
                match version.cmp(&sign_in.version()) {
                    Ordering::Greater => self.loader.reload(&sign_in).await,
                    // Redis has lost a change that was written.
                    Ordering::Less => self.save(&sign_in).await,
                    Ordering::Equal => {}
                }
            }
            Ok(StoredState::Missing) => {
                sign_in.deadlines().mark_unstored();
                self.save(&sign_in).await;
            }
            Ok(StoredState::Revoked) => self.store.revoke_local(&sign_in),
            Err(StoreError::Unavailable) => return false,
            // A retry would not help.
            Err(StoreError::WrongType) => return true,
        }
        sign_in.is_stored() || sign_in.is_revoked()
    }

    /// As [`SessionWriter::sync_sign_in`], for an app session.
    pub(super) async fn sync_app_session(&self, session: Arc<AppSession>) -> bool {
        if !session.deadlines().is_stored() {
            self.save_app_session(&session).await;
            return session.deadlines().is_stored() || session.is_revoked();
        }
        let now = self.store.clock().now();
        let remaining = session.remaining(now);
        let records = &self.redis.records;
        match records
            .touch(RecordKind::AppSession, session.key(), remaining)
            .await
        {
            Ok(StoredState::Live { idle, .. }) => session.deadlines().merge_stored(now, idle),
            Ok(StoredState::Missing | StoredState::Revoked) => {
                session.deadlines().mark_unstored();
                self.save_app_session(&session).await;
            }
            Err(StoreError::Unavailable) => return false,
            Err(StoreError::WrongType) => return true,
        }
        session.deadlines().is_stored() || session.is_revoked()
    }
}
