//! Containers of an Arvados cluster as apps. They cannot be listed, so each is looked up when it is
//! requested, and cached for seconds. Concurrent requests share one look-up.
//!
//! A container is reached by its own uuid, a request's uuid, a registered name or a port of the
//! range. In each case, each of its ports is one app, with access as the container defines it.

use std::{
    collections::{BTreeMap, HashMap},
    net::IpAddr,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures_util::future::{BoxFuture, FutureExt};
use http::uri::PathAndQuery;
use tokio::runtime::Handle;

use super::{
    ArvadosSettings, UNKNOWN,
    client::{ApiError, SystemClient},
    container_gateway::{ContainerGateway, container_of},
    gateway_secret,
    records::{ContainerRecord, PublishedRecord},
    strip_query_token,
};
use crate::{
    catalog::{lookup::Lookup, resolver::Resolver},
    identity::stale_cache::{Freshness, StaleCache, Unavailable},
    model::{
        access::Access,
        app::{App, AppId, AppSpec, AppState, Upstream, UpstreamScheme},
        arrival::AddressToken,
        clock::Clock,
        lookup_limit::LookupLimit,
        secret::Secret,
        uuid::{Uuid, UuidKind},
        vhost::{HostLabel, VirtualHost},
    },
    route::host::{HostTarget, parse_label},
};

/// Maximum number of cached records of each kind.
const MOST: u64 = 20_000;
/// A record is fresh for five seconds. It is used for a minute while it is read again, and for an
/// hour while the API server is unavailable.
const POLICY: Freshness = Freshness {
    fresh: Duration::from_secs(5),
    stale: Duration::from_secs(60),
    outage: Duration::from_secs(3600),
};

/// The port of a host that is a uuid alone.
const DEFAULT_PORT: u16 = 80;

/// The containers of one cluster.
#[derive(Debug)]
pub struct Containers {
    system: SystemClient,
    root_token: Secret,
    timeout: Duration,
    lookups: LookupLimit,
    containers: StaleCache<Uuid, Container>,
    requests: StaleCache<Uuid, Uuid>,
    names: StaleCache<HostLabel, (Uuid, u16)>,
    ports: StaleCache<(), BTreeMap<u16, (Uuid, u16)>>,
}

/// The requested port.
#[derive(Clone, Copy)]
enum Wanted {
    /// This port; if it is not published, the rule for private ports applies.
    Any(u16),
    /// This port, if the container publishes it.
    Published(u16),
}

/// A container as it was last read, and its ports as apps.
#[derive(Debug)]
struct Container {
    record: ContainerRecord,
    /// The access rule of its private ports.
    private: Access,
    apps: Mutex<HashMap<u16, Arc<App>>>,
}

impl Container {
    fn published(&self, port: u16) -> Option<&PublishedRecord> {
        self.record.published_ports.as_ref()?.get(&port.to_string())
    }
}

impl PartialEq for Container {
    /// An equal container keeps its apps, and with them the connections to them.
    fn eq(&self, other: &Container) -> bool {
        self.record == other.record && self.private == other.private
    }
}

impl Containers {
    /// Starts with empty caches. `timeout`: how long a container may take for a response head.
    pub fn new(
        settings: &ArvadosSettings,
        system: SystemClient,
        timeout: Duration,
        clock: Clock,
        control: Handle,
    ) -> Containers {
        Containers {
            system,
            root_token: settings.root_token.clone(),
            timeout,
            lookups: LookupLimit::new(UNKNOWN, clock.clone()),
            containers: StaleCache::new(MOST, POLICY, clock.clone(), control.clone()),
            requests: StaleCache::new(MOST, POLICY, clock.clone(), control.clone()),
            names: StaleCache::new(MOST, POLICY, clock.clone(), control.clone()),
            ports: StaleCache::new(1, POLICY, clock, control),
        }
    }

    /// Resolves a virtual host for which the snapshot returned `lookup`. Apps of the snapshot take
    /// precedence.
    async fn look_up(&self, vhost: &VirtualHost, lookup: Lookup, client: IpAddr) -> Lookup {
        match (&lookup, vhost) {
            (Lookup::Unknown, VirtualHost::Host(label)) => match parse_label(label) {
                HostTarget::Port(uuid, port) => self.at_uuid(uuid, Wanted::Any(port), client).await,
                HostTarget::Bare(uuid) => {
                    self.at_uuid(uuid, Wanted::Published(DEFAULT_PORT), client)
                        .await
                }
                HostTarget::Name(_) => self.at_name(*label, client).await,
                HostTarget::Broken => lookup,
            },
            (Lookup::Unassigned, VirtualHost::Port(port)) => self.at_port(*port).await,
            (_, VirtualHost::Site | VirtualHost::Host(_) | VirtualHost::Port(_)) => lookup,
        }
    }

    /// A port of a container or of a container request.
    async fn at_uuid(&self, uuid: Uuid, port: Wanted, client: IpAddr) -> Lookup {
        let known = match uuid.kind() {
            UuidKind::Container => self.containers.is_exempt(&uuid),
            UuidKind::ContainerRequest => self.requests.is_exempt(&uuid),
            UuidKind::Token | UuidKind::Other => return Lookup::Unknown,
        };
        self.bounded(known, client, self.port_of(uuid, port)).await
    }

    /// The container port behind a registered name.
    async fn at_name(&self, label: HostLabel, client: IpAddr) -> Lookup {
        self.bounded(self.names.is_exempt(&label), client, async {
            let system = self.system.clone();
            let ask =
                move || async move { found(&label, system.published_name(label.as_str()).await) };
            match self.names.get(label, ask).await {
                Ok(Some(target)) => self.port_of(target.0, Wanted::Any(target.1)).await,
                Ok(None) => Lookup::Unknown,
                Err(Unavailable) => Lookup::Unavailable,
            }
        })
        .await
    }

    /// The container port behind a port of the range.
    async fn at_port(&self, port: u16) -> Lookup {
        let ask = || {
            let system = self.system.clone();
            async move {
                found(
                    &"running containers",
                    system.running().await.map(|all| external_ports(&all)),
                )
            }
        };
        let first = match self.ports.get((), ask).await {
            Ok(ports) => ports.and_then(|ports| ports.get(&port).copied()),
            Err(Unavailable) => return Lookup::Unavailable,
        };
        if let Some((container, inner)) = first {
            let lookup = self.port_of(container, Wanted::Any(inner)).await;
            // The port may have another tenant since the list was read.
            if !matches!(&lookup, Lookup::App(app) if app.spec.state == AppState::Ended) {
                return lookup;
            }
        }
        match self.ports.get_fresh((), ask).await {
            Ok(ports) => match ports.and_then(|ports| ports.get(&port).copied()) {
                Some((container, inner)) => self.port_of(container, Wanted::Any(inner)).await,
                None => Lookup::Unassigned,
            },
            Err(Unavailable) => Lookup::Unavailable,
        }
    }

    /// A container's port as it was last known, without waiting. `None`: the container is not
    /// cached.
    fn last_known_port(&self, container: &Uuid, app: &AppId) -> Option<Option<Arc<App>>> {
        let known = self
            .containers
            .last_known(container, || self.read(*container))?;
        let port = app
            .as_str()
            .rsplit(':')
            .next()
            .and_then(|port| port.parse().ok());
        Some(
            known
                .zip(port)
                .map(|(known, port)| self.app(&known, *container, port)),
        )
    }

    /// Runs a look-up. Unless its key is `known`, it needs a permit of the client's look-up limit.
    async fn bounded(
        &self,
        known: bool,
        client: IpAddr,
        look: impl Future<Output = Lookup>,
    ) -> Lookup {
        if known {
            return look.await;
        }
        let Some(turn) = self.lookups.acquire(client) else {
            return Lookup::Unavailable;
        };
        let lookup = look.await;
        if !matches!(lookup, Lookup::Unknown) {
            turn.found();
        }
        lookup
    }

    async fn port_of(&self, uuid: Uuid, wanted: Wanted) -> Lookup {
        let container = match uuid.kind() {
            UuidKind::Container => uuid,
            UuidKind::ContainerRequest => {
                match self.requests.get(uuid, || self.read_request(uuid)).await {
                    Ok(Some(container)) => *container,
                    Ok(None) => return Lookup::Unknown,
                    Err(Unavailable) => return Lookup::Unavailable,
                }
            }
            UuidKind::Token | UuidKind::Other => return Lookup::Unknown,
        };
        match self
            .containers
            .get(container, || self.read(container))
            .await
        {
            Ok(Some(known)) => match wanted {
                Wanted::Published(port) if known.published(port).is_none() => Lookup::Unknown,
                Wanted::Published(port) | Wanted::Any(port) => {
                    Lookup::App(self.app(&known, container, port))
                }
            },
            Ok(None) => Lookup::Unknown,
            Err(Unavailable) => Lookup::Unavailable,
        }
    }

    /// The container of a container request. `None`: the request has not started, so there is no
    /// port to reach and no access rule to check.
    fn read_request(
        &self,
        uuid: Uuid,
    ) -> impl Future<Output = Result<Option<Uuid>, Unavailable>> + Send + use<> {
        let system = self.system.clone();
        async move {
            let read = found(&uuid, system.container_request(&uuid).await)?;
            Ok(read.and_then(|request| Uuid::new(request.container_uuid.as_deref()?)))
        }
    }

    fn read(
        &self,
        uuid: Uuid,
    ) -> impl Future<Output = Result<Option<Container>, Unavailable>> + Send + use<> {
        let system = self.system.clone();
        async move {
            let (record, submitters) =
                tokio::join!(system.container(&uuid), system.submitters(&uuid));
            let Some(record) = found(&uuid, record)? else {
                return Ok(None);
            };
            if let Some(address) = record.gateway_address.as_deref()
                && !address.is_empty()
                && host_and_port(address).is_none()
            {
                tracing::warn!(container = %uuid, address, "the gateway cannot be reached directly: 503");
            }
            let submitters = found(&uuid, submitters)?.unwrap_or_default();
            Ok(Some(Container {
                record,
                private: rule_of_private_ports(&submitters),
                apps: Mutex::default(),
            }))
        }
    }

    /// The app of a container's port; the same `Arc` while the container is unchanged.
    fn app(&self, known: &Container, container: Uuid, port: u16) -> Arc<App> {
        let mut apps = known.apps.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(app) = apps.get(&port) {
            return app.clone();
        }
        // A client can name 65,535 ports of each container; apps of unused ports must not stay.
        if apps.len() >= 64 {
            apps.retain(|_, app| Arc::strong_count(app) > 1);
        }
        apps.entry(port)
            .or_insert_with(|| Arc::new(self.make(known, container, port)))
            .clone()
    }

    fn make(&self, known: &Container, container: Uuid, port: u16) -> App {
        let published = known.published(port);
        let public = published.is_some_and(|port| port.access.as_deref() == Some("public"));
        let address = known
            .record
            .gateway_address
            .as_deref()
            .and_then(host_and_port);
        let state = match (known.record.state.as_str(), &address) {
            ("Complete" | "Cancelled", _) => AppState::Ended,
            ("Running", Some(_)) => AppState::Running,
            (_, _) => AppState::Starting,
        };
        let (host, gateway_port) = address.unwrap_or_default();
        let key = gateway_secret::key(&self.root_token, &container);
        let gateway = ContainerGateway::new(container, port, key);
        let upstream = Upstream {
            scheme: UpstreamScheme::Attested(Arc::new(gateway)),
            host,
            port: gateway_port,
        };
        let access = if public {
            Access::Public
        } else {
            known.private.clone()
        };
        let id = AppId::for_container(&container, port);
        let label = published
            .and_then(|port| port.label.clone())
            .filter(|label| !label.is_empty());
        App::on_host(AppSpec {
            name: label,
            state,
            ..AppSpec::new(id, upstream, access, self.timeout)
        })
    }
}

impl Resolver for Containers {
    fn resolve<'r>(
        &'r self,
        vhost: &'r VirtualHost,
        listed: Lookup,
        client: IpAddr,
    ) -> BoxFuture<'r, Lookup> {
        self.look_up(vhost, listed, client).boxed()
    }

    fn strip_credential(&self, target: &mut PathAndQuery, lookup: &Lookup) -> Option<AddressToken> {
        strip_query_token::strip(target, lookup)
    }

    fn still_published(&self, app: &Arc<App>) -> Option<Option<Arc<App>>> {
        let container = container_of(app)?;
        Some(match self.last_known_port(&container, app.id()) {
            Some(now) => now.filter(|now| now.spec.state == AppState::Running),
            // Evicted from the cache: no change is known, so the app stays.
            None => Some(app.clone()),
        })
    }
}

