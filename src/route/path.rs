//! Routing on paths: the prefix, the id, our own endpoints, then the console or nothing.

use super::{Endpoint, Route};
use crate::{
    cluster::{crd::application::LOG_PATHS, pod_logs::is_pod_name},
    model::{
        app::{is_app_id, is_installation_id, is_lab_username, is_viewer_id},
        dns,
        site::{FORWARD_AUTH, Site},
        vhost::VirtualHost,
    },
};

/// Our second reserved prefix, on every origin.
const RESERVED: &str = "/.ludgate";

/// Where an app's own host takes tickets.
pub const ENTER: &str = "/.ludgate/enter";
/// On every origin of ours: the last page of a window that renews a session.
pub const RENEWED: &str = "/.ludgate/renewed";
/// On every origin of ours: the script that opens that window.
pub const RENEW_SCRIPT: &str = "/.ludgate/renew.js";
/// On every origin of ours: whether the session of a page is still valid.
pub const SESSION_STATUS: &str = "/.ludgate/session";
/// On every origin of ours: the script that tells the user of a page when it is not.
pub const SESSION_SCRIPT: &str = "/.ludgate/session.js";
/// On every origin of ours: the public keys of signed identities.
pub const JWKS: &str = "/.ludgate/jwks.json";

/// Where the API takes operations.
const GRAPHQL: &str = "/api/graphql";
/// Where the API has applications from Helm charts, by the names below.
const APPLICATIONS: &str = "/api/v2/";
/// Where the API gives tokens to people.
const TOKENS: &str = "/oidc/auth-flow/";

/// The pod whose log a path names, when it is written as a pod's name can be.
pub fn pod_of_log(path: &str) -> Option<&str> {
    let pod = LOG_PATHS
        .iter()
        .find_map(|prefix| path.strip_prefix(prefix))?;
    is_pod_name(pod).then_some(pod)
}

/// Routes a path on an app's own host. Paths below `/.ludgate` are ours: an endpoint, or nothing.
/// `None`: the path is the app's.
pub fn on_host(path: &str) -> Option<Route<'static>> {
    match path {
        ENTER => Some(Route::Endpoint(Endpoint::Enter)),
        RENEWED => Some(Route::Endpoint(Endpoint::Renewed)),
        RENEW_SCRIPT => Some(Route::Endpoint(Endpoint::RenewScript)),
        SESSION_STATUS => Some(Route::Endpoint(Endpoint::SessionStatus)),
        SESSION_SCRIPT => Some(Route::Endpoint(Endpoint::SessionScript)),
        JWKS => Some(Route::Endpoint(Endpoint::Jwks)),
        _ if below(path, FORWARD_AUTH).is_some() => Some(Route::Endpoint(Endpoint::Auth)),
        _ => below(path, RESERVED).map(|_| Route::Nowhere),
    }
}

/// A path that belongs to a person's lab, as long as it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LabPath<'t> {
    /// Follows the grammar of usernames; whether the person has a lab is another question.
    pub username: &'t str,
    /// Index of the slash after the username; `None`: the path ends before it.
    pub root: Option<usize>,
}

/// The lab that a path is for, if it runs. Without it, the path is routed as any other, so that a
/// hub can answer it.
pub fn lab<'t>(path: &'t str, site: &Site) -> Option<LabPath<'t>> {
    below_labs(path, site).filter(|lab| is_lab_username(lab.username.as_bytes()))
}

/// Splits a path below the prefix of labs. The username may be empty or invalid; `None`: nothing
/// follows the prefix.
fn below_labs<'t>(path: &'t str, site: &Site) -> Option<LabPath<'t>> {
    let rest = below(path, site.labs_prefix.as_deref()?)?;
    let names = rest.strip_prefix('/').filter(|names| !names.is_empty())?;
    Some(match names.find('/') {
        Some(at) => LabPath {
            username: &names[..at],
            root: Some(path.len() - names.len() + at),
        },
        None => LabPath {
            username: names,
            root: None,
        },
    })
}

