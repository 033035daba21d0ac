//! The routes that a JupyterHub adds while the gateway runs: below one prefix, with one access
//! rule.
//!
//! Invariant: no route lies outside of the prefix. Look-ups take no lock. Routes are in memory
//! only; the hub adds them again after a restart.

pub mod route_path;
pub mod target;

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use chrono::{DateTime, SecondsFormat};
use foldhash::fast::RandomState;
use serde_json::{Map, Value};

use crate::model::{
    access::Access,
    app::{App, AppId, AppSpec},
    clock::Clock,
    path_prefix::below,
    policy_changes::PolicyChanges,
    route_activity::RouteActivity,
};
use route_path::{MAX_SEGMENTS, RoutePath, RoutePathError, unescape};
use target::{HubTarget, HubTargetError};

/// Maximum number of routes.
const MAX_ROUTES: usize = 10_000;
/// Maximum size of all routes together, in bytes of JSON.
const MAX_DATA: usize = 32 << 20;
/// The field of a route's data with its target.
const TARGET: &str = "target";
/// The field with the time of its last activity.
const LAST_ACTIVITY: &str = "last_activity";

/// What all routes have in common.
#[derive(Clone, Debug)]
pub struct HubRouteSettings {
    /// The path below which routes may be added, without a slash at the end.
    pub prefix: Box<str>,
    /// The access rule of all routes.
    pub access: Access,
    /// Deadline for response headers.
    pub timeout: Duration,
    /// Listeners of this process that no route may lead to.
    pub own: Vec<SocketAddr>,
}

/// Why a route cannot be added.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HubRouteError {
    /// A route cannot have this path.
    #[error(transparent)]
    Path(#[from] RoutePathError),
    /// The path is outside of the prefix.
    #[error(
        "{path:?} is not below {prefix}, which is hub_proxy.prefix: the hub's base_url must be \
         {prefix}/, and routes by host (subdomain_host) are not supported"
    )]
    Outside {
        /// The path.
        path: Box<str>,
        /// The prefix of all routes.
        prefix: Box<str>,
    },
    /// There is no target, or it is no text.
    #[error("Must specify 'target' as string")]
    NoTarget,
    /// The target is not allowed.
    #[error(transparent)]
    Target(#[from] HubTargetError),
    /// There are too many routes.
    #[error("there are {} routes, which is the limit", MAX_ROUTES)]
    Full,
    /// The routes have too much data.
    #[error("the data of all routes may have {} MiB of JSON together", MAX_DATA >> 20)]
    TooMuchData,
}

/// A route.
#[derive(Debug)]
struct HubRoute {
    app: Arc<App>,
    /// What the hub sent with it, the target included, as JSON. A parsed map takes several times
    /// the memory.
    data: Box<str>,
}

/// What a path leads to.
#[derive(Clone, Debug)]
pub enum HubLookup {
    /// The path is not below the prefix.
    Elsewhere,
    /// The hub has added no route at all.
    NoRoutes,
    /// None of the routes.
    NoMatch,
    /// The route with the longest prefix.
    Route {
        /// The app behind it.
        app: Arc<App>,
        /// The index in the path of the first byte after the route's own.
        end: usize,
    },
}

/// The routes of a hub.
#[derive(Debug)]
pub struct HubRoutes {
    settings: HubRouteSettings,
    clock: Clock,
    policy_changes: PolicyChanges,
    /// By path without escapes. Only the hub adds routes, so a fast hash without DoS protection is
    /// safe.
    routes: papaya::HashMap<Box<str>, Arc<HubRoute>, RandomState>,
    /// The most segments that a route has had.
    depth: AtomicUsize,
    /// The bytes of all routes' data. Locked while a route is added or removed.
    data_bytes: Mutex<usize>,
}

impl HubRoutes {
    /// No routes yet.
    pub fn new(
        settings: HubRouteSettings,
        clock: Clock,
        policy_changes: PolicyChanges,
    ) -> HubRoutes {
        HubRoutes {
            settings,
            clock,
            policy_changes,
            routes: papaya::HashMap::with_hasher(RandomState::default()),
            depth: AtomicUsize::new(0),
            data_bytes: Mutex::new(0),
        }
    }

    /// The route for the path of a request: that with the longest prefix of whole segments. Each
    /// segment is compared without its escapes.
    pub fn find(&self, path: &str) -> HubLookup {
        if below(path, &self.settings.prefix).is_none() {
            return HubLookup::Elsewhere;
        }
        let mut ends = [0; MAX_SEGMENTS];
        let count = segment_ends(path, self.depth.load(Relaxed), &mut ends);
        let routes = self.routes.pin();
        let found = ends.iter().take(count).rev().find_map(|end| {
            let key = unescape(path.get(..*end)?)?;
            Some((routes.get(&*key)?.app.clone(), *end))
        });
        match found {
            Some((app, end)) => HubLookup::Route { app, end },
            None if routes.is_empty() => HubLookup::NoRoutes,
            None => HubLookup::NoMatch,
        }
    }

    /// A route's app as it is now; `None` once the route is gone or leads to another server.
    pub fn still_published(&self, app: &App) -> Option<Arc<App>> {
        let key = unescape(&app.mount)?;
        let routes = self.routes.pin();
        let now = &routes.get(&*key)?.app;
        (now.spec.upstream == app.spec.upstream).then(|| now.clone())
    }