/// Private ports are for the user who submitted every request that the container carries out.
/// Without such a user they are for admins only.
fn rule_of_private_ports(submitters: &[Option<String>]) -> Access {
    match submitters.split_first() {
        Some((Some(first), others)) if others.iter().all(|other| other.as_ref() == Some(first)) => {
            Access::Owner(first.as_str().into())
        }
        Some(_) | None => Access::Admins,
    }
}

fn found<T>(
    what: &(dyn std::fmt::Display + Sync),
    answer: Result<T, ApiError>,
) -> Result<Option<T>, Unavailable> {
    match answer {
        Ok(record) => Ok(Some(record)),
        Err(ApiError::NotFound) => Ok(None),
        Err(error @ (ApiError::BadToken | ApiError::Unavailable(_))) => {
            tracing::warn!(%what, %error, "a look-up at the Arvados API server failed");
            Err(Unavailable)
        }
    }
}

/// Parses `host:port`; `None` for a gateway that cannot be reached directly.
fn host_and_port(address: &str) -> Option<(Box<str>, u16)> {
    let (host, port) = address.rsplit_once(':')?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b':');
    (!host.is_empty() && host.bytes().all(plain)).then_some((host.into(), port.parse().ok()?))
}

/// The container and its port behind each public port.
fn external_ports(running: &[ContainerRecord]) -> BTreeMap<u16, (Uuid, u16)> {
    let mut ports = BTreeMap::new();
    for record in running {
        let Some(uuid) = Uuid::new(&record.uuid) else {
            continue;
        };
        let published = record.published_ports.iter().flatten();
        let mapped = |(inner, published): (&String, &PublishedRecord)| {
            Some((published.external_port?, (uuid, inner.parse().ok()?)))
        };
        ports.extend(published.filter_map(mapped));
    }
    ports
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_container_of_two_people_belongs_to_neither() {
        let alice = || Some("zzzzz-tpzed-000000000000001".to_owned());
        let bob = || Some("zzzzz-tpzed-000000000000002".to_owned());
        assert_eq!(rule_of_private_ports(&[alice()]).kind(), "owner");
        assert_eq!(rule_of_private_ports(&[alice(), alice()]).kind(), "owner");
        for shared in [
            vec![],
            vec![None],
            vec![alice(), bob()],
            vec![alice(), None],
            vec![None, alice()],
        ] {
            assert_eq!(rule_of_private_ports(&shared), Access::Admins, "{shared:?}");
        }
    }

    #[test]
    fn a_gateway_address_is_a_host_and_a_port() {
        for (address, expected) in [
            ("10.0.0.1:2345", Some(("10.0.0.1", 2345))),
            ("[fd00::1]:2345", Some(("fd00::1", 2345))),
            ("node7.cluster:1", Some(("node7.cluster", 1))),
            ("", None),
            (":1", None),
            ("10.0.0.1", None),
            ("10.0.0.1:65536", None),
            ("tunnel https://controller:8000", None),
            ("a/b:1", None),
        ] {
            let expected = expected.map(|(host, port)| (host.into(), port));
            assert_eq!(host_and_port(address), expected, "{address:?}");
        }
    }
}