/// Routes a path on the site for which [`lab`] found no lab that runs.
pub fn route<'t>(path: &'t str, site: &Site) -> Route<'t> {
    // Not for a hub either: its proxy may decode the name, and find the lab of another person.
    if below_labs(path, site).is_some_and(|lab| !is_lab_username(lab.username.as_bytes())) {
        return Route::NotAnId;
    }
    if let Some(rest) = below(path, &site.apps_prefix) {
        return match rest {
            "" => Route::ToLauncher,
            "/" => Route::Launcher,
            rest => app(path, &rest[1..]),
        };
    }
    if let Some(prefix) = &site.viewers_prefix
        && let Some(rest) = below(path, prefix)
    {
        return viewer(path, rest);
    }
    if let Some(prefix) = &site.installs_prefix
        && let Some(rest) = below(path, prefix)
    {
        return installation(path, rest);
    }
    if site.below_forward_auth(&VirtualHost::Site, path).is_some() {
        return Route::Endpoint(Endpoint::Auth);
    }
    if let Some(rest) = below(path, &site.endpoints) {
        return match Endpoint::named(rest.trim_start_matches('/')) {
            Some(endpoint) if rest.len() == endpoint.as_str().len() + 1 => {
                Route::Endpoint(endpoint)
            }
            Some(_) | None => Route::Nowhere,
        };
    }
    if below(path, RESERVED).is_some() {
        return match path {
            RENEWED => Route::Endpoint(Endpoint::Renewed),
            RENEW_SCRIPT => Route::Endpoint(Endpoint::RenewScript),
            SESSION_STATUS => Route::Endpoint(Endpoint::SessionStatus),
            SESSION_SCRIPT => Route::Endpoint(Endpoint::SessionScript),
            JWKS => Route::Endpoint(Endpoint::Jwks),
            _ => Route::Nowhere,
        };
    }
    if site.serves_logs && pod_of_log(path).is_some() {
        return Route::Endpoint(Endpoint::Logs);
    }
    if site.api.is_some() && is_of_api(path) {
        return Route::Api;
    }
    match (&site.console, path) {
        (Some(_), _) => Route::Console,
        (None, "/") => Route::ToLauncher,
        (None, _) => Route::Nowhere,
    }
}

/// Whether the API answers a path. A console may have others below `/api/`.
fn is_of_api(path: &str) -> bool {
    path == GRAPHQL
        || pod_of_log(path).is_some()
        || path.starts_with(TOKENS)
        || path
            .strip_prefix(APPLICATIONS)
            .is_some_and(is_of_applications)
}

/// Whether a path below [`APPLICATIONS`] is about definitions or installations.
fn is_of_applications(rest: &str) -> bool {
    let mut names = rest.split('/');
    match names.next() {
        Some("applicationdefinitions") => true,
        Some("clusters") => names.nth(1).is_some_and(is_application),
        Some("projects") => {
            names.nth(1) == Some("clusters") && names.nth(1).is_some_and(is_application)
        }
        Some(_) | None => false,
    }
}

fn is_application(name: &str) -> bool {
    ["applicationinstallations", "applicationbundle"].contains(&name)
}

fn app<'t>(path: &'t str, rest: &'t str) -> Route<'t> {
    let (id, slash) = match rest.find('/') {
        Some(at) => (&rest[..at], true),
        None => (rest, false),
    };
    if !is_app_id(id.as_bytes()) {
        return Route::NotAnId;
    }
    if slash {
        Route::App {
            id,
            root: path.len() - rest.len() + id.len(),
        }
    } else {
        Route::AppWithoutSlash { id }
    }
}

/// `rest` is the path after the prefix of viewers.
fn viewer<'t>(path: &'t str, rest: &'t str) -> Route<'t> {
    let names = rest.strip_prefix('/').unwrap_or_default();
    let (namespace, below) = names.split_once('/').unwrap_or((names, ""));
    if names.is_empty() || (below.is_empty() && is_namespace(namespace)) {
        return Route::ToLauncher;
    }
    let (name, slash) = match below.find('/') {
        Some(at) => (&below[..at], true),
        None => (below, false),
    };
    if !is_viewer_id(namespace.as_bytes(), name.as_bytes()) {
        return Route::NotAnId;
    }
    let id = &names[..namespace.len() + 1 + name.len()];
    if slash {
        Route::App {
            id,
            root: path.len() - names.len() + id.len(),
        }
    } else {
        Route::AppWithoutSlash { id }
    }
}

/// `rest` is the path after the prefix of installed apps. Their ids begin with its slash.
fn installation<'t>(path: &'t str, rest: &'t str) -> Route<'t> {
    let names = rest.strip_prefix('/').unwrap_or_default();
    let (namespace, below) = names.split_once('/').unwrap_or((names, ""));
    if names.is_empty() || (below.is_empty() && is_namespace(namespace)) {
        return Route::ToLauncher;
    }
    let (name, slash) = match below.find('/') {
        Some(at) => (&below[..at], true),
        None => (below, false),
    };
    if !is_installation_id(namespace.as_bytes(), name.as_bytes()) {
        return Route::NotAnId;
    }
    let id = &rest[..1 + namespace.len() + 1 + name.len()];
    if slash {
        Route::App {
            id,
            root: path.len() - rest.len() + id.len(),
        }
    } else {
        Route::AppWithoutSlash { id }
    }
}

fn is_namespace(text: &str) -> bool {
    dns::is_label(text.as_bytes(), dns::MAX_LABEL)
}

