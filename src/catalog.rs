//! The apps: an immutable [`Snapshot`](snapshot::Snapshot), swapped whole, and a
//! [`Resolver`] for apps that cannot be listed.

pub mod from_kubernetes;
pub mod hub_routes;
pub mod lookup;
pub mod metrics;
pub mod resolver;
pub mod snapshot;

use std::{net::IpAddr, sync::Arc};

use arc_swap::ArcSwap;

use crate::model::{
    app::{App, UpstreamScheme},
    arrival::Arrival,
    policy_changes::PolicyChanges,
    vhost::VirtualHost,
};
use lookup::Lookup;
use metrics::CatalogMetrics;
use resolver::Resolver;
use snapshot::Snapshot;

/// The current snapshot; clones share it.
#[derive(Clone, Debug)]
pub struct Catalog {
    current: Arc<ArcSwap<Snapshot>>,
    /// Apps that cannot be listed.
    resolver: Option<Arc<dyn Resolver>>,
    policy_changes: PolicyChanges,
    metrics: Arc<CatalogMetrics>,
}

impl Catalog {
    /// A catalogue that begins with this snapshot.
    pub fn new(
        first: Snapshot,
        resolver: Option<Arc<dyn Resolver>>,
        policy_changes: PolicyChanges,
        metrics: Arc<CatalogMetrics>,
    ) -> Catalog {
        let current = Arc::new(ArcSwap::from_pointee(first));
        let catalog = Catalog {
            current,
            resolver,
            policy_changes,
            metrics,
        };
        catalog.update_count();
        catalog
    }

    /// The catalogue's metrics.
    pub fn metrics(&self) -> &CatalogMetrics {
        &self.metrics
    }

    /// The current snapshot; a request loads it once and keeps it to its end.
    pub fn load(&self) -> Arc<Snapshot> {
        self.current.load_full()
    }

    /// Replaces the snapshot atomically, and has every stream checked against the new one.
    pub fn publish(&self, next: Snapshot) {
        self.current.store(Arc::new(next));
        self.update_count();
        self.policy_changes.notify();
    }

    /// Looks up the virtual host of a request. Waits only for an app that must be looked up and is
    /// not cached. A credential in the address moves to `address_token`.
    pub async fn look_up(
        &self,
        arrival: &mut Arrival,
        snapshot: &Snapshot,
        client: IpAddr,
    ) -> Lookup {
        let lookup = self.find(&arrival.vhost, snapshot, client).await;
        if let Some(resolver) = &self.resolver {
            arrival.address_token = resolver.strip_credential(&mut arrival.target, &lookup);
        }
        lookup
    }

    /// Looks up a virtual host.
    pub async fn find(&self, vhost: &VirtualHost, snapshot: &Snapshot, client: IpAddr) -> Lookup {
        let listed = snapshot.at(vhost);
        let is_unlisted = matches!(listed, Lookup::Unknown | Lookup::Unassigned);
        match &self.resolver {
            Some(resolver) if is_unlisted => resolver.resolve(vhost, listed, client).await,
            Some(_) | None => listed,
        }
    }

    /// An app as it is published now at the origin where it was reached; `None` when it is gone.
    /// Never waits.
    pub fn still_published(&self, app: &Arc<App>, vhost: &VirtualHost) -> Option<Arc<App>> {
        if let Some(resolver) = &self.resolver
            && let Some(now) = resolver.still_published(app)
        {
            return now;
        }
        let snapshot = self.load();
        if app.is_hub_route() {
            return snapshot.hub_routes()?.still_published(app);
        }
        // Part of the site, and none of the apps.
        let api = snapshot.site().api.as_ref();
        if let Some(api) = api.filter(|api| Arc::ptr_eq(api, app)) {
            return Some(api.clone());
        }
        let found = match vhost {
            VirtualHost::Site => snapshot.find(app.id().as_str()),
            VirtualHost::Host(label) => snapshot.at_host(label),
            VirtualHost::Port(_) => None,
        };
        found
            .filter(|found| found.id() == app.id() && is_same_service(found, app))
            .cloned()
    }

    fn update_count(&self) {
        self.metrics
            .apps
            .set(i64::try_from(self.load().len()).unwrap_or(i64::MAX));
    }
}

/// Whether two apps of one name are the same. In a cluster the upstream host names the Service and
/// its namespace.
fn is_same_service(one: &App, other: &App) -> bool {
    let service = |app: &App| match &app.spec.upstream.scheme {
        UpstreamScheme::Pods(_) => Some(app.spec.upstream.host.clone()),
        UpstreamScheme::Http
        | UpstreamScheme::Https
        | UpstreamScheme::Unix(_)
        | UpstreamScheme::Attested(_) => None,
    };
    service(one) == service(other)
}
