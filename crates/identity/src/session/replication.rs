//! Sessions that replicas share: memory in front, Redis behind (docs/behaviour.md#sessions).
//!
//! Sessions in memory need no round trip. Unknown session ids are loaded from Redis. New sessions
//! are written to Redis before the browser gets its cookie. Revocations are published to the other
//! replicas. While Redis is unavailable, sessions in memory stay valid, and clients with unknown
//! ids get 503 and are not sent to sign in. Without Redis, sessions are in memory only.

pub mod error;
mod loader;
mod provider_logout;
pub mod refresh;
mod write_behind;
mod writer;

use std::sync::Arc;

use super::{
    cookie::RecordKey,
    logout_scope::LogoutScope,
    record::{AppSession, SignIn},
    redis::{Redis, RefreshLock, announcement::Announcement},
    revoker::Revoker,
    store::SessionStore,
};
use crate::{
    model::client::Client,
    ops::redis::{LinkEvent, StoreError},
};
use error::{SessionLoadError, StoreUnavailable};
use loader::SessionLoader;
use provider_logout::ProviderLogout;
use refresh::{RefreshCoordinator, RefreshLockAttempt, RefreshPurpose};
use write_behind::{WriteBehind, WriteScope};
use writer::SessionWriter;

/// The sessions that replicas share.
pub struct Replication {
    store: Arc<SessionStore>,
    revoker: Arc<Revoker>,
    shared: Option<Shared>,
}

/// The parts that exist only with Redis.
struct Shared {
    redis: Arc<Redis>,
    loader: Arc<SessionLoader>,
    writer: Arc<SessionWriter>,
    refresh: RefreshCoordinator,
    logout: Arc<ProviderLogout>,
    write_behind: WriteBehind,
}

impl Replication {
    pub(super) fn new(
        store: Arc<SessionStore>,
        revoker: Arc<Revoker>,
        redis: Option<Arc<Redis>>,
    ) -> Replication {
        let shared = redis.map(|redis| Shared::new(&store, &revoker, redis));
        Replication {
            store,
            revoker,
            shared,
        }
    }

    /// Whether Redis is configured.
    pub fn is_enabled(&self) -> bool {
        self.shared.is_some()
    }

    /// Whether Redis is connected.
    pub fn is_connected(&self) -> bool {
        self.shared
            .as_ref()
            .is_some_and(|shared| shared.redis.link.is_up())
    }

