//! Which app a request is for: by the virtual host it arrived at, then by its path. Pure.

use std::sync::Arc;

use http::{Method, StatusCode};

use super::{
    decision::{Decision, Redirect, Refusal},
    labels::RedirectReason,
    path_rules::with_rules,
    reason::Reason,
    stray_request,
    target::Target,
    tenant::{self, TenantCookie},
};
use crate::{
    catalog::{
        hub_routes::{HubLookup, HubRoutes},
        lookup::Lookup,
        snapshot::Snapshot,
    },
    incoming::{IncomingRequest, Malformed, path},
    model::{
        app::{App, AppKind, Isolation},
        arrival::{Arrival, Framing},
        destination::Destination,
        path_prefix::below,
        site::Site,
        vhost::VirtualHost,
    },
    route::{
        Endpoint, Route,
        path::{lab, on_host, route},
    },
};

/// Largest body that sends a saved form again, in bytes: 64 KiB sealed, as base64 of JSON.
pub const MAX_SEALED_FORM: usize = 256 * 1024;

/// The app that the request is for; `lookup` says what is at its virtual host.
///
/// # Errors
/// What the request gets instead of an app.
pub fn locate(
    request: &IncomingRequest<'_>,
    snapshot: &Snapshot,
    lookup: &Lookup,
) -> Result<Target, Decision> {
    let arrival = &request.arrival;
    let destination = destination(arrival, snapshot, lookup)
        .map_err(|decision| stray_request::attribute(decision, request, snapshot))?;
    let tenant = TenantCookie::compare(request, &destination.app);
    let is_form = destination.app.kind == AppKind::Hosted && may_hold_saved_form(request);
    let target = Target {
        destination,
        tenant,
    };
    if is_form {
        return Err(Decision::ResendForm(Box::new(target)));
    }
    check_tenant(target, arrival)
}

/// The target, unless the browser has to forget the last tenant of the address first.
///
/// # Errors
/// [`Decision::ForgetTenant`] where the request can be sent again, else a refusal.
pub fn check_tenant(target: Target, arrival: &Arrival) -> Result<Target, Decision> {
    match target.tenant {
        TenantCookie::Changed(cookie) if !arrival.sheds_token() => {
            let app = target.destination.app;
            if tenant::can_be_repeated(arrival) {
                Err(Decision::ForgetTenant { app, cookie })
            } else {
                Err(Refusal::at(app, Reason::OtherTenant).into())
            }
        }
        TenantCookie::Unchanged | TenantCookie::First(_) | TenantCookie::Changed(_) => Ok(target),
    }
}

/// Whether the body may be a saved form. A marked request without one was sent by the app's own
/// page at the marked address.
fn may_hold_saved_form(request: &IncomingRequest<'_>) -> bool {
    let fits = |length| length <= MAX_SEALED_FORM as u64;
    request.arrival.resends_form
        && matches!(request.arrival.framing, Framing::Length(length) if fits(length))
        && request.is_url_encoded()
}

/// The app that a validated head is for, and the target within it.
///
/// # Errors
/// What the request gets instead of an app.
pub fn destination(
    arrival: &Arrival,
    snapshot: &Snapshot,
    lookup: &Lookup,
) -> Result<Destination, Decision> {
    let found = match lookup {
        Lookup::Site => on_the_site(arrival, snapshot),
        Lookup::App(app) => on_its_host(arrival, app, snapshot.site()),
        Lookup::Unknown => refuse(absent(snapshot)),
        Lookup::Malformed => refuse(Reason::Malformed(Malformed::Host)),
        Lookup::Unassigned => refuse(Reason::Unassigned),
        Lookup::Unavailable => refuse(Reason::CatalogUnavailable),
    };
    found.map(|destination| with_rules(destination, arrival))
}

fn refuse<T>(reason: Reason) -> Result<T, Decision> {
    Err(reason.into())
}

fn redirect<T>(status: StatusCode, location: String) -> Result<T, Decision> {
    let reason = RedirectReason::Path;
    Err(Decision::Redirect(Redirect {
        status,
        location,
        reason,
    }))
}

/// An app that is not in the snapshot does not exist, unless its source is not complete yet.
fn absent(snapshot: &Snapshot) -> Reason {
    if snapshot.is_complete() {
        Reason::UnknownApp
    } else {
        Reason::CatalogUnavailable
    }
}

fn on_its_host(arrival: &Arrival, app: &Arc<App>, site: &Site) -> Result<Destination, Decision> {
    let path = arrival.target.path();
    // The host of a hub must not lead to labs around their rule.
    if let Some(labs) = site.labs_prefix.as_deref()
        && (below(path, labs).is_some() || path::may_be_read_below(path, labs))
    {
        return refuse(Reason::NotFound);
    }
    match on_host(path) {
        Some(Route::Endpoint(endpoint)) => to_endpoint(endpoint, arrival),
        Some(_) => refuse(Reason::NotFound),
        None => {
            path::check_below_root(&path[1..])?;
            Ok(Destination::new(app.clone(), arrival.target.clone(), 0))
        }
    }
}

