//! Revocations that need a look into Redis: logouts of the provider, which name a person, and app
//! revocations that were announced while there was no connection.

use std::{collections::HashSet, sync::Arc};

use super::{error::StoreUnavailable, loader::SessionLoader};
use crate::{
    model::app::AppId,
    ops::redis::StoreError,
    session::{
        redis::Redis, revocation_log::DeferredLogout, revoker::Revoker, store::SessionStore,
    },
};

/// Applies revocations to sessions that may be in Redis only.
pub(crate) struct ProviderLogout {
    store: Arc<SessionStore>,
    revoker: Arc<Revoker>,
    redis: Arc<Redis>,
    loader: Arc<SessionLoader>,
}

impl ProviderLogout {
    pub(super) fn new(
        store: Arc<SessionStore>,
        revoker: Arc<Revoker>,
        redis: Arc<Redis>,
        loader: Arc<SessionLoader>,
    ) -> ProviderLogout {
        ProviderLogout {
            store,
            revoker,
            redis,
            loader,
        }
    }

    /// Revokes the sign-ins that a logout names, on every replica. During an outage the rest is
    /// deferred.
    pub(super) async fn revoke(
        &self,
        subject: Option<&str>,
        session: Option<&str>,
    ) -> Result<usize, StoreUnavailable> {
        let revoked = self.revoker.revoke_by_provider(subject, session);
        let loaded = self
            .loader
            .load_by_subject(subject.filter(|_| session.is_none()), session)
            .await;
        if let Err(error) = loaded {
            self.redis.log.defer(DeferredLogout {
                subject: subject.map(str::to_owned),
                session: session.map(str::to_owned),
            });
            return Err(error);
        }
        Ok(revoked + self.revoker.revoke_by_provider(subject, session))
    }

    /// Repeats deferred logouts. One that fails is deferred again.
    pub(super) async fn retry_deferred(&self) {
        for DeferredLogout { subject, session } in self.redis.log.drain_deferred() {
            let _ = self.revoke(subject.as_deref(), session.as_deref()).await;
        }
    }

    /// Applies app revocations whose announcement was missed.
    pub(super) async fn apply_missed_app_revocations(&self) {
        let apps: HashSet<AppId> = self
            .store
            .app_sessions()
            .map(|session| session.app().clone())
            .collect();
        for app in apps {
            match self.redis.revocations.app_revoked_at(&app).await {
                Ok(i64::MIN) | Err(StoreError::WrongType) => {}
                Ok(when) => {
                    self.revoker.revoke_app_local(&app, when).await;
                }
                Err(StoreError::Unavailable) => return,
            }
        }
    }
}
