//! Revocations that need a look into Redis: logouts of a provider, which name a person, and app
//! revocations that were announced while there was no connection.

use std::{collections::HashSet, sync::Arc};

use super::{error::StoreUnavailable, loader::SessionLoader};
use crate::{
    model::app::AppId,
    ops::redis::StoreError,
    session::{logout_scope::LogoutScope, redis::Redis, revoker::Revoker, store::SessionStore},
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
    pub(super) async fn revoke(&self, scope: LogoutScope) -> Result<usize, StoreUnavailable> {
        let revoked = self.revoker.revoke_by_provider(&scope);
        let session = scope.session.as_deref();
        let subject = scope.subject.as_deref().filter(|_| session.is_none());
        let loaded = self.loader.load_by_subject(subject, session).await;
        if let Err(error) = loaded {
            self.redis.log.defer(scope);
            return Err(error);
        }
        Ok(revoked + self.revoker.revoke_by_provider(&scope))
    }

    /// Repeats deferred logouts. One that fails is deferred again.
    pub(super) async fn retry_deferred(&self) {
        for scope in self.redis.log.drain_deferred() {
            let _ = self.revoke(scope).await;
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
