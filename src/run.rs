//! From settings to a running gateway: threads, runtimes and listeners. Nothing here knows a
//! request.
//!
//! One thread with a current-thread runtime per core for requests; the caller's runtime for
//! everything else.

mod watched_files;

use std::{
    collections::HashMap, io, net::SocketAddr, path::PathBuf, rc::Rc, sync::Arc,
    thread::JoinHandle, time::Duration,
};

use tokio::{
    net::TcpListener,
    runtime::{Builder, Handle, LocalOptions},
    sync::watch,
    task::AbortHandle,
};

use crate::{
    admin,
    arvados::{client::Api, tokens::ArvadosTokens},
    catalog::{
        Catalog, from_arvados::Containers, from_kubernetes::Feeder, metrics::CatalogMetrics,
        snapshot::Snapshot,
    },
    cluster::{Cluster, NoCluster, pod_logs::PodLogs},
    forward::metrics::ForwardMetrics,
    gateway::{
        Gateway,
        connection::Service,
        form_budget::FormBudget,
        metrics::{CLASSES, GatewayMetrics},
        sign_in_rate::SignInRate,
        thread::DataThread,
    },
    identity::{oidc::Oidc, rechecks::Rechecks},
    listener::{
        self, ListenError, accept, descriptors, inherited::Inherited, metrics::ListenerMetrics,
        seats::Seats, tls,
    },
    model::{app::AppSpec, clock::Clock, policy_changes::PolicyChanges},
    ops::{
        drain::DrainWatcher,
        http_client::CallCounter,
        line_sink::LineSink,
        process::Process,
        readiness::Latch,
        request_metrics::{DeadlineMetrics, RequestMetrics},
        tls_client::NoCertificate,
    },
    peer,
    session::{
        Sessions, handoff_file::HandoffFile, keys::KeyRing, metrics::SessionMetrics, redis::Redis,
    },
    settings::{Settings, resolve_kubernetes::Kubernetes},
};
use watched_files::{keep_taking_over, renew, renew_keys, take_over};

/// Requests in flight have this long to finish when the process stops.
const DRAIN_DEADLINE: Duration = Duration::from_secs(30);
/// The last request lines are waited for this long.
const LOG_PATIENCE: Duration = Duration::from_secs(1);
/// Expired sessions are forgotten this often.
const SWEEP_EVERY: Duration = Duration::from_secs(60);

/// What is not configuration.
pub struct Options {
    /// Time.
    pub clock: Clock,
    /// Data threads.
    pub threads: usize,
    /// Where request lines go; `None`: standard output.
    pub log: Option<Box<dyn io::Write + Send>>,
    /// Sockets that were handed over.
    pub inherited: Inherited,
}

impl Options {
    /// As the machine has it.
    pub fn of_this_machine() -> Options {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        Options {
            clock: Clock::system(),
            threads,
            log: None,
            inherited: Inherited::default(),
        }
    }
}