fn on_the_site(arrival: &Arrival, snapshot: &Snapshot) -> Result<Destination, Decision> {
    let site = snapshot.site();
    let path = arrival.target.path();
    // Nor for a hub: its proxy may decode the path, and find the lab of another person.
    if let Some(labs) = site.labs_prefix.as_deref()
        && path::may_be_read_below(path, labs)
    {
        return refuse(Reason::Malformed(Malformed::Path));
    }
    if let Some(lab) = lab(path, site) {
        match (snapshot.lab(lab.username), lab.root) {
            (Some(app), Some(root)) => return on_its_path(arrival, app, root, site),
            (Some(app), None) => return without_slash(arrival, app),
            // A lab that is not listed yet must not be taken for one that ended.
            (None, _) if !snapshot.is_complete() => return refuse(Reason::CatalogUnavailable),
            (None, Some(root)) => path::check_below_root(&path[root + 1..])?,
            (None, None) => {}
        }
    }
    if let Some(hub) = snapshot.hub_routes()
        && let Some(found) = at_hub(arrival, hub)
    {
        return found;
    }
    match route(path, site) {
        Route::App { id, root } => match snapshot.find(id) {
            Some(app) => on_its_path(arrival, app, root, site),
            None => refuse(absent(snapshot)),
        },
        Route::AppWithoutSlash { id } => match snapshot.find(id) {
            Some(app) => without_slash(arrival, app),
            None => refuse(absent(snapshot)),
        },
        Route::Launcher => match arrival.method {
            Method::GET | Method::HEAD => Err(Decision::Launcher),
            _ => refuse(Reason::MethodNotAllowed),
        },
        Route::ToLauncher => redirect(StatusCode::FOUND, with_query(&site.launcher(), arrival)),
        Route::Endpoint(endpoint) => to_endpoint(endpoint, arrival),
        Route::Api => match &site.api {
            Some(api) => Ok(Destination::new(api.clone(), arrival.target.clone(), 0)),
            None => refuse(Reason::NotFound),
        },
        Route::Console => match &site.console {
            Some(console) => Ok(Destination::new(console.clone(), arrival.target.clone(), 0)),
            None => refuse(Reason::NotFound),
        },
        // Inside our prefix, bytes that are invalid in ids are an attempt to be parsed differently.
        Route::NotAnId
            if path.bytes().any(|byte| matches!(byte, b'%' | b';')) || path.contains("/.") =>
        {
            refuse(Reason::Malformed(Malformed::Path))
        }
        Route::NotAnId => refuse(Reason::UnknownApp),
        Route::Nowhere => refuse(Reason::NotFound),
    }
}

/// The route of a hub; `None`: the path is not below its prefix.
fn at_hub(arrival: &Arrival, hub: &HubRoutes) -> Option<Result<Destination, Decision>> {
    let path = arrival.target.path();
    Some(match hub.find(path) {
        HubLookup::Elsewhere => return None,
        // After a restart, until the hub has added its routes again.
        HubLookup::NoRoutes => refuse(Reason::CatalogUnavailable),
        HubLookup::NoMatch => refuse(Reason::NotFound),
        HubLookup::Route { app, end } if end == path.len() => {
            Ok(Destination::bare(app, arrival.target.clone()))
        }
        HubLookup::Route { app, end } => path::check_below_root(&path[end + 1..])
            .map(|()| Destination::new(app, arrival.target.clone(), end))
            .map_err(Decision::from),
    })
}

/// The mount of an app, without a slash at the end.
fn without_slash(arrival: &Arrival, app: &Arc<App>) -> Result<Destination, Decision> {
    if app.serves_bare_path() && app.spec.isolation != Isolation::Host {
        return Ok(Destination::bare(app.clone(), arrival.target.clone()));
    }
    redirect(
        StatusCode::PERMANENT_REDIRECT,
        with_query(&format!("{}/", app.mount), arrival),
    )
}

fn on_its_path(
    arrival: &Arrival,
    app: &Arc<App>,
    root: usize,
    site: &Site,
) -> Result<Destination, Decision> {
    let path = arrival.target.path();
    path::check_below_root(&path[root + 1..])?;
    match (app.spec.isolation, app.host) {
        (Isolation::Host, Some(label)) => {
            let target = with_query(&path[root..], arrival);
            redirect(
                StatusCode::TEMPORARY_REDIRECT,
                site.url(&VirtualHost::Host(label), &target),
            )
        }
        // Another app has its host. On the path it would share an origin that it must not share.
        (Isolation::Host, None) => refuse(Reason::UnknownApp),
        (Isolation::Both | Isolation::Path, _) => {
            Ok(Destination::new(app.clone(), arrival.target.clone(), root))
        }
    }
}

fn to_endpoint<T>(endpoint: Endpoint, arrival: &Arrival) -> Result<T, Decision> {
    let method = &arrival.method;
    let reads = method == Method::GET || method == Method::HEAD;
    let takes = match endpoint {
        Endpoint::Start
        | Endpoint::Callback
        | Endpoint::SignIn
        | Endpoint::Userinfo
        | Endpoint::Renewed
        | Endpoint::RenewScript
        | Endpoint::SessionStatus
        | Endpoint::SessionScript
        | Endpoint::Jwks => reads,
        // On an app's host it only leads to the site.
        Endpoint::SignOut => {
            reads || (method == Method::POST && arrival.vhost == VirtualHost::Site)
        }
        Endpoint::BackchannelLogout => method == Method::POST,
        Endpoint::FrontchannelLogout | Endpoint::Logs => method == Method::GET,
        // A ticket works once, so a HEAD would waste it.
        Endpoint::Enter => method == Method::GET,
        // Some proxies send the method of the request that they ask about.
        Endpoint::Auth => true,
    };
    if takes {
        Err(Decision::Endpoint(endpoint))
    } else {
        refuse(Reason::MethodNotAllowed)
    }
}

fn with_query(path: &str, arrival: &Arrival) -> String {
    match arrival.target.query() {
        Some(query) => format!("{path}?{query}"),
        None => path.to_owned(),
    }
}