    /// Adds a route, or replaces it. `data` has the target and is listed with the route.
    ///
    /// # Errors
    /// See [`HubRouteError`].
    pub fn add(&self, path: &RoutePath, data: Map<String, Value>) -> Result<(), HubRouteError> {
        let prefix = &self.settings.prefix;
        if below(path.key(), prefix).is_none() {
            return Err(HubRouteError::Outside {
                path: path.key().into(),
                prefix: prefix.clone(),
            });
        }
        let target = data.get(TARGET).and_then(Value::as_str);
        let target = target.ok_or(HubRouteError::NoTarget)?;
        let target = HubTarget::parse(target, &self.settings.own)?;
        let spec = self.spec(path, target);
        let data = Value::Object(data).to_string().into_boxed_str();
        let mut data_bytes = self.lock();
        let routes = self.routes.pin();
        let before = routes.get(path.key());
        if before.is_none() && routes.len() >= MAX_ROUTES {
            return Err(HubRouteError::Full);
        }
        let released = before.map_or(0, |route| route.data.len());
        let total = data_bytes.saturating_sub(released) + data.len();
        if total > MAX_DATA {
            return Err(HubRouteError::TooMuchData);
        }
        let app = self.app(spec, path, before.map(|route| &route.app));
        let is_moved = before.is_some_and(|route| route.app.spec.upstream != app.spec.upstream);
        self.depth.fetch_max(path.depth(), Relaxed);
        routes.insert(path.key().into(), Arc::new(HubRoute { app, data }));
        *data_bytes = total;
        if is_moved {
            // Streams to the old server end.
            self.policy_changes.notify();
        }
        Ok(())
    }

    /// Removes a route and ends its streams. Returns whether there was one.
    pub fn remove(&self, path: &RoutePath) -> bool {
        let mut data_bytes = self.lock();
        let routes = self.routes.pin();
        let Some(removed) = routes.remove(path.key()) else {
            return false;
        };
        *data_bytes = data_bytes.saturating_sub(removed.data.len());
        self.policy_changes.notify();
        true
    }

    /// A route as the hub reads it.
    pub fn get(&self, path: &RoutePath) -> Option<Value> {
        self.routes.pin().get(path.key()).map(|route| shown(route))
    }

    /// All routes by path, or those without activity since a time in milliseconds since 1970.
    pub fn list(&self, inactive_since: Option<i64>) -> Map<String, Value> {
        let is_listed = |route: &HubRoute| {
            inactive_since.is_none_or(|since| route_activity(route).is_some_and(|it| it < since))
        };
        let routes = self.routes.pin();
        let listed = routes.iter().filter(|(_, route)| is_listed(route));
        listed
            .map(|(key, route)| (key.to_string(), shown(route)))
            .collect()
    }

    /// How many routes fail.
    pub fn failing(&self) -> usize {
        let routes = self.routes.pin();
        let failing = routes.values();
        failing
            .filter(|route| route.app.upstream_health.is_failing())
            .count()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, usize> {
        self.data_bytes
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn spec(&self, path: &RoutePath, target: HubTarget) -> AppSpec {
        let id = AppId::for_hub_route(path.mount());
        let access = self.settings.access.clone();
        AppSpec {
            // The hub identifies people itself.
            identity_headers: false,
            serves_bare_path: true,
            protocol: target.protocol,
            ..AppSpec::new(id, target.upstream, access, self.settings.timeout)
        }
    }

    /// The app of a route. An unchanged one keeps its connections, and a changed one its load.
    fn app(&self, spec: AppSpec, path: &RoutePath, before: Option<&Arc<App>>) -> Arc<App> {
        if let Some(before) = before.filter(|before| before.spec == spec) {
            if let Some(activity) = &before.route_activity {
                activity.record();
            }
            return before.clone();
        }
        let app = App {
            route_activity: Some(RouteActivity::new(self.clock.clone())),
            ..App::hosted(spec, path.mount().to_owned(), None)
        };
        Arc::new(match before {
            Some(before) => App {
                load: before.load.clone(),
                activity: before.activity.clone(),
                ..app
            },
            None => app,
        })
    }
}

/// Writes where the first segments of a path end, as many as `most`, and returns their number.
fn segment_ends(path: &str, most: usize, ends: &mut [usize; MAX_SEGMENTS]) -> usize {
    let slashes = path.bytes().enumerate().skip(1);
    let slashes = slashes.filter(|(_, byte)| *byte == b'/').map(|(at, _)| at);
    // A slash at the end ends the last segment; without one the path does.
    let last = (!path.ends_with('/')).then_some(path.len());
    let mut count = 0;
    for (end, slot) in slashes.chain(last).take(most).zip(ends) {
        *slot = end;
        count += 1;
    }
    count
}

fn route_activity(route: &HubRoute) -> Option<i64> {
    route.app.route_activity.as_ref().map(RouteActivity::millis)
}

/// A route as JSON: what the hub sent, and its last activity in ISO 8601.
fn shown(route: &HubRoute) -> Value {
    // What was serialized here can be parsed.
    let mut data: Map<String, Value> = serde_json::from_str(&route.data).unwrap_or_default();
    let time = route_activity(route).and_then(DateTime::from_timestamp_millis);
    if let Some(time) = time {
        let text = time.to_rfc3339_opts(SecondsFormat::Millis, true);
        data.insert(LAST_ACTIVITY.to_owned(), text.into());
    }
    Value::Object(data)
}

#[cfg(test)]
mod tests;
