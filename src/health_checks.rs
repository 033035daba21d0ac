//! Health checks of upstreams, in the background: an upstream that fails its check gets no requests
//! until it passes again.
//!
//! A check needs no permit: the configuration fixes its target, it carries no identity, and nothing
//! of its response reaches a client.

mod metrics;
mod probe;

use std::{collections::HashMap, pin::pin, sync::Arc, time::Instant};

use tokio::{
    sync::{Semaphore, watch},
    task::JoinSet,
    time::{MissedTickBehavior, interval},
};

use crate::{
    catalog::{Catalog, snapshot::Snapshot},
    forward::app_tls,
    model::{
        app::{App, AppId, UpstreamScheme},
        error_cause::chain_text,
        health_check::{CheckChange, HealthCheck},
        upstream_group::UpstreamGroup,
    },
    ops::{
        drain::DrainPhase,
        metrics::{AppLabels, Registry},
    },
};
use metrics::HealthMetrics;
use probe::{Probe, ProbeError};

/// Maximum number of checks at one time, each with one connection. Others wait for their turn.
const MAX_CONNECTIONS: usize = 32;

/// The checks of all published apps.
pub struct HealthChecks {
    catalog: Catalog,
    shared: Arc<Shared>,
    apps: HashMap<AppId, CheckedApp>,
}

/// What all checks share.
struct Shared {
    connections: Semaphore,
    metrics: HealthMetrics,
}

/// The checks of one app. Dropping it ends them.
struct CheckedApp {
    app: Arc<App>,
    _tasks: JoinSet<()>,
}

impl HealthChecks {
    /// No checks yet; they begin with [`HealthChecks::run`].
    pub fn new(catalog: Catalog, app_labels: AppLabels, registry: &Registry) -> HealthChecks {
        HealthChecks {
            catalog,
            shared: Arc::new(Shared {
                connections: Semaphore::new(MAX_CONNECTIONS),
                metrics: HealthMetrics::register(registry, app_labels),
            }),
            apps: HashMap::new(),
        }
    }

    /// Checks the apps that are published, until the process stops. `changes` is notified with
    /// every change of the catalogue.
    pub async fn run(
        mut self,
        mut changes: watch::Receiver<u64>,
        mut phase: watch::Receiver<DrainPhase>,
    ) {
        let mut stopping = pin!(async move {
            // A dropped sender means that the process ends.
            let _ = phase.wait_for(|now| *now >= DrainPhase::Stopping).await;
        });
        let mut followed: Option<Arc<Snapshot>> = None;
        loop {
            let snapshot = self.catalog.load();
            // Revocations of sessions are changes too, and much more frequent.
            let is_new = !followed
                .as_ref()
                .is_some_and(|followed| Arc::ptr_eq(followed, &snapshot));
            if is_new {
                self.follow(&snapshot);
                followed = Some(snapshot);
            }
            tokio::select! {
                () = stopping.as_mut() => return,
                changed = changes.changed() => if changed.is_err() { return },
            }
        }
    }

    /// Ends the checks of apps that are gone or changed, and begins those of new ones.
    fn follow(&mut self, snapshot: &Snapshot) {
        let shared = &self.shared;
        self.apps.retain(|id, checked| {
            let now = snapshot.find(id.as_str());
            let stays = now.is_some_and(|app| Arc::ptr_eq(app, &checked.app));
            if !stays {
                shared.metrics.remove(id);
            }
            stays
        });
        for app in snapshot.apps() {
            if let (Some(check), Some(group)) = (&app.spec.health, &app.group)
                && !self.apps.contains_key(app.id())
            {
                let checked = CheckedApp::start(app, check, group, &self.shared);
                self.apps.insert(app.id().clone(), checked);
            }
        }
    }
}

impl CheckedApp {
    fn start(
        app: &Arc<App>,
        check: &HealthCheck,
        group: &UpstreamGroup,
        shared: &Arc<Shared>,
    ) -> CheckedApp {
        let tls = match app.spec.upstream.scheme {
            UpstreamScheme::Https => app_tls::app_client(&app.spec).map(Some),
            UpstreamScheme::Http
            | UpstreamScheme::Unix(_)
            | UpstreamScheme::Pods(_)
            | UpstreamScheme::Attested(_) => Ok(None),
        };
        let tls = tls.map_err(|error| chain_text(&error));
        shared.metrics.set(app.id(), group);
        let mut tasks = JoinSet::new();
        for index in 0..group.members().len() {
            let probe = Probe {
                app: app.clone(),
                index,
                check: check.clone(),
                tls: tls.clone(),
            };
            tasks.spawn(repeat(probe, shared.clone()));
        }
        CheckedApp {
            app: app.clone(),
            _tasks: tasks,
        }
    }
}

/// Checks one upstream again and again.
async fn repeat(probe: Probe, shared: Arc<Shared>) {
    let mut ticks = interval(probe.check.interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        // Never closed.
        let Ok(permit) = shared.connections.acquire().await else {
            return;
        };
        let result = probe.run().await;
        drop(permit);
        shared.record(&probe, result);
    }
}

impl Shared {
    fn record(&self, probe: &Probe, result: Result<(), ProbeError>) {
        let app = &probe.app;
        let Some(group) = &app.group else { return };
        let member = group.members().get(probe.index);
        let Some(record) = member.and_then(|member| member.check.as_ref()) else {
            return;
        };
        let now = Instant::now();
        if result.is_ok() {
            group.record_connection(probe.index, true, now);
        }
        let result = result.map_err(|error| chain_text(&error));
        let Some(change) = record.record(result, probe.check.failures, now) else {
            return;
        };
        self.metrics.set(app.id(), group);
        let upstream = app.upstream_at(probe.index);
        match change {
            CheckChange::Fails(cause) => tracing::warn!(
                app = %app.id(), %upstream, error = %cause, "an upstream fails its health check"
            ),
            CheckChange::Passes(failed_for) => tracing::warn!(
                app = %app.id(), %upstream, failed_for_s = failed_for.as_secs(),
                "an upstream passes its health check again"
            ),
        }
    }
}
