//! Wires a process of the API together.

use std::{net::SocketAddr, sync::Arc};

use tokio::{net::TcpListener, sync::watch};

use super::{admin_listener::serve_admin, error::StartError};
use crate::{
    api::{
        cluster_objects::ClusterObjects, installations::service::InstallationsApi,
        operations::Operations, platform::PlatformSettings, server, state::ApiState,
    },
    cluster::{Cluster, pod_logs::PodLogs},
    identity::oidc::Oidc,
    model::clock::Clock,
    ops::{http_client::CallCounter, process::Process},
    settings::{ApiService, ApiSettings},
};

/// A running API.
pub struct RunningApi {
    /// Its diagnostics and lifecycle.
    pub process: Process,
    /// The address of the API.
    pub address: SocketAddr,
    /// The address of the admin listener.
    pub admin: SocketAddr,
    /// Where groups and instance types are replaced.
    pub platform: watch::Sender<Arc<PlatformSettings>>,
}

/// Starts the API on the current runtime.
///
/// # Errors
/// See [`StartError`].
pub async fn start_api(settings: ApiSettings, clock: Clock) -> Result<RunningApi, StartError> {
    let process = Process::new();
    let cluster = Cluster::new(settings.cluster, clock.clone()).await?;
    let registry = &process.registry;
    let calls = CallCounter::register(registry, "oidc_requests", "Calls to the identity provider");
    let oidc = Oidc::new(
        settings.identity,
        &settings.site,
        settings.keys,
        clock,
        calls,
    )?;
    let oidc = Arc::new(oidc);
    let provider = oidc.clone();
    tokio::spawn(async move { provider.keep_informed().await });
    let running = serve_api(settings.service, &cluster, oidc, &process).await?;
    let configuration = process.configuration.clone();
    let admin = process
        .admin(settings.admin.token)
        .dependency("configuration", move || Some(configuration.status()));
    let admin = serve_admin(admin, settings.admin.address)?;
    let address = running.address;
    tracing::info!(%address, %admin, "listening");
    Ok(RunningApi {
        process,
        address,
        admin,
        platform: running.platform,
    })
}

/// The API's listener.
pub(super) struct ServedApi {
    pub(super) address: SocketAddr,
    pub(super) platform: watch::Sender<Arc<PlatformSettings>>,
}

/// Serves the API in a process until it drains.
pub(super) async fn serve_api(
    service: ApiService,
    cluster: &Cluster,
    oidc: Arc<Oidc>,
    process: &Process,
) -> Result<ServedApi, StartError> {
    let (sender, platform) = watch::channel(Arc::new(service.platform));
    let operations = Operations {
        objects: ClusterObjects::new(cluster),
        platform,
        import: service.import,
    };
    let logs = PodLogs::new(cluster.clone());
    let installations = service.installations;
    let installations = installations.map(|settings| InstallationsApi::new(cluster, settings));
    let state = ApiState::new(
        oidc,
        operations,
        logs,
        service.device_sign_in,
        installations,
    );
    let listener = TcpListener::bind(service.address).await?;
    let address = listener.local_addr()?;
    tokio::spawn(server::serve(state, listener, process.drain.watcher()));
    Ok(ServedApi {
        address,
        platform: sender,
    })
}
