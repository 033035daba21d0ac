//! Wires the rooms of a gateway together: from settings to a running process. Nothing here handles
//! a request.
//!
//! Requests run on one thread with a current-thread runtime per core; everything else runs on the
//! caller's runtime, the control runtime.

mod admin_listener;
pub mod api;
mod apps;
mod assertions;
mod certificates;
mod context;
pub mod controllers;
mod data_threads;
mod error;
mod handoff;
mod hub_proxy;
mod identity;
mod installations;
mod lab_files;
pub mod labs;
mod listeners;
mod running;

use std::{io, net::SocketAddr, num::NonZeroU32, sync::Arc, time::Duration};

pub use error::StartError;
pub use running::Running;

use crate::{
    body_budget::BodyBudget,
    cluster::Cluster,
    forward::{ForwardSettings, metrics::ForwardMetrics},
    gateway::{
        Gateway,
        metrics::{CLASSES, GatewayMetrics},
        sign_in_rate::SignInRate,
    },
    health_checks::HealthChecks,
    identity::assertion::AssertionSigner,
    listener::{metrics::ListenerMetrics, socket_activation::ActivatedSockets},
    model::clock::Clock,
    ops::{
        line_sink::LineSink,
        metrics::AppLabels,
        request_metrics::{DeadlineMetrics, RequestMetrics},
    },
    settings::{ApiService, Settings},
};
use api::serve_api;
use apps::{Apps, Sources};
use context::Context;
use data_threads::DataThreads;
use handoff::Handoff;
use identity::Identity;
use listeners::ListenSettings;

/// Client buckets of the sign-in rate limit are swept at this interval.
const SWEEP_INTERVAL: Duration = Duration::from_secs(60);

/// Options of a process that are not configuration.
pub struct StartOptions {
    /// The clock; tests set it by hand.
    pub clock: Clock,
    /// Number of data threads.
    pub threads: usize,
    /// Output of the request log; `None`: standard output.
    pub log: Option<Box<dyn io::Write + Send>>,
    /// Listening sockets from the service manager.
    pub inherited: ActivatedSockets,
}

impl StartOptions {
    /// The system clock, and one data thread per core.
    pub fn for_this_machine() -> StartOptions {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        StartOptions {
            clock: Clock::system(),
            threads,
            log: None,
            inherited: ActivatedSockets::default(),
        }
    }
}

/// Starts a gateway. Must run on the control runtime.
///
/// # Errors
/// See [`StartError`].
pub async fn start(settings: Settings, options: StartOptions) -> Result<Running, StartError> {
    for warning in &settings.warnings {
        tracing::warn!("{warning}");
    }
    let threads = options.threads;
    let listen = ListenSettings {
        first: settings.listen,
        peers: settings.peers,
        others: settings.more_listeners,
        admin: settings.admin,
    };
    let sockets = listeners::bind(listen, threads, options.inherited)?;
    let address = sockets.address;
    let context = Context::new(options.clock);
    let starting = context.process.ready.latch("listeners");
    let log = request_log(settings.log.requests, options.log, &context);
    let handoff_file = settings.session.hand_over.clone();
    let provider = settings.identity;
    let keys = settings.keys;
    let identity = identity::start(
        provider,
        settings.session,
        settings.service_tokens,
        &settings.site,
        &keys,
        &context,
    )?;
    let assertions = assertions::start(settings.assertion_keys, &settings.site, &context);
    let hub_proxy = hub_proxy::start(settings.hub_proxy, &context)?;
    let sources = Sources {
        site: settings.site,
        own: settings.apps,
        arvados: settings.arvados,
        kubernetes: settings.kubernetes,
        response_head: settings.forward.response_head,
        hub_routes: hub_proxy.as_ref().map(|started| started.routes.clone()),
    };
    let own_api = start_own_api(settings.api, &sources, &identity, &context).await?;
    let further = hub_proxy.as_ref().map(|started| started.address);
    let further = further.into_iter().chain(own_api).map(|it| it.port());
    let forward = ForwardSettings {
        own_ports: sockets.ports()?.into_iter().chain(further).collect(),
        ..settings.forward
    };
    let (apps, own_apps) = apps::start(sources, &identity, &context).await?;
    let metrics = ServerMetrics::register(&context);
    let gateway = Arc::new(build_gateway(GatewayParts {
        identity,
        assertions,
        apps,
        forward,
        sign_ins: settings.sign_ins,
        anonymous_use_interval: settings.anonymous_use_interval,
        app_labels: settings.app_labels,
        log,
        metrics: &metrics,
        context: &context,
    }));
    tokio::spawn(sweep_sign_in_rate(gateway.clone()));
    start_health_checks(&gateway, settings.app_labels, &context);
    let handoff = handoff_file.map(|file| Handoff::start(file, keys, &gateway));
    let metrics = metrics.register_listeners(&context);
    let (admin, per_thread) = sockets.start(threads, &gateway, &metrics, &context)?;
    let drain = &context.process.drain;
    let threads = DataThreads::start(per_thread, &gateway, &metrics, drain).await?;
    starting.release();
    tracing::info!(%address, %admin, "listening");
    Ok(Running {
        address,
        admin,
        hub_proxy: hub_proxy.map(|started| started.address),
        gateway,
        own_apps,
        handoff,
        process: context.process,
        threads,
    })
}

