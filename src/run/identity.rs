//! Starts sign-in: the provider's client, the sessions with their store, and rechecks.

use std::{sync::Arc, time::Duration};

use super::{context::Context, error::StartError};
use crate::{
    caller::{
        Callers, bearer::BearerTokens, opaque_tokens::OpaqueTokenCredentials,
        service_tokens::ServiceTokenCredentials, source::CredentialSource,
    },
    identity::{
        oidc::{Oidc, OidcSettings},
        rechecks::Rechecks,
        service_tokens::{self, ServiceTokenSettings, ServiceTokens, redis::TokenStore},
    },
    integrations::console::ConsoleTokens,
    model::{clock::Clock, site::Site},
    ops::{file_watch, http_client::CallCounter, redis::Link},
    session::{SessionSettings, Sessions, keys::KeyRing, metrics::SessionMetrics, redis::Redis},
};

/// Expired sessions are removed at this interval.
const SWEEP_INTERVAL: Duration = Duration::from_secs(60);

/// The provider's client and the sessions. Without a provider only public apps are reachable.
pub(super) struct Identity {
    pub(super) oidc: Option<Arc<Oidc>>,
    pub(super) sessions: Arc<Sessions>,
    pub(super) rechecks: Option<Arc<Rechecks>>,
    pub(super) service_tokens: Option<Arc<ServiceTokens>>,
}

impl Identity {
    /// Callers by session, by bearer token, by service token, by opaque token, by the console's
    /// token, then by these sources.
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
        if let Some(tokens) = &self.service_tokens {
            let tokens = ServiceTokenCredentials::new(tokens.clone(), clock.clone());
            sources.push(Arc::new(tokens));
        }
        if let Some(bearer) = &bearer {
            let (oidc, control) = (bearer.oidc().clone(), context.control.clone());
            let opaque = OpaqueTokenCredentials::new(oidc, clock.clone(), control);
            sources.push(Arc::new(opaque));
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
    service_tokens: Option<ServiceTokenSettings>,
    site: &Arc<Site>,
    keys: &Arc<KeyRing>,
    context: &Context,
) -> Result<Identity, StartError> {
    let oidc = provider
        .map(|provider| provider_client(provider, site, keys, context))
        .transpose()?;
    let (sessions, link) = sessions(session, keys, context);
    let service_tokens = service_tokens
        .map(|settings| start_service_tokens(settings, link, keys, context))
        .transpose()?
        .flatten();
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
        let (trusting, further) = (oidc.clone(), oidc.clone());
        tokio::spawn(async move { oidc.keep_informed().await });
        tokio::spawn(async move { further.providers.keep_further_informed().await });
        tokio::spawn(async move { trusting.keep_trusted_informed().await });
    }
    tokio::spawn(sweep(sessions.clone(), context.clock.clone()));
    Ok(Identity {
        oidc,
        sessions,
        rechecks,
        service_tokens,
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

/// The service tokens, and the task that loads a changed file. `link` is the connection to the
/// Redis of sessions.
fn start_service_tokens(
    settings: ServiceTokenSettings,
    link: Option<Arc<Link>>,
    keys: &Arc<KeyRing>,
    context: &Context,
) -> Result<Option<Arc<ServiceTokens>>, StartError> {
    let clock = context.clock.clone();
    match (settings, link) {
        (ServiceTokenSettings::File(path), _) => {
            let tokens = Arc::new(ServiceTokens::in_file(path)?);
            let (polled, changes) = (tokens.clone(), context.policy_changes.clone());
            let interval = service_tokens::POLL_INTERVAL;
            tokio::spawn(file_watch::poll_every(interval, clock, move || {
                if polled.reload() {
                    changes.notify();
                }
            }));
            Ok(Some(tokens))
        }
        (ServiceTokenSettings::SessionStore, Some(link)) => {
            let store = TokenStore::new(link, keys.clone());
            let tokens = ServiceTokens::in_redis(store, clock, context.control.clone());
            Ok(Some(Arc::new(tokens)))
        }
        // The configuration is checked for this.
        (ServiceTokenSettings::SessionStore, None) => Ok(None),
    }
}

/// The sessions, and the connection to their Redis.
fn sessions(
    session: SessionSettings,
    keys: &Arc<KeyRing>,
    context: &Context,
) -> (Arc<Sessions>, Option<Arc<Link>>) {
    let metrics = Arc::new(SessionMetrics::register(&context.process.registry));
    let clock = context.clock.clone();
    let policy_changes = context.policy_changes.clone();
    let Some(store) = session.store.clone() else {
        let sessions = Sessions::new(session, clock, policy_changes, metrics);
        return (Arc::new(sessions), None);
    };
    let lifetime = session.lifetime;
    let redis = Redis::new(
        store,
        keys.clone(),
        clock.clone(),
        metrics.clone(),
        lifetime,
    );
    let link = redis.link().clone();
    let sessions = Sessions::replicated(session, clock, policy_changes, metrics, redis);
    (Arc::new(sessions), Some(link))
}

async fn sweep(sessions: Arc<Sessions>, clock: Clock) {
    loop {
        clock.sleep(SWEEP_INTERVAL).await;
        sessions.sweep().await;
    }
}

/// Loads sealing keys again when their file changes.
pub(super) async fn poll_keys(keys: Arc<KeyRing>, clock: Clock) {
    file_watch::poll(clock, || match keys.renew() {
        Ok(false) => {}
        Ok(true) => tracing::info!("reloaded the sealing keys"),
        Err(error) => {
            tracing::warn!(%error, "cannot load the changed sealing keys; the old ones stay in use");
        }
    })
    .await;
}
