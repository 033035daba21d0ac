//! The apps as a running gateway would know them: of a cluster, and of sources that cannot be
//! listed.

use std::{net::Ipv4Addr, sync::Arc, time::Duration};

use crate::{
    catalog::{
        from_kubernetes::KubernetesSource, lookup::Lookup, resolver::Resolver, snapshot::Snapshot,
    },
    cluster::Cluster,
    integrations::arvados::{ArvadosSettings, client::Api, containers::Containers},
    model::{app::AppSpec, arrival::Arrival, clock::Clock, site::Site},
    ops::http_client::CallCounter,
    settings::resolve_kubernetes::KubernetesSettings,
};

/// The API of a cluster has this long for the list of its apps.
const PATIENCE: Duration = Duration::from_secs(10);

/// The apps of the cluster as they are now. A running gateway may know more: the last good form of
/// an object that is broken now.
pub(super) fn of_cluster(
    settings: KubernetesSettings,
    site: Arc<Site>,
    own: Vec<AppSpec>,
    timeout: Duration,
) -> anyhow::Result<Snapshot> {
    let runtime = tokio::runtime::Runtime::new()?;
    runtime.block_on(async {
        let served = settings.served_kinds();
        let cluster = Cluster::new(settings.cluster, Clock::system()).await?;
        let (_, own) = tokio::sync::watch::channel(own);
        let source = KubernetesSource::new(
            site,
            own,
            timeout,
            settings.isolation,
            &cluster.settings().namespaces,
            served,
        );
        let listed = tokio::time::timeout(PATIENCE, source.load_once(&cluster)).await;
        listed.map_err(|_| {
            anyhow::anyhow!("the API gave no whole list within {} s", PATIENCE.as_secs())
        })
    })
}

/// Looks up apps that cannot be listed, as the gateway would.
pub(super) struct Lookups {
    runtime: tokio::runtime::Runtime,
    resolver: Arc<dyn Resolver>,
}

impl Lookups {
    /// Looks up containers; each may take `timeout` for a response head.
    pub(super) fn new(arvados: &ArvadosSettings, timeout: Duration) -> anyhow::Result<Lookups> {
        let runtime = tokio::runtime::Runtime::new()?;
        let api = Api::new(arvados, CallCounter::default())?;
        let system = api.as_system(arvados);
        let control = runtime.handle().clone();
        let containers = Containers::new(arvados, system, timeout, Clock::system(), control);
        Ok(Lookups {
            runtime,
            resolver: Arc::new(containers),
        })
    }

    /// What is at the virtual host of a request; a token moves out of its address.
    pub(super) fn look_up(&self, arrival: &mut Arrival, snapshot: &Snapshot) -> Lookup {
        let listed = snapshot.at(&arrival.vhost);
        let client = Ipv4Addr::LOCALHOST.into();
        let resolving = self.resolver.resolve(&arrival.vhost, listed, client);
        let lookup = self.runtime.block_on(resolving);
        arrival.address_token = self.resolver.strip_credential(&mut arrival.target, &lookup);
        lookup
    }
}
