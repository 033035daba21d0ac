//! The only access of tests to the internals of a running gateway. Only with the cargo feature
//! `testing`, which the package enables for its own tests and never for its binary.
//!
//! Invariant: each internal that a test needs has a method here, so that modules can change without
//! the tests.

use std::sync::Arc;

use tokio::sync::watch;

use crate::{
    catalog::snapshot::Snapshot,
    gateway::Gateway,
    identity::oidc::Oidc,
    model::{clock::Moment, principal::Principal},
    run::Running,
    session::record::SignIn,
};

/// The internals of a running gateway; clones share them.
#[derive(Clone)]
pub struct Internals(Arc<Gateway>);

/// A live sign-in.
pub struct FoundSignIn {
    sign_in: Arc<SignIn>,
    gateway: Arc<Gateway>,
}

impl Running {
    /// The internals, for tests.
    pub fn internals(&self) -> Internals {
        Internals(self.gateway.clone())
    }
}

impl Internals {
    /// The apps as requests see them now.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.0.catalog.load()
    }

    /// Replaces all apps, as a reload does.
    pub fn publish(&self, next: Snapshot) {
        self.0.catalog.publish(next);
    }

    /// Changes whenever access may have changed.
    pub fn policy_changes(&self) -> watch::Receiver<u64> {
        self.0.policy_changes.subscribe()
    }

    /// Has the open streams checked again now.
    pub fn recheck_streams(&self) {
        self.0.policy_changes.notify();
    }

    /// The gateway's monotonic time.
    pub fn now(&self) -> Moment {
        self.0.clock.now()
    }

    /// The gateway's wall clock, in seconds since 1970.
    pub fn wall_seconds(&self) -> i64 {
        self.0.clock.wall_seconds()
    }

    /// Whether the metadata of all providers is known, so that people can sign in. False without
    /// an `[identity]` section.
    pub fn is_provider_known(&self) -> bool {
        let is_known = |oidc: &Arc<Oidc>| oidc.providers.iter().all(|it| it.is_ready());
        self.0.oidc.as_ref().is_some_and(is_known)
    }

    /// Sign-ins and app sessions in memory.
    pub fn session_count(&self) -> u64 {
        self.0.sessions.store.count()
    }

    /// Whether a session in memory would be alive at a given time.
    pub fn any_session_at(&self, at: Moment) -> bool {
        self.0.sessions.store.any_live_at(at)
    }

    /// The live sign-in that a cookie value stands for.
    pub fn sign_in(&self, cookie: &str) -> Option<FoundSignIn> {
        let presented = [cookie.as_bytes()].into_iter();
        let sign_in = self.0.sessions.store.find_sign_in(presented, self.now())?;
        Some(FoundSignIn {
            sign_in,
            gateway: self.0.clone(),
        })
    }

    /// Removes expired sessions from memory, as the gateway does every minute.
    pub async fn sweep_sessions(&self) {
        self.0.sessions.sweep().await;
    }

    /// Streams in the tables of the data threads.
    pub fn open_streams(&self) -> i64 {
        self.0.metrics.streams.get()
    }

    /// Streams that were ended because access to them ended.
    pub fn streams_cut(&self) -> u64 {
        self.0.metrics.streams_cut.get()
    }

    /// Requests under way.
    pub fn requests_in_flight(&self) -> i64 {
        self.0.metrics.requests.in_flight.get()
    }

    /// Open connections to apps.
    pub fn upstream_connections(&self) -> i64 {
        self.0.forward_metrics.upstream_connections.get()
    }
}

impl FoundSignIn {
    /// Ends it with its app sessions and streams.
    pub fn end(&self) {
        self.gateway.sessions.store.revoke(&self.sign_in);
    }

    /// When its groups were last read.
    pub fn confirmed_at(&self) -> Moment {
        self.sign_in.check().confirmed_at()
    }

    /// The provider's id of the session (`sid`).
    pub fn provider_session(&self) -> Option<String> {
        self.sign_in.tokens.session_id.clone().map(Into::into)
    }

    /// Replaces what is known of the person, as a recheck does.
    pub fn set_principal(&self, principal: Principal) {
        let now = self.gateway.clock.now();
        self.sign_in.update_principal(Arc::new(principal), now);
    }

    /// Marks it as not stored yet.
    pub fn forget_stored(&self) {
        self.sign_in.deadlines().mark_unstored();
    }

    /// Writes it to the shared store.
    pub async fn store(&self) {
        self.gateway.sessions.replication.save(&self.sign_in).await;
    }
}
