//! Starts sign-in: the provider's client, the sessions with their store, and rechecks.

use std::{sync::Arc, time::Duration};

use super::{context::Context, error::StartError};
use crate::{
    caller::{Callers, bearer::BearerTokens, source::CredentialSource},
    identity::{
        oidc::{Oidc, OidcSettings},
        rechecks::Rechecks,
    },
    integrations::console::ConsoleTokens,
    model::{clock::Clock, site::Site},
    ops::{file_watch, http_client::CallCounter},
    session::{SessionSettings, Sessions, keys::KeyRing, metrics::SessionMetrics, redis::Redis},
};

/// Expired sessions are removed at this interval.
const SWEEP_INTERVAL: Duration = Duration::from_secs(60);

/// The provider's client and the sessions. Without a provider only public apps are reachable.
pub(super) struct Identity {
    pub(super) oidc: Option<Arc<Oidc>>,
    pub(super) sessions: Arc<Sessions>,
    pub(super) rechecks: Option<Arc<Rechecks>>,
}

impl Identity {
    /// Callers by session, by bearer token, by the console's token, then by these sources.
    pub(super) fn callers(
        &self,
        others: Vec<Arc<dyn CredentialSource>>,
        context: &Context,
    ) -> Callers {
        let clock = &context.clock;
        let sessions = &self.sessions;
        let bearer = |oidc| Arc::new(BearerTokens::new(oidc, context.control.clone()));
        let bearer = self.oidc.clone().map(bearer);
        let mut sources: Vec<Arc<dyn CredentialSource>> = Vec::new();
        if let Some(bearer) = &bearer {
            let console = ConsoleTokens::new(bearer.clone(), sessions.clone(), clock.clone());
            sources.push(Arc::new(console));
        }
        sources.extend(others);
        let rechecks = self.rechecks.clone();
        Callers::new(sessions.clone(), rechecks, bearer, sources, clock.clone())
    }
}

/// Makes the client and the sessions, and starts the tasks that keep them current.
pub(super) fn start(
    provider: Option<OidcSettings>,
    session: SessionSettings,
    site: &Arc<Site>,
    keys: &Arc<KeyRing>,
    context: &Context,
) -> Result<Identity, StartError> {
    let oidc = provider
        .map(|provider| provider_client(provider, site, keys, context))
        .transpose()?;
    let sessions = sessions(session, keys, context);
    tokio::spawn(sessions.replication.clone().run());
    let rechecks = oidc.as_ref().map(|oidc| {
        Arc::new(Rechecks::new(
            oidc.clone(),
            sessions.clone(),
            context.policy_changes.clone(),
            context.clock.clone(),
            context.control.clone(),
        ))
    });
    if keys.may_change() {
        tokio::spawn(poll_keys(keys.clone(), context.clock.clone()));
    }
    if let Some(oidc) = oidc.clone() {
        tokio::spawn(async move { oidc.keep_informed().await });
    }
    tokio::spawn(sweep(sessions.clone(), context.clock.clone()));
    Ok(Identity {
        oidc,
        sessions,
        rechecks,
    })
}

fn provider_client(
    provider: OidcSettings,
    site: &Arc<Site>,
    keys: &Arc<KeyRing>,
    context: &Context,
) -> Result<Arc<Oidc>, StartError> {
    let calls = CallCounter::register(
        &context.process.registry,
        "oidc_requests",
        "Calls to the identity provider",
    );
    let oidc = Oidc::new(provider, site, keys.clone(), context.clock.clone(), calls)?;
    Ok(Arc::new(oidc))
}

fn sessions(session: SessionSettings, keys: &Arc<KeyRing>, context: &Context) -> Arc<Sessions> {
    let metrics = Arc::new(SessionMetrics::register(&context.process.registry));
    let clock = context.clock.clone();
    let policy_changes = context.policy_changes.clone();
    let Some(store) = session.store.clone() else {
        return Arc::new(Sessions::new(session, clock, policy_changes, metrics));
    };
    let lifetime = session.lifetime;
    let redis = Redis::new(
        store,
        keys.clone(),
        clock.clone(),
        metrics.clone(),
        lifetime,
    );
    Arc::new(Sessions::replicated(
        session,
        clock,
        policy_changes,
        metrics,
        redis,
    ))
}

async fn sweep(sessions: Arc<Sessions>, clock: Clock) {
    loop {
        clock.sleep(SWEEP_INTERVAL).await;
        sessions.sweep().await;
    }
}

async fn poll_keys(keys: Arc<KeyRing>, clock: Clock) {
    file_watch::poll(clock, || match keys.renew() {
        Ok(false) => {}
        Ok(true) => tracing::info!("reloaded the session keys"),
        Err(error) => {
            tracing::warn!(%error, "cannot load the changed session keys; the old ones stay in use");
        }
    })
    .await;
}