/// Serves the API in this process, if it is to. Returns its address.
async fn start_own_api(
    service: Option<ApiService>,
    sources: &Sources,
    identity: &Identity,
    context: &Context,
) -> Result<Option<SocketAddr>, StartError> {
    let (Some(service), Some(kubernetes), Some(oidc)) =
        (service, &sources.kubernetes, &identity.oidc)
    else {
        return Ok(None);
    };
    let cluster = Cluster::new(kubernetes.cluster.clone(), context.clock.clone()).await?;
    let served = serve_api(service, &cluster, oidc.clone(), &context.process).await?;
    Ok(Some(served.address))
}

/// Metrics that the gateway and the listeners share.
struct ServerMetrics {
    deadlines: DeadlineMetrics,
    requests: RequestMetrics,
}

impl ServerMetrics {
    fn register(context: &Context) -> ServerMetrics {
        let registry = &context.process.registry;
        ServerMetrics {
            deadlines: DeadlineMetrics::register(registry),
            requests: RequestMetrics::register(registry, CLASSES),
        }
    }

    fn register_listeners(self, context: &Context) -> Arc<ListenerMetrics> {
        let registry = &context.process.registry;
        Arc::new(ListenerMetrics::register(
            registry,
            self.requests,
            self.deadlines,
        ))
    }
}

/// The parts that all data threads share.
struct GatewayParts<'c> {
    identity: Identity,
    assertions: Option<Arc<AssertionSigner>>,
    apps: Apps,
    forward: ForwardSettings,
    sign_ins: NonZeroU32,
    anonymous_use_interval: Option<Duration>,
    app_labels: AppLabels,
    log: LineSink,
    metrics: &'c ServerMetrics,
    context: &'c Context,
}

fn build_gateway(parts: GatewayParts<'_>) -> Gateway {
    let context = parts.context;
    let identity = parts.identity;
    let callers = identity.callers(parts.apps.credentials, context);
    let registry = &context.process.registry;
    let requests = parts.metrics.requests.clone();
    let deadlines = parts.metrics.deadlines.clone();
    let forward_metrics = ForwardMetrics::register(registry, deadlines, parts.app_labels);
    Gateway {
        catalog: parts.apps.catalog,
        rechecks: identity.rechecks,
        callers,
        assertions: parts.assertions,
        logs: parts.apps.logs,
        sessions: identity.sessions,
        oidc: identity.oidc,
        forms: BodyBudget::default(),
        sign_in_rate: SignInRate::new(parts.sign_ins, context.clock.clone()),
        anonymous_use_interval: parts.anonymous_use_interval,
        clock: context.clock.clone(),
        started: context.clock.now(),
        metrics: Arc::new(GatewayMetrics::register(registry, requests)),
        forward_metrics: Arc::new(forward_metrics),
        policy_changes: context.policy_changes.clone(),
        log: parts.log,
        forward: parts.forward,
        control: context.control.clone(),
    }
}

fn request_log(
    is_on: bool,
    output: Option<Box<dyn io::Write + Send>>,
    context: &Context,
) -> LineSink {
    if is_on {
        let output = output.unwrap_or_else(|| Box::new(io::stdout()));
        LineSink::start(output, &context.process.registry)
    } else {
        LineSink::off()
    }
}

/// Checks upstreams in the background until the process stops.
fn start_health_checks(gateway: &Gateway, app_labels: AppLabels, context: &Context) {
    let registry = &context.process.registry;
    let checks = HealthChecks::new(gateway.catalog.clone(), app_labels, registry);
    let changes = context.policy_changes.subscribe();
    tokio::spawn(checks.run(changes, context.process.drain.subscribe()));
}

async fn sweep_sign_in_rate(gateway: Arc<Gateway>) {
    loop {
        gateway.clock.sleep(SWEEP_INTERVAL).await;
        gateway.sign_in_rate.sweep();
    }
}
