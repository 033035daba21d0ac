//! What the gateway depends on, on the verbose readiness probe. None of it affects readiness: a
//! gateway still serves what does not need it.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use crate::{
    catalog::hub_routes::HubRoutes,
    gateway::Gateway,
    identity::oidc::providers::Providers,
    ops::{
        admin::AdminServer,
        dependency::DependencyStatus::{self, Degraded, Fine},
    },
};

/// Without a response of the Kubernetes API for this long, in seconds, changes are late. A watch
/// that has no changes responds when it is reopened, after `kubernetes.watch`.
const MAX_AGE: f64 = 180.0;

/// Adds the dependencies.
pub(super) fn add(server: AdminServer, gateway: &Arc<Gateway>) -> AdminServer {
    let line = |read: fn(&Gateway) -> Option<DependencyStatus>| {
        let gateway = gateway.clone();
        move || read(&gateway)
    };
    server
        .dependency("identity provider", line(provider))
        .dependency("session store", line(session_store))
        .dependency("catalogue", line(catalogue))
        .dependency("upstreams", line(upstreams))
        .dependency("health checks", line(health_checks))
}

fn provider(gateway: &Gateway) -> Option<DependencyStatus> {
    Some(match &gateway.oidc {
        None => Fine("not configured".to_owned()),
        Some(oidc) => provider_status(&oidc.providers),
    })
}

/// The default provider first: programs need it too.
fn provider_status(providers: &Providers) -> DependencyStatus {
    let default = providers.default_provider();
    if !default.is_ready() {
        let error = default.discovery_error();
        return unknown_provider(error.as_ref().map(|error| error.as_str()));
    }
    if let Some((failure, since)) = default.failure() {
        return failing_provider(&failure.cause, since.elapsed());
    }
    let in_trouble = providers
        .iter()
        .filter(|it| !it.is_ready() || it.failure().is_some())
        .map(|it| it.issuer().as_str());
    further_providers(&in_trouble.collect::<Vec<_>>())
}

/// `error` is why the last discovery failed. It may have text of the provider.
fn unknown_provider(error: Option<&str>) -> DependencyStatus {
    let error = error.map(|error| error.replace(char::is_control, " "));
    let cause = error.map_or_else(String::new, |error| format!(": {error}"));
    Degraded(format!(
        "not known yet{cause}; people cannot sign in; public apps and existing sessions work"
    ))
}

/// Without sign-ins and checks there are no calls, so the provider may work again.
fn failing_provider(cause: &str, failing_for: Duration) -> DependencyStatus {
    Degraded(format!(
        "failing for {} s, as of the last call: {cause}; people may not be able to sign in; \
         public apps and existing sessions work",
        failing_for.as_secs()
    ))
}

/// The state if nothing is wrong with the default provider.
fn further_providers(in_trouble: &[&str]) -> DependencyStatus {
    if in_trouble.is_empty() {
        return Fine("known".to_owned());
    }
    Degraded(format!(
        "{} not known yet, or failing as of the last call; people may not be able to sign in there",
        in_trouble.join(", ")
    ))
}

fn session_store(gateway: &Gateway) -> Option<DependencyStatus> {
    let replication = &gateway.sessions.replication;
    replication.is_enabled().then(|| {
        if replication.is_connected() {
            Fine("connected".to_owned())
        } else {
            Degraded(
                "not connected; sessions that are not in the memory of this process get 503"
                    .to_owned(),
            )
        }
    })
}

fn catalogue(gateway: &Gateway) -> Option<DependencyStatus> {
    let catalog = &gateway.catalog;
    let age = catalog.metrics().age.get();
    Some(if !catalog.load().is_complete() {
        Degraded("not listed yet; apps that are not known get 503".to_owned())
    } else if age > MAX_AGE {
        Degraded(format!(
            "no response for {age:.0} s; apps are served as they were last known, and changes of \
             them and their access rules do not take effect"
        ))
    } else {
        Fine("current".to_owned())
    })
}

