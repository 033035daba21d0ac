//! Which apps there are: an immutable [`Snapshot`](snapshot::Snapshot), swapped whole, and what can
//! only be looked up when somebody asks for it.

pub mod from_arvados;
pub mod from_kubernetes;
pub mod lookup;
pub mod metrics;
pub mod snapshot;

use std::{net::IpAddr, sync::Arc};

use arc_swap::ArcSwap;

use crate::model::{
    app::{App, AppState, UpstreamScheme},
    policy_changes::PolicyChanges,
    vhost::VirtualHost,
};
use from_arvados::Containers;
use lookup::Lookup;
use metrics::CatalogMetrics;
use snapshot::Snapshot;

/// The snapshot in force. Cloning gives the same catalogue.
#[derive(Clone, Debug)]
pub struct Catalog {
    current: Arc<ArcSwap<Snapshot>>,
    /// What cannot be listed.
    containers: Option<Arc<Containers>>,
    policy_changes: PolicyChanges,
    metrics: Arc<CatalogMetrics>,
}

impl Catalog {
    /// A catalogue that begins with this snapshot.
    pub fn new(
        first: Snapshot,
        containers: Option<Arc<Containers>>,
        policy_changes: PolicyChanges,
        metrics: Arc<CatalogMetrics>,
    ) -> Catalog {
        let current = Arc::new(ArcSwap::from_pointee(first));
        let catalog = Catalog {
            current,
            containers,
            policy_changes,
            metrics,
        };
        catalog.count();
        catalog
    }

    /// What it says of itself.
    pub fn metrics(&self) -> &CatalogMetrics {
        &self.metrics
    }

    /// The snapshot in force; a request loads it once and keeps it to its end.
    pub fn load(&self) -> Arc<Snapshot> {
        self.current.load_full()
    }

    /// Puts another snapshot in force, all at once, and has every stream judged by it.
    pub fn publish(&self, next: Snapshot) {
        self.current.store(Arc::new(next));
        self.count();
        self.policy_changes.notify();
    }

    /// What is at a place. Waits only for what must be looked up and is not known yet; `client` is
    /// who asks.
    ///
    /// Cancel safety: a look-up under way goes on, and what it finds is kept.
    pub async fn at(&self, vhost: &VirtualHost, snapshot: &Snapshot, client: IpAddr) -> Lookup {
        let lookup = snapshot.at(vhost);
        match &self.containers {
            Some(containers) => Box::pin(containers.beside(vhost, lookup, client)).await,
            None => lookup,
        }
    }

    /// An app as it is published now at the place where it was reached; `None` when it is there no
    /// longer. Never waits.
    pub fn still(&self, app: &Arc<App>, vhost: &VirtualHost) -> Option<Arc<App>> {
        if let (Some(gateway), Some(containers)) = (app.container(), &self.containers) {
            return match containers.last_known(&gateway.container, app.id()) {
                Some(now) => now.filter(|now| now.spec.state == AppState::Running),
                // Forgotten for others that are asked for more often: nothing says that it changed.
                None => Some(app.clone()),
            };
        }
        let snapshot = self.load();
        let found = match vhost {
            VirtualHost::Site => snapshot.find(app.id().as_str()),
            VirtualHost::Host(label) => snapshot.at_host(label),
            VirtualHost::Port(_) => None,
        };
        found
            .filter(|found| found.id() == app.id() && is_same_service(found, app))
            .cloned()
    }

    fn count(&self) {
        self.metrics
            .apps
            .set(i64::try_from(self.load().len()).unwrap_or(i64::MAX));
    }
}

/// Whether two of one name are the same app: of a cluster, the host says which Service of which
/// namespace it is.
fn is_same_service(one: &App, other: &App) -> bool {
    let service = |app: &App| match &app.spec.upstream.scheme {
        UpstreamScheme::Pods(_) => Some(app.spec.upstream.host.clone()),
        UpstreamScheme::Http
        | UpstreamScheme::Https
        | UpstreamScheme::Unix(_)
        | UpstreamScheme::Container(_) => None,
    };
    service(one) == service(other)
}
