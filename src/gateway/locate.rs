//! Which app a request is for, or what it gets without one: by the place it arrived at, then by its
//! path.

use http::{Method, StatusCode};

use super::decision::{Early, Reason, Refusal};
use crate::{
    catalog::{lookup::Lookup, snapshot::Snapshot},
    incoming::{Malformed, path},
    model::{
        app::{App, Isolation},
        arrival::Arrival,
        destination::Destination,
        vhost::VirtualHost,
    },
    route::{
        Endpoint, Route,
        path::{on_host, route},
    },
};

/// Which app the request is for, or what it gets without one.
pub fn locate(
    arrival: &Arrival,
    snapshot: &Snapshot,
    lookup: &Lookup,
) -> Result<Destination, Early> {
    match lookup {
        Lookup::Site => on_the_site(arrival, snapshot),
        Lookup::App(app) => on_its_host(arrival, app),
        Lookup::Unknown => refuse(absent(snapshot)),
        Lookup::Malformed => refuse(Reason::Malformed(Malformed::Host)),
        Lookup::Unassigned => refuse(Reason::Unassigned),
        Lookup::Unavailable => refuse(Reason::CatalogUnavailable),
    }
}

fn refuse<T>(reason: Reason) -> Result<T, Early> {
    Err(Early::Refuse(Refusal { reason, app: None }))
}

/// What is not in the snapshot does not exist, unless its source has not told everything yet.
fn absent(snapshot: &Snapshot) -> Reason {
    if snapshot.is_complete() {
        Reason::UnknownApp
    } else {
        Reason::CatalogUnavailable
    }
}

fn on_its_host(arrival: &Arrival, app: &std::sync::Arc<App>) -> Result<Destination, Early> {
    let path = arrival.target.path();
    match on_host(path) {
        Some(Route::Endpoint(endpoint)) => to_endpoint(endpoint, arrival),
        Some(_) => refuse(Reason::NotFound),
        None => match path::check_below_root(&path[1..]) {
            Ok(()) => Ok(Destination::new(app.clone(), arrival.target.clone(), 0)),
            Err(malformed) => refuse(Reason::Malformed(malformed)),
        },
    }
}

fn on_the_site(arrival: &Arrival, snapshot: &Snapshot) -> Result<Destination, Early> {
    let site = snapshot.site();
    let path = arrival.target.path();
    match route(path, site) {
        Route::App { id, root } => {
            let Some(app) = snapshot.find(id) else {
                return refuse(absent(snapshot));
            };
            if let Err(malformed) = path::check_below_root(&path[root + 1..]) {
                return refuse(Reason::Malformed(malformed));
            }
            match (app.spec.isolation, app.host) {
                (Isolation::Host, Some(label)) => Err(Early::Redirect {
                    status: StatusCode::TEMPORARY_REDIRECT,
                    location: site.url(
                        &VirtualHost::Host(label),
                        &with_query(&path[root..], arrival),
                    ),
                }),
                // Its host is taken by another: on the path it would share an origin it was to be
                // kept from.
                (Isolation::Host, None) => refuse(Reason::UnknownApp),
                (Isolation::Path, _) => {
                    Ok(Destination::new(app.clone(), arrival.target.clone(), root))
                }
            }
        }
        Route::AppWithoutSlash { id } => match snapshot.find(id) {
            Some(app) if app.serves_bare_path() && app.spec.isolation == Isolation::Path => {
                Ok(Destination::bare(app.clone(), arrival.target.clone()))
            }
            Some(app) => Err(Early::Redirect {
                status: StatusCode::PERMANENT_REDIRECT,
                location: with_query(&format!("{}/", app.mount), arrival),
            }),
            None => refuse(absent(snapshot)),
        },
        Route::Launcher => match arrival.method {
            Method::GET | Method::HEAD => Err(Early::Launcher),
            _ => refuse(Reason::MethodNotAllowed),
        },
        Route::ToLauncher => Err(Early::Redirect {
            status: StatusCode::FOUND,
            location: with_query(&site.launcher(), arrival),
        }),
        Route::Endpoint(endpoint) => to_endpoint(endpoint, arrival),
        Route::Console => match &site.console {
            Some(console) => Ok(Destination::new(console.clone(), arrival.target.clone(), 0)),
            None => refuse(Reason::NotFound),
        },
        // Inside our prefix, bytes that no id has are an attempt to be read differently.
        Route::NotAnId
            if path.bytes().any(|byte| matches!(byte, b'%' | b';')) || path.contains("/.") =>
        {
            refuse(Reason::Malformed(Malformed::Path))
        }
        Route::NotAnId => refuse(Reason::UnknownApp),
        Route::Nowhere => refuse(Reason::NotFound),
    }
}

fn to_endpoint<T>(endpoint: Endpoint, arrival: &Arrival) -> Result<T, Early> {
    let method = &arrival.method;
    let reads = method == Method::GET || method == Method::HEAD;
    let takes = match endpoint {
        Endpoint::Start
        | Endpoint::Callback
        | Endpoint::SignIn
        | Endpoint::Userinfo
        | Endpoint::Renewed
        | Endpoint::RenewScript => reads,
        Endpoint::SignOut => reads || method == Method::POST,
        Endpoint::BackchannelLogout => method == Method::POST,
        Endpoint::FrontchannelLogout | Endpoint::Logs => method == Method::GET,
        // A ticket is good once; a HEAD would spend it for nothing.
        Endpoint::Enter => method == Method::GET,
    };
    if takes {
        Err(Early::Endpoint(endpoint))
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
