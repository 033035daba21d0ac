//! Sign-ins and app sessions: who a user is, for how long, and for which app.
//!
//! A session never grants access by itself. Records hold their own deadlines (`record`), the memory
//! store bounds their number (`store`), replicas share them (`replication`, `redis`), and cookies
//! carry a random id (`cookie`). State that the browser carries between two requests is sealed
//! (`keys`).

pub mod access_token;
mod app_session_id;
mod app_sessions;
pub mod browser_binding;
mod by_subject;
pub mod console_token;
pub mod cookie;
pub mod deadlines;
pub mod handoff_file;
pub mod identity_check;
pub mod keys;
pub mod live;
pub mod logout_scope;
pub mod metrics;
mod negative_cache;
pub mod passthrough_hasher;
pub mod provider_tokens;
mod recently_expired;
pub mod record;
pub mod redis;
pub mod remaining;
pub mod replication;
mod revocation_log;
pub mod revoker;
pub mod settings;
mod sign_ins;
pub mod store;
pub mod stored;
pub mod ticket;
pub mod tickets;
pub mod usage;
pub mod used_tokens;

use std::sync::Arc;

use crate::model::{clock::Clock, policy_changes::PolicyChanges};
use metrics::SessionMetrics;
use redis::Redis;
use replication::Replication;
use revoker::Revoker;
pub use settings::SessionSettings;
use store::SessionStore;
use tickets::Tickets;
use used_tokens::UsedTokens;

/// The sessions of this process, one part for each subject.
#[derive(Debug)]
pub struct Sessions {
    /// The records in memory.
    pub store: Arc<SessionStore>,
    /// Revocation of many sessions at once.
    pub revoker: Arc<Revoker>,
    /// The sessions that replicas share.
    pub replication: Arc<Replication>,
    /// Tickets, which extend a sign-in on the site to other origins.
    pub tickets: Tickets,
    /// Tokens that work once.
    pub used_tokens: UsedTokens,
}

impl Sessions {
    /// Sessions in the memory of one process.
    pub fn new(
        settings: SessionSettings,
        clock: Clock,
        policy_changes: PolicyChanges,
        metrics: Arc<SessionMetrics>,
    ) -> Sessions {
        Sessions::build(settings, clock, policy_changes, metrics, None)
    }

    /// Sessions that several replicas share through Redis.
    pub fn replicated(
        settings: SessionSettings,
        clock: Clock,
        policy_changes: PolicyChanges,
        metrics: Arc<SessionMetrics>,
        redis: Redis,
    ) -> Sessions {
        Sessions::build(
            settings,
            clock,
            policy_changes,
            metrics,
            Some(Arc::new(redis)),
        )
    }

    fn build(
        settings: SessionSettings,
        clock: Clock,
        policy_changes: PolicyChanges,
        metrics: Arc<SessionMetrics>,
        redis: Option<Arc<Redis>>,
    ) -> Sessions {
        let log = redis.as_ref().map(|redis| redis.log.clone());
        let store = Arc::new(SessionStore::new(
            settings,
            clock.clone(),
            policy_changes,
            metrics,
            log,
        ));
        let revoker = Arc::new(Revoker::new(store.clone()));
        let replication = Arc::new(Replication::new(
            store.clone(),
            revoker.clone(),
            redis.clone(),
        ));
        Sessions {
            store,
            revoker,
            tickets: Tickets::new(replication.clone(), redis.clone(), clock.clone()),
            replication,
            used_tokens: UsedTokens::new(redis),
        }
    }

    /// Removes expired and revoked records. Runs on the control runtime.
    ///
    /// Cancel safety: may be dropped at any point.
    pub async fn sweep(&self) {
        self.store.sweep().await;
        self.tickets.sweep();
    }
}