fn upstreams(gateway: &Gateway) -> Option<DependencyStatus> {
    let snapshot = gateway.catalog.load();
    // An app with a path and a host is there twice.
    let failing: BTreeSet<&str> = snapshot
        .published()
        .filter(|app| app.upstream_health.is_failing())
        .map(|app| app.id().as_str())
        .collect();
    let routes = snapshot.hub_routes().map_or(0, HubRoutes::failing);
    Some(failing_upstreams(failing.len(), routes))
}

/// Without names: this probe needs no token, and ids of apps and paths of routes may name people.
fn failing_upstreams(apps: usize, routes: usize) -> DependencyStatus {
    let apps = match apps {
        0 => None,
        1 => Some("1 app fails, see /apps".to_owned()),
        _ => Some(format!("{apps} apps fail, see /apps")),
    };
    // Routes are not among the apps.
    let routes = match routes {
        0 => None,
        1 => Some("1 route of the hub fails, see the log".to_owned()),
        _ => Some(format!("{routes} routes of the hub fail, see the log")),
    };
    let failing: Vec<String> = apps.into_iter().chain(routes).collect();
    if failing.is_empty() {
        return Fine("no app fails".to_owned());
    }
    Degraded(format!(
        "{}; their requests get 502 or 504",
        failing.join("; ")
    ))
}

/// `None`: no app has a health check.
fn health_checks(gateway: &Gateway) -> Option<DependencyStatus> {
    let snapshot = gateway.catalog.load();
    let groups = snapshot.apps().filter_map(|app| {
        app.spec.health.as_ref()?;
        app.group.as_ref()
    });
    let counts = groups.map(|group| (group.members().len(), group.failing()));
    counts
        .reduce(|one, other| (one.0 + other.0, one.1 + other.1))
        .map(|(all, failing)| failing_checks(all, failing))
}

/// Without names, as [`failing_upstreams`].
fn failing_checks(all: usize, failing: usize) -> DependencyStatus {
    if failing == 0 {
        return Fine(format!("no upstream of {all} fails"));
    }
    Degraded(format!(
        "{failing} of {all} upstreams fail, see /apps; they get requests only if all of an app fail"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failing_provider_is_shown_with_the_cause() {
        for (error, wanted) in [
            (None, "degraded: not known yet; people"),
            (Some("no\nkeys"), "degraded: not known yet: no keys; people"),
        ] {
            assert!(unknown_provider(error).text().starts_with(wanted));
        }
        let status = failing_provider("status 502 Bad Gateway", Duration::from_millis(42_900));
        assert_eq!(
            status.text(),
            "degraded: failing for 42 s, as of the last call: status 502 Bad Gateway; people may \
             not be able to sign in; public apps and existing sessions work"
        );
    }

    #[test]
    fn further_providers_in_trouble_are_named() {
        assert_eq!(further_providers(&[]).text(), "known");
        let degraded = further_providers(&["https://a.test", "https://b.test"]);
        assert_eq!(
            degraded.text(),
            "degraded: https://a.test, https://b.test not known yet, or failing as of the last \
             call; people may not be able to sign in there"
        );
    }

    #[test]
    fn failing_upstreams_are_counted() {
        assert_eq!(failing_checks(3, 0).text(), "no upstream of 3 fails");
        assert!(!failing_checks(3, 0).is_degraded());
        let degraded = failing_checks(3, 1);
        assert!(degraded.is_degraded());
        assert!(degraded.text().starts_with("degraded: 1 of 3 upstreams"));
    }

    #[test]
    fn failing_apps_and_routes_are_counted() {
        for (apps, routes, wanted) in [
            (0, 0, "no app fails"),
            (
                1,
                0,
                "degraded: 1 app fails, see /apps; their requests get 502 or 504",
            ),
            (
                6,
                0,
                "degraded: 6 apps fail, see /apps; their requests get 502 or 504",
            ),
            (
                0,
                1,
                "degraded: 1 route of the hub fails, see the log; their requests get 502 or 504",
            ),
            (
                1,
                2,
                "degraded: 1 app fails, see /apps; 2 routes of the hub fail, see the log; their \
                 requests get 502 or 504",
            ),
        ] {
            assert_eq!(failing_upstreams(apps, routes).text(), wanted);
        }
    }
}