/// Why the gateway did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// No listener.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The CA of the provider, or of the Arvados API server, cannot be used.
    #[error("a ca file: {0}")]
    Trust(#[from] NoCertificate),
    /// It cannot be said how the Kubernetes API is reached.
    #[error(transparent)]
    Kubernetes(#[from] NoCluster),
    /// The system refused a thread or a socket.
    #[error("cannot start: {0}")]
    System(#[from] io::Error),
}

/// A running gateway.
pub struct Running {
    /// Where people connect.
    pub address: SocketAddr,
    /// Where operators connect.
    pub admin: SocketAddr,
    /// What the threads share.
    pub gateway: Arc<Gateway>,
    feeds: Feeds,
    leaves: Option<Leaves>,
    process: Process,
    finish: watch::Sender<bool>,
    threads: Vec<JoinHandle<()>>,
}

/// Where the sessions go when it stops.
struct Leaves {
    file: PathBuf,
    keys: Arc<KeyRing>,
    /// Looks for what others leave; ends before something is left for others.
    looks: AbortHandle,
}

/// What may change while it runs, and who is told.
struct Feeds {
    /// The apps of the configuration file.
    own: watch::Sender<Vec<AppSpec>>,
    /// A feeder publishes them together with those of a cluster.
    has_cluster: bool,
}

/// Starts everything; to be called on the control runtime.
///
/// # Errors
/// See [`StartError`]; nothing is left running then.
pub async fn start(settings: Settings, options: Options) -> Result<Running, StartError> {
    let Settings {
        listen,
        more_listeners,
        peers,
        admin,
        site,
        identity,
        session,
        keys,
        forward,
        stop_grace: _,
        sign_ins,
        log,
        apps,
        arvados,
        kubernetes,
        warnings,
    } = settings;
    for warning in warnings {
        tracing::warn!("{warning}");
    }
    let (threads, mut inherited, takeover) = (options.threads, options.inherited, listen.takeover);
    // The admin listener first: when the gateway accepts connections, its probes do too.
    let admin_listener = listener::bind(admin.address, 1, takeover, &mut inherited)?;
    let sockets = listener::bind(listen.address, threads, takeover, &mut inherited)?;
    let address = sockets
        .list
        .first()
        .map(|socket| socket.local_addr())
        .transpose()?
        .unwrap_or(listen.address);
    let mut doors = vec![(sockets, listen, peers.clone())];
    for listen in more_listeners {
        let sockets = listener::bind(listen.address, threads, listen.takeover, &mut inherited)?;
        let peers = peer::PeerSettings {
            trusted: listen.trusted_proxies.clone(),
        };
        doors.push((sockets, listen, peers));
    }
    // Whoever connects there would wait for ever.
    if let Some(nobodys) = inherited.left().next() {
        return Err(StartError::Listen(ListenError::Unclaimed(nobodys)));
    }
    let clock = options.clock;
    let (process, policy_changes) = (Process::new(), PolicyChanges::new());
    let registry = &process.registry;
    let starting = process.ready.latch("listeners");
    let output = options.log.unwrap_or_else(|| Box::new(io::stdout()));
    let lines = if log.requests {
        LineSink::start(output, registry)
    } else {
        LineSink::off()
    };
    let oidc = match identity {
        Some(identity) => {
            let calls =
                CallCounter::register(registry, "oidc_requests", "Calls to the identity provider");
            Some(Arc::new(Oidc::new(
                identity,
                &site,
                keys.clone(),
                clock.clone(),
                calls,
            )?))
        }
        None => None,
    };
    let hand_over = session.hand_over.clone();
    let metrics = Arc::new(SessionMetrics::register(registry));
    let store = session.store.clone().map(|store| {
        Redis::new(
            store,
            keys.clone(),
            clock.clone(),
            metrics.clone(),
            session.lifetime,
        )
    });
    let sessions = Arc::new(match store {
        Some(store) => Sessions::replicated(
            session,
            clock.clone(),
            policy_changes.clone(),
            metrics,
            store,
        ),
        None => Sessions::new(session, clock.clone(), policy_changes.clone(), metrics),
    });
    tokio::spawn(sessions.replication.clone().run());
    let rechecks = oidc.as_ref().map(|oidc| {
        let (policy_changes, clock, control) =
            (policy_changes.clone(), clock.clone(), Handle::current());
        Arc::new(Rechecks::new(
            oidc.clone(),
            sessions.clone(),
            policy_changes,
            clock,
            control,
        ))
    });
    let (containers, tokens) = match &arvados {
        Some(arvados) => {
            let calls = CallCounter::register(
                registry,
                "arvados_requests",
                "Calls to the Arvados API server",
            );
            let (api, control) = (Api::new(arvados, calls)?, Handle::current());
            let system = api.as_system(arvados);
            let containers = Containers::new(
                arvados,
                system,
                forward.response_head,
                clock.clone(),
                control.clone(),
            );
            let accept = arvados.accept_sign_in;
            let tokens = ArvadosTokens::new(api, accept, sessions.clone(), clock.clone(), control);
            (Some(Arc::new(containers)), Some(Arc::new(tokens)))
        }
        None => (None, None),
    };
    let serves_logs = kubernetes
        .as_ref()
        .is_some_and(|kubernetes| kubernetes.logs);
    let cluster = match kubernetes {
        Some(Kubernetes {
            cluster,
            isolation,
            logs: _,
        }) => Some((Cluster::new(cluster, clock.clone()).await?, isolation)),
        None => None,
    };
    let snapshot = match &cluster {
        Some(_) => Snapshot::incomplete(site.clone(), apps.clone()),
        None => Snapshot::new(site.clone(), apps.clone()),
    };
    let has_cluster = cluster.is_some();
    let metrics = CatalogMetrics::register(registry);
    let catalog = Catalog::new(
        snapshot,
        containers,
        policy_changes.clone(),
        Arc::new(metrics),
    );
    let own = watch::Sender::new(apps);
    if let Some((cluster, isolation)) = &cluster {
        let namespaces = &cluster.settings().namespaces;
        let feeder = Feeder::new(
            site,
            own.subscribe(),
            forward.response_head,
            *isolation,
            namespaces,
        );
        let first = process.ready.latch("the apps of the cluster");
        tokio::spawn(feeder.feed(cluster.clone(), catalog.clone(), first));
    }
    let deadlines = DeadlineMetrics::register(registry);
    let requests = RequestMetrics::register(registry, CLASSES);
    let gateway = Arc::new(Gateway {
        catalog,
        rechecks,
        arvados: tokens,
        logs: cluster
            .filter(|_| serves_logs)
            .map(|(cluster, _)| PodLogs::new(cluster)),
        sessions: sessions.clone(),
        oidc: oidc.clone(),
        forms: FormBudget::default(),
        sign_in_rate: SignInRate::new(sign_ins, clock.clone()),
        clock: clock.clone(),
        metrics: Arc::new(GatewayMetrics::register(registry, requests.clone())),
        forward_metrics: Arc::new(ForwardMetrics::register(registry, deadlines.clone())),
        policy_changes,
        log: lines,
        forward,
        control: Handle::current(),
    });
    if keys.may_change() {
        tokio::spawn(renew_keys(keys.clone(), clock.clone()));
    }
    if let Some(oidc) = oidc {
        tokio::spawn(async move { oidc.keep_informed().await });
    }
    let leaves = hand_over.map(|file| {
        take_over(&gateway, &file, &keys);
        let looking = tokio::spawn(keep_taking_over(
            gateway.clone(),
            file.clone(),
            keys.clone(),
        ));
        Leaves {
            file,
            keys,
            looks: looking.abort_handle(),
        }
    });
    let sweeping = gateway.clone();
    tokio::spawn(async move {
        loop {
            clock.sleep(SWEEP_EVERY).await;
            sessions.sweep().await;
            sweeping.sign_in_rate.sweep();
        }
    });
    let listener_metrics = Arc::new(ListenerMetrics::register(registry, requests, deadlines));
    let (finish, finished) = watch::channel(false);
    let count = doors.len().max(1);
    let mut plans: Vec<Vec<Door>> = (0..threads).map(|_| Vec::new()).collect();
    for (sockets, listen, peers) in doors {
        if let tls::TlsSettings::On { certificates, .. } = &listen.tls {
            tokio::spawn(renew(
                certificates.clone(),
                gateway.clock.clone(),
                listener_metrics.clone(),
            ));
        }
        let seats = Seats::new(
            &listen,
            descriptors::room(threads) / count,
            listener_metrics.clone(),
        );
        let is_shared = sockets.are_shared;
        for (plan, socket) in plans.iter_mut().zip(sockets.list) {
            let (listen, peers, seats) = (listen.clone(), peers.clone(), seats.clone());
            plan.push(Door {
                socket,
                is_shared,
                listen,
                peers,
                seats,
            });
        }
    }
    let mut threads = Vec::new();
    for (index, doors) in plans.into_iter().enumerate() {
        let thread = Plan {
            doors,
            gateway: gateway.clone(),
            metrics: listener_metrics.clone(),
            drain: process.drain.watcher(),
            finished: finished.clone(),
        };
        let name = format!("ludgate-data-{index}");
        threads.push(
            std::thread::Builder::new()
                .name(name)
                .spawn(move || thread.run())?,
        );
    }
    let mut admin_address = admin.address;
    for socket in admin_listener.list {
        admin_address = socket.local_addr()?;
        let listener = TcpListener::from_std(socket)?;
        let configuration = process.configuration.clone();
        let server = admin::routes(process.admin(admin.token.clone()), &gateway)
            .status("configuration", move || configuration.text());
        tokio::spawn(server.serve(listener));
    }
    drop(starting);
    tracing::info!(%address, admin = %admin_address, "listening");
    let feeds = Feeds { own, has_cluster };
    Ok(Running {
        address,
        admin: admin_address,
        gateway,
        feeds,
        leaves,
        process,
        finish,
        threads,
    })
}

impl Running {
    /// Publishes other apps of the configuration file in place of those before, all at once. Who
    /// streams one that is gone, or is no longer theirs, is cut; nobody else notices.
    pub fn replace_apps(&self, apps: Vec<AppSpec>) {
        let catalog = &self.gateway.catalog;
        let now = catalog.load();
        if !self.feeds.has_cluster {
            catalog.publish(now.followed_by(apps, Vec::new(), HashMap::new()));
            return;
        }
        if !now.is_complete() {
            // Until the cluster has told its apps the feeder publishes nothing, and a rule that was
            // narrowed would wait.
            catalog.publish(now.still_incomplete(apps.clone()));
        }
        self.feeds.own.send_replace(apps);
    }

    /// Says what became of a configuration that was read anew: the keys that need a restart, or
    /// what is wrong with it.
    pub fn tell_configuration(&self, read: Result<&[String], &str>) {
        let (is_in_force, text) = match read {
            Ok([]) => (true, "reloaded".to_owned()),
            Ok(keys) => (
                true,
                format!(
                    "reloaded its apps; other changes need a restart: {}",
                    keys.join(", ")
                ),
            ),
            Err(mistakes) => (
                false,
                format!(
                    "the changed file is not valid, the previous configuration is in force: {mistakes}"
                ),
            ),
        };
        self.process.configuration.set(is_in_force, text);
    }

    /// Is no longer ready, and goes on as before.
    pub fn retire(&self) -> Latch {
        self.process.drain.leave();
        self.process.ready.latch("the process stops soon")
    }

    /// Stops: no new connections, requests in flight finish, streams are cut, threads end.
    /// Gives back whether everybody finished in time.
    pub async fn stop(self) -> bool {
        let Running {
            process,
            finish,
            threads,
            gateway,
            leaves,
            ..
        } = self;
        let in_time = process.drain.stop(DRAIN_DEADLINE).await;
        // Before sessions are left for others: a token that works once is replaced by the answer
        // that is under way.
        if let Some(rechecks) = &gateway.rechecks {
            rechecks.finish().await;
        }
        if let Some(Leaves { file, keys, looks }) = leaves {
            looks.abort();
            let wall_seconds = gateway.clock.wall_seconds();
            match HandoffFile::new(&file, &keys).write(&gateway.sessions.store, wall_seconds) {
                Ok(sign_ins) => tracing::info!(sign_ins, "wrote the session handoff file"),
                Err(error) => {
                    tracing::error!(%error, file = %file.display(), "cannot write the session handoff file")
                }
            }
        }
        gateway.sessions.replication.flush().await;
        finish.send_replace(true);
        // Joining blocks for as long as a thread needs to drop its tasks.
        let joined = tokio::task::spawn_blocking(move || {
            let all = threads.into_iter().all(|thread| thread.join().is_ok());
            gateway.log.finish(LOG_PATIENCE);
            all
        })
        .await;
        in_time && matches!(joined, Ok(true))
    }
}

/// What a data thread is made of.
struct Plan {
    doors: Vec<Door>,
    gateway: Arc<Gateway>,
    metrics: Arc<ListenerMetrics>,
    drain: DrainWatcher,
    finished: watch::Receiver<bool>,
}

/// One listener, as one data thread has it.
struct Door {
    socket: std::net::TcpListener,
    is_shared: bool,
    listen: listener::ListenerSettings,
    peers: peer::PeerSettings,
    seats: Arc<Seats>,
}

impl Plan {
    fn run(self) {
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build_local(LocalOptions::default());
        match runtime {
            Ok(runtime) => runtime.block_on(self.serve()),
            Err(error) => tracing::error!(%error, "a data thread has no runtime"),
        }
    }

    async fn serve(self) {
        let Plan {
            doors,
            gateway,
            metrics,
            drain,
            mut finished,
        } = self;
        let thread = DataThread::start(gateway);
        for Door {
            socket,
            is_shared,
            listen,
            peers,
            seats,
        } in doors
        {
            let listener = match TcpListener::from_std(socket) {
                Ok(listener) => listener,
                Err(error) => {
                    tracing::error!(%error, "a data thread has no listener");
                    return;
                }
            };
            let service = Rc::new(Service {
                thread: thread.clone(),
                peers,
                redirects: listen.redirects,
            });
            let (metrics, drain) = (metrics.clone(), drain.clone());
            tokio::task::spawn_local(accept::accept(
                (listener, is_shared),
                Rc::new(listen),
                service,
                seats,
                metrics,
                drain,
            ));
        }
        drop(drain);
        // Connections still finishing live on this runtime; it goes when all had their time.
        let _ = finished.wait_for(|finished| *finished).await;
    }
}