/// The rest of the path after the prefix, if the path is the prefix or lies below it.
pub fn below<'t>(path: &'t str, prefix: &str) -> Option<&'t str> {
    path.strip_prefix(prefix)
        .filter(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use std::{path::Path, sync::Arc, time::Duration};

    use super::*;
    use crate::model::{
        app::{App, Upstream},
        cookie_names::CookieNames,
        site::{Site, WebOrigin},
    };

    fn site() -> Site {
        let origin = WebOrigin::new(false, "gw.test", 80);
        Site::with_default_paths(origin, CookieNames::new(false, "c", &[]))
    }

    #[test]
    fn logs_are_ours_where_they_are_served_and_by_names_that_pods_can_have() {
        let with = Site {
            serves_logs: true,
            ..site()
        };
        for path in [
            "/api/logs/pods/app-a-7d9",
            "/api/logs/phapplications/app-a-7d9.x",
        ] {
            assert_eq!(
                route(path, &with),
                Route::Endpoint(Endpoint::Logs),
                "{path}"
            );
            assert_eq!(route(path, &site()), Route::Nowhere, "{path}");
        }
        for path in [
            "/api/logs/pods/",
            "/api/logs/pods/a/b",
            "/api/logs/pods/..",
            "/api/logs/pods/A",
            "/api/logs/pods/a%2Fb",
            "/api/logs/images/x",
            "/api/logs/jupyterhub",
        ] {
            assert_eq!(route(path, &with), Route::Nowhere, "{path}");
        }
    }

    #[test]
    fn the_api_has_its_paths_where_there_is_one() {
        let upstream = Upstream::unix(Path::new("/run/api.sock"));
        let api = App::api(upstream, Duration::from_secs(1)).map(Arc::new);
        let with = Site { api, ..site() };
        for path in [
            "/api/graphql",
            "/api/logs/pods/app-a-7d9",
            "/oidc/auth-flow/request",
            "/oidc/auth-flow/device/token",
            "/api/v2/applicationdefinitions",
            "/api/v2/applicationdefinitions/a",
            "/api/v2/clusters/self/applicationinstallations",
            "/api/v2/clusters/self/applicationbundle",
            "/api/v2/projects/p/clusters/self/applicationinstallations/n/a",
        ] {
            assert_eq!(route(path, &with), Route::Api, "{path}");
            assert_eq!(route(path, &site()), Route::Nowhere, "{path}");
        }
        for path in [
            "/api",
            "/api/",
            "/api/graphql/",
            "/api/graphqlx",
            "/api/v2/",
            "/api/v2/users",
            "/api/v2/clusters/self/nodes",
            "/api/v2/projects/p/clusters/self",
            "/api/v2/projects/p/applicationinstallations",
            "/oidc/auth-flow",
        ] {
            assert_eq!(route(path, &with), Route::Nowhere, "{path}");
        }
    }

    #[test]
    fn a_path_is_routed_by_its_raw_bytes() {
        let site = site();
        for (path, expected) in [
            ("/", Route::ToLauncher),
            ("/apps", Route::ToLauncher),
            ("/apps/", Route::Launcher),
            ("/apps/a", Route::AppWithoutSlash { id: "a" }),
            ("/apps/a/", Route::App { id: "a", root: 7 }),
            ("/apps/a/b%2Fc//d", Route::App { id: "a", root: 7 }),
            ("/apps/a-1//x", Route::App { id: "a-1", root: 9 }),
            ("/apps/A/", Route::NotAnId),
            ("/apps/a%2D1/x", Route::NotAnId),
            ("/apps/a;x/", Route::NotAnId),
            ("/apps//a/", Route::NotAnId),
            ("/apps/../a/", Route::NotAnId),
            ("/apps;x/grp/", Route::Nowhere),
            ("//apps/grp/", Route::Nowhere),
            ("/Apps/a/", Route::Nowhere),
            ("/%61pps/a/", Route::Nowhere),
            ("/appsx", Route::Nowhere),
            ("/oauth2/start", Route::Endpoint(Endpoint::Start)),
            ("/oauth2/start/", Route::Nowhere),
            ("/oauth2//start", Route::Nowhere),
            ("/oauth2/", Route::Nowhere),
            ("/oauth2", Route::Nowhere),
            ("/.ludgate/enter", Route::Nowhere),
            ("/.ludgate/jwks.json", Route::Endpoint(Endpoint::Jwks)),
            (
                "/.ludgate/session",
                Route::Endpoint(Endpoint::SessionStatus),
            ),
            ("/.ludgate/session/", Route::Nowhere),
            ("/.ludgate/jwks.json/", Route::Nowhere),
            ("/.ludgate/jwks%2Ejson", Route::Nowhere),
        ] {
            assert_eq!(route(path, &site), expected, "{path:?}");
        }
    }

    #[test]
    fn installed_apps_have_ids_that_begin_with_a_slash() {
        let with = Site {
            installs_prefix: Some("/installs".into()),
            ..site()
        };
        let id = "/team/v";
        for (path, expected) in [
            ("/installs", Route::ToLauncher),
            ("/installs/team/", Route::ToLauncher),
            ("/installs/team/v", Route::AppWithoutSlash { id }),
            ("/installs/team/v/", Route::App { id, root: 16 }),
            ("/installs/team/v/x/../", Route::App { id, root: 16 }),
            ("/installs/team%2Fv/", Route::NotAnId),
            ("/installs//v/", Route::NotAnId),
            ("/installs/team/a.b/", Route::NotAnId),
            ("/installs/../v/", Route::NotAnId),
            ("/installsx/team/v/", Route::Nowhere),
        ] {
            assert_eq!(route(path, &with), expected, "{path:?}");
        }
        assert_eq!(route("/installs/team/v/", &site()), Route::Nowhere);
    }

    #[test]
    fn viewers_have_a_prefix_of_their_own_with_a_namespace_and_a_name_below_it() {
        let with = Site {
            viewers_prefix: Some("/pvcviewers".into()),
            ..site()
        };
        let viewer = |root| Route::App { id: "team/v", root };
        for (path, expected) in [
            ("/pvcviewers", Route::ToLauncher),
            ("/pvcviewers/", Route::ToLauncher),
            ("/pvcviewers/team", Route::ToLauncher),
            ("/pvcviewers/team/", Route::ToLauncher),
            (
                "/pvcviewers/team/v",
                Route::AppWithoutSlash { id: "team/v" },
            ),
            ("/pvcviewers/team/v/", viewer(18)),
            ("/pvcviewers/team/v//x/y", viewer(18)),
            ("/pvcviewers/team/v/../x/", viewer(18)),
            ("/pvcviewers/team%2Fv/", Route::NotAnId),
            ("/pvcviewers/team%2fv", Route::NotAnId),
            ("/pvcviewers/team/v%2F", Route::NotAnId),
            ("/pvcviewers/team/v;x/", Route::NotAnId),
            ("/pvcviewers//v/", Route::NotAnId),
            ("/pvcviewers//", Route::NotAnId),
            ("/pvcviewers/team//", Route::NotAnId),
            ("/pvcviewers/team//v/", Route::NotAnId),
            ("/pvcviewers/../v/", Route::NotAnId),
            ("/pvcviewers/Team/v/", Route::NotAnId),
            ("/pvcviewers/team/a.b/", Route::NotAnId),
            ("/pvcviewersx/team/v/", Route::Nowhere),
            ("//pvcviewers/team/v/", Route::Nowhere),
            ("/PVCViewers/team/v/", Route::Nowhere),
            (
                "/apps/team/v/",
                Route::App {
                    id: "team",
                    root: 10,
                },
            ),
        ] {
            assert_eq!(route(path, &with), expected, "{path:?}");
            if path.starts_with("/pvcviewers") {
                assert_eq!(route(path, &site()), Route::Nowhere, "{path:?}");
            }
        }
    }

    #[test]
    fn labs_have_a_prefix_that_may_lie_below_that_of_apps() {
        let with = Site {
            labs_prefix: Some("/apps/nb/user".into()),
            ..site()
        };
        let found = |username, root| Some(LabPath { username, root });
        for (path, wanted) in [
            ("/apps/nb/user/rachel/", found("rachel", Some(20))),
            ("/apps/nb/user/rachel/lab", found("rachel", Some(20))),
            ("/apps/nb/user/1a//x/..", found("1a", Some(16))),
            ("/apps/nb/user/rachel", found("rachel", None)),
            ("/apps/nb/user", None),
            ("/apps/nb/user/", None),
            ("/apps/nb/users/rachel/", None),
            ("/apps/nb/hub/rachel/", None),
        ] {
            assert_eq!(lab(path, &with), wanted, "{path:?}");
            assert_eq!(lab(path, &site()), None, "{path:?}");
            // Without the lab it is the path of the hub.
            let hub = Route::App { id: "nb", root: 8 };
            assert_eq!(route(path, &with), hub, "{path:?}");
        }
    }

    #[test]
    fn below_the_prefix_of_labs_a_name_that_no_lab_has_leads_nowhere() {
        let with = Site {
            labs_prefix: Some("/apps/nb/user".into()),
            ..site()
        };
        for name in [
            "Rachel",
            "17",
            "a.b",
            "..",
            "a;x",
            "%72achel",
            "rachel%2F",
            "",
        ] {
            let path = format!("/apps/nb/user/{name}/lab");
            assert_eq!(lab(&path, &with), None, "{path:?}");
            assert_eq!(route(&path, &with), Route::NotAnId, "{path:?}");
        }
    }
}
