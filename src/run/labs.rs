//! Wires a process of labs together.

use std::{net::SocketAddr, sync::Arc};

use tokio::{net::TcpListener, sync::watch};
use tokio_util::sync::CancellationToken;

use super::{
    admin_listener::serve_admin, error::StartError, identity::poll_keys, lab_files::start_files,
};
use crate::{
    cluster::Cluster,
    identity::oidc::{Oidc, OidcSettings},
    labs::{
        dialect::Dialect,
        discovery::discovery_document,
        environment::SiteUrls,
        images::PodOwner,
        service::{
            LabServiceSettings, OperationStoreSettings,
            callers::{CallerSettings, LabCallers},
            images::{LabImages, LabImagesMetrics, LabImagesSettings},
            lab_service::LabService,
            metrics::LabRequestMetrics,
            routes::LabsState,
            server,
        },
    },
    model::{clock::Clock, site::Site},
    ops::{
        http_client::{CallCounter, HttpClient},
        process::Process,
        redis::StoreMetrics,
    },
    session::keys::KeyRing,
    settings::{LabStoreSettings, LabsSettings},
};

/// Who this process is in the cluster.
#[derive(Debug)]
pub struct LabsIdentity {
    /// Its name in the lease. No other process has it.
    pub lease: String,
    /// Its pod, which owns the pods that pull images; `None`: this process is in no pod, and pulls
    /// nothing.
    pub pod: Option<PodOwner>,
}

/// A running process of labs.
pub struct RunningLabs {
    /// Its diagnostics and lifecycle.
    pub process: Process,
    /// The address of the REST API.
    pub address: SocketAddr,
    /// The address of the admin listener.
    pub admin: SocketAddr,
}

/// Starts the labs on the current runtime. Of several processes, the one that holds the lease
/// works, or all of them if they share a store.
///
/// # Errors
/// See [`StartError`].
pub async fn start_labs(
    settings: LabsSettings,
    identity: LabsIdentity,
    clock: Clock,
) -> Result<RunningLabs, StartError> {
    let process = Process::new();
    let cluster = Cluster::new(settings.cluster.clone(), clock.clone()).await?;
    let (service, images) = start_backend(&settings, &cluster, identity, clock.clone(), &process)?;
    hold_until_listed(&service, &process);
    let oidc = start_oidc(settings.identity, &settings.site, clock.clone(), &process)?;
    let callers = callers(
        settings.callers,
        settings.ca.as_deref(),
        oidc,
        clock,
        &process,
    )?;
    let files = start_files(&service, &process);
    let state = LabsState {
        service: Arc::new(service),
        catalog: Box::new(move || images.catalog()),
        callers: Arc::new(callers),
        config: settings.labs,
        dialect: settings.dialect,
        urls: settings.urls,
        metrics: LabRequestMetrics::register(&process.registry),
        files,
        drain: process.drain.watcher(),
    };
    let listener = TcpListener::bind(settings.address).await?;
    let address = listener.local_addr()?;
    tokio::spawn(server::serve(state, listener));
    let configuration = process.configuration.clone();
    let admin = process
        .admin(settings.admin.token)
        .dependency("configuration", move || Some(configuration.status()));
    let admin = serve_admin(admin, settings.admin.address)?;
    tracing::info!(%address, %admin, "listening");
    Ok(RunningLabs {
        process,
        address,
        admin,
    })
}