    /// Loads the sessions of these cookies into memory, unless they are there. Unknown ids count
    /// against a limit of the client.
    ///
    /// # Errors
    /// When one of them is not in memory and cannot be looked up.
    pub async fn load<'c>(
        &self,
        app_cookies: impl Iterator<Item = &'c [u8]>,
        sign_in_cookies: impl Iterator<Item = &'c [u8]>,
        client: Client,
    ) -> Result<(), SessionLoadError> {
        match &self.shared {
            Some(shared) => {
                let loader = &shared.loader;
                loader
                    .load_cookies(app_cookies, sign_in_cookies, client)
                    .await
            }
            None => Ok(()),
        }
    }

    /// Loads all sign-ins of a person and of a session of the provider, to list or revoke them.
    ///
    /// # Errors
    /// [`StoreUnavailable`] when they cannot be looked up.
    pub async fn load_by_subject(
        &self,
        subject: Option<&str>,
        session: Option<&str>,
    ) -> Result<(), StoreUnavailable> {
        match &self.shared {
            Some(shared) => shared.loader.load_by_subject(subject, session).await,
            None => Ok(()),
        }
    }

    /// Revokes the sign-ins that a logout of a provider names, on every replica. Returns their
    /// number. Those that cannot be looked up now are revoked later.
    ///
    /// # Errors
    /// [`StoreUnavailable`] when some cannot be looked up now; those in memory are revoked.
    pub async fn revoke_by_provider(&self, scope: LogoutScope) -> Result<usize, StoreUnavailable> {
        match &self.shared {
            Some(shared) => shared.logout.revoke(scope).await,
            None => Ok(self.revoker.revoke_by_provider(&scope)),
        }
    }

    /// Revokes a sign-in that may not be in the memory of this replica.
    pub fn revoke_by_key(&self, key: RecordKey) {
        match (self.store.sign_in_by_key(&key), &self.shared) {
            (Some(sign_in), _) => self.store.revoke(&sign_in),
            (None, Some(shared)) => shared.redis.log.revoke_sign_in(key, None),
            (None, None) => {}
        }
    }

    /// Waits until a revocation is published, if Redis is connected.
    pub async fn publish_revocation(&self, sign_in: &SignIn) {
        if let Some(shared) = &self.shared {
            shared.redis.revocations.publish_one(sign_in.key()).await;
        }
    }

    /// Writes a new or changed sign-in. During an outage it is written later.
    pub async fn save(&self, sign_in: &Arc<SignIn>) {
        if let Some(shared) = &self.shared {
            shared.writer.save(sign_in).await;
        }
    }

    /// Writes a new app session, and its sign-in if Redis does not have it.
    pub async fn save_app_session(&self, session: &Arc<AppSession>) {
        if let Some(shared) = &self.shared {
            shared.writer.save_app_session(session).await;
        }
    }

    /// Writes a changed sign-in and announces the change to the other replicas.
    pub(crate) async fn save_changed(&self, sign_in: &Arc<SignIn>) {
        if let Some(shared) = &self.shared {
            shared.writer.save_changed(sign_in).await;
        }
    }

    /// The live sign-in of a key, from memory or from Redis.
    pub(super) async fn load_sign_in(
        &self,
        key: RecordKey,
    ) -> Result<Option<Arc<SignIn>>, StoreError> {
        match &self.shared {
            Some(shared) => shared.loader.load_sign_in(key).await,
            None => Ok(self.store.sign_in_by_key(&key)),
        }
    }

    /// Takes the refresh lock of a sign-in: of all replicas, one calls the provider.
    pub(crate) async fn acquire_refresh_lock(
        &self,
        sign_in: &Arc<SignIn>,
        purpose: RefreshPurpose,
    ) -> RefreshLockAttempt {
        let Some(shared) = &self.shared else {
            return RefreshLockAttempt::Acquired(None);
        };
        match shared.refresh.acquire(sign_in, purpose).await {
            Ok(attempt) => attempt,
            Err(StoreError::Unavailable | StoreError::WrongType) => RefreshLockAttempt::Unavailable,
        }
    }

    /// Releases the refresh lock, unless the result could not be stored.
    pub(crate) async fn release_refresh_lock(&self, sign_in: &SignIn, lock: Option<RefreshLock>) {
        if let (Some(shared), Some(lock)) = (&self.shared, lock) {
            shared.refresh.release(sign_in, lock).await;
        }
    }

    /// Keeps the connection and the background writes going; never returns with Redis. For the
    /// control runtime.
    pub async fn run(self: Arc<Self>) {
        let Some(shared) = &self.shared else { return };
        tokio::join!(
            shared.redis.link.run(|event| self.on_link_event(event)),
            shared.write_behind.run_revocations(),
            shared.write_behind.run_records(),
        );
    }

    fn on_link_event(&self, event: LinkEvent) {
        let Some(shared) = &self.shared else { return };
        match event {
            LinkEvent::Message(text) => self.apply_announcement(shared, &text),
            LinkEvent::Connected => shared.redis.epoch.on_connected(),
        }
    }

    fn apply_announcement(&self, shared: &Shared, text: &[u8]) {
        match Announcement::parse(text) {
            Some(Announcement::Revoked(key, when)) => {
                shared.redis.log.record_sign_in(key, when);
                let known = self.store.sign_in_by_key(&key);
                if let Some(sign_in) = known.filter(|sign_in| sign_in.started_at() <= when) {
                    self.store.revoke_local(&sign_in);
                }
            }
            Some(Announcement::Changed(key)) => {
                if let Some(known) = self.store.sign_in_by_key(&key) {
                    let loader = shared.loader.clone();
                    tokio::spawn(async move { loader.reload(&known).await });
                }
            }
            Some(Announcement::AppRevoked(app, when)) => {
                shared.redis.log.record_app(&app, when);
                let revoker = self.revoker.clone();
                tokio::spawn(async move { revoker.revoke_app_local(&app, when).await });
            }
            Some(Announcement::Emptied) => shared.redis.epoch.request_resync(),
            None => tracing::debug!("unknown announcement on the session channel"),
        }
    }

    /// Writes everything that Redis does not have, before the process stops.
    pub async fn flush(&self) {
        let Some(shared) = &self.shared else { return };
        shared.redis.revocations.publish_all().await;
        shared.logout.retry_deferred().await;
        let _ = shared.write_behind.write(WriteScope::Unsaved).await;
    }
}

impl Shared {
    fn new(store: &Arc<SessionStore>, revoker: &Arc<Revoker>, redis: Arc<Redis>) -> Shared {
        let loader = Arc::new(SessionLoader::new(store.clone(), redis.clone()));
        let writer = Arc::new(SessionWriter::new(
            store.clone(),
            redis.clone(),
            loader.clone(),
        ));
        let logout = Arc::new(ProviderLogout::new(
            store.clone(),
            revoker.clone(),
            redis.clone(),
            loader.clone(),
        ));
        Shared {
            refresh: RefreshCoordinator::new(
                store.clone(),
                redis.clone(),
                loader.clone(),
                writer.clone(),
            ),
            write_behind: WriteBehind::new(
                store.clone(),
                redis.clone(),
                writer.clone(),
                logout.clone(),
            ),
            redis,
            loader,
            writer,
            logout,
        }
    }
}

impl std::fmt::Debug for Replication {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Replication(enabled: {})", self.is_enabled())
    }
}
