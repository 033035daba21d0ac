//! Routing on paths: the prefix, the id, our own endpoints, then the console or nothing.

use super::{Endpoint, Route};
use crate::{
    cluster::{crd::application::LOG_PATHS, pod_logs::is_pod_name},
    model::{
        app::{is_app_id, is_installation_id, is_lab_username, is_viewer_id},
        dns,
        path_prefix::below,
        provider_id::ProviderId,
        site::{FORWARD_AUTH, Site},
        vhost::VirtualHost,
    },
};

/// Our second reserved prefix, on every origin.
pub const RESERVED: &str = "/.ludgate";

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
/// On every origin of ours: signs out.
pub const SIGN_OUT: &str = "/.ludgate/sign_out";
/// On every origin of ours: the caller's identity.
pub const USERINFO: &str = "/.ludgate/userinfo";

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
    below(path, RESERVED)?;
    let endpoint = match path {
        ENTER => Some(Endpoint::Enter),
        _ if below(path, FORWARD_AUTH).is_some() => Some(Endpoint::Auth),
        _ => on_every_origin(path),
    };
    Some(endpoint.map_or(Route::Nowhere, Route::Endpoint))
}

/// The endpoint that has this path on the site and on the hosts of apps.
fn on_every_origin(path: &str) -> Option<Endpoint> {
    match path {
        RENEWED => Some(Endpoint::Renewed),
        RENEW_SCRIPT => Some(Endpoint::RenewScript),
        SESSION_STATUS => Some(Endpoint::SessionStatus),
        SESSION_SCRIPT => Some(Endpoint::SessionScript),
        JWKS => Some(Endpoint::Jwks),
        SIGN_OUT => Some(Endpoint::SignOut),
        USERINFO => Some(Endpoint::Userinfo),
        _ => None,
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

/// The further provider that sends browsers back to a path; whether it exists is another question.
/// `None`: the default provider does, or none.
pub fn callback_provider(path: &str, site: &Site) -> Option<ProviderId> {
    let rest = below(path, &site.endpoints)?.strip_prefix('/')?;
    let id = rest.strip_prefix(Endpoint::Callback.as_str())?;
    ProviderId::new(id.strip_prefix('/')?)
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
            Some(_) | None if callback_provider(path, site).is_some() => {
                Route::Endpoint(Endpoint::Callback)
            }
            Some(_) | None => Route::Nowhere,
        };
    }
    if below(path, RESERVED).is_some() {
        return on_every_origin(path).map_or(Route::Nowhere, Route::Endpoint);
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

#[cfg(test)]
mod tests;