/// Watches labs and images until the process drains.
fn start_backend(
    settings: &LabsSettings,
    cluster: &Cluster,
    identity: LabsIdentity,
    clock: Clock,
    process: &Process,
) -> Result<(LabService, LabImages), StartError> {
    let is_leader = watch::Sender::new(false);
    let images = LabImages::new(
        LabImagesSettings {
            config: settings.labs.clone(),
            dialect: settings.dialect,
            cluster: cluster.clone(),
            registry_ca: settings.ca.as_deref().map(<[u8]>::to_vec),
            owner: identity.pod,
            is_leader: is_leader.subscribe(),
        },
        LabImagesMetrics::register(&process.registry),
    )?;
    let store = settings.store.as_ref();
    let store = store.map(|store| operation_store(store, clock.clone(), process));
    let service = LabService::new(
        cluster.client().clone(),
        LabServiceSettings {
            store,
            ..service_settings(settings, cluster, identity.lease)
        },
        Arc::new(images.clone()),
        clock,
    );
    let shutdown = CancellationToken::new();
    // Each task keeps the process until it has ended, so that the lease is released.
    let (labs, watcher) = (service.clone(), process.drain.watcher());
    let token = shutdown.clone();
    tokio::spawn(async move {
        labs.run(is_leader, token).await;
        drop(watcher);
    });
    let (catalog, watcher) = (images.clone(), process.drain.watcher());
    let token = shutdown.clone();
    tokio::spawn(async move {
        catalog.run(token).await;
        drop(watcher);
    });
    let mut drain = process.drain.watcher();
    tokio::spawn(async move {
        drain.stopping().await;
        shutdown.cancel();
    });
    Ok((service, images))
}

/// The store of the replicas, with its metrics.
fn operation_store(
    settings: &LabStoreSettings,
    clock: Clock,
    process: &Process,
) -> OperationStoreSettings {
    if let Some(warning) = &settings.warning {
        tracing::warn!("{warning}");
    }
    if settings.keys.may_change() {
        tokio::spawn(poll_keys(settings.keys.clone(), clock));
    }
    OperationStoreSettings {
        redis: settings.redis.clone(),
        keys: settings.keys.clone(),
        metrics: StoreMetrics::register(
            &process.registry,
            (
                "lab_store_commands",
                "Commands to the store that replicas share, by result",
            ),
            (
                "lab_store_up",
                "Whether the store that replicas share is connected (1: yes)",
            ),
        ),
    }
}

fn service_settings(
    settings: &LabsSettings,
    cluster: &Cluster,
    lease_identity: String,
) -> LabServiceSettings {
    let api = settings.urls.api(&settings.labs);
    let is_nublado = settings.dialect == Dialect::Nublado;
    let kubernetes = cluster.settings();
    LabServiceSettings {
        config: settings.labs.clone(),
        dialect: settings.dialect,
        discovery: is_nublado.then(|| discovery_document(&api, &settings.urls.sign_out)),
        urls: SiteUrls {
            base: settings.site.origin.to_string(),
            discovery: is_nublado.then_some(api),
        },
        peers: settings.peers.clone(),
        helper_image: settings.helper_image.clone(),
        namespace: kubernetes.namespaces.first().cloned().unwrap_or_default(),
        lease: settings.lease.clone(),
        identity: lease_identity,
        store: None,
        watch: kubernetes.watch,
        max_calls: settings.operations,
    }
}

/// Keeps the process unready until all labs of the cluster are known.
fn hold_until_listed(service: &LabService, process: &Process) {
    let first_lists = process.ready.latch("the labs of the cluster");
    let labs = service.clone();
    tokio::spawn(async move {
        labs.wait_until_ready().await;
        first_lists.release();
    });
}

/// The provider's client, if there is a provider.
fn start_oidc(
    settings: Option<OidcSettings>,
    site: &Site,
    clock: Clock,
    process: &Process,
) -> Result<Option<Arc<Oidc>>, StartError> {
    let Some(settings) = settings else {
        return Ok(None);
    };
    let registry = &process.registry;
    let calls = CallCounter::register(registry, "oidc_requests", "Calls to the identity provider");
    // People sign in elsewhere, so these keys seal nothing.
    let keys = Arc::new(KeyRing::random());
    let oidc = Arc::new(Oidc::new(settings, site, keys, clock, calls)?);
    let provider = oidc.clone();
    tokio::spawn(async move { provider.keep_informed().await });
    Ok(Some(oidc))
}

fn callers(
    settings: CallerSettings,
    ca: Option<&[u8]>,
    oidc: Option<Arc<Oidc>>,
    clock: Clock,
    process: &Process,
) -> Result<LabCallers, StartError> {
    let help = "Calls for the identities of callers";
    let calls = CallCounter::register(&process.registry, "identity_requests", help);
    let http = Arc::new(HttpClient::new(ca, calls)?);
    Ok(LabCallers::new(settings, oidc, http, clock))
}
