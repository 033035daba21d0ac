//! The one place where it is decided what a request gets. Pure: requests, `ludgate explain` and the tests
//! ask the same functions.
//!
//! [`decide`] is [`locate`], which needs no caller, then [`judge`], which does. The line calls the two
//! apart, because for a public app nobody asks who the caller is.

use http::{Method, StatusCode};

use super::decision::{Decision, Early, Reason, Refusal};
use crate::{
    authorize::{Denied, Permit, authorize},
    catalog::snapshot::Snapshot,
    incoming::{Malformed, path},
    model::{
        access::Access,
        arrival::{Arrival, Origin, Provenance, RequestClass},
        caller::{Caller, Credential},
        destination::Destination,
    },
    route::{Endpoint, Route, path::route},
};

/// What the request gets.
pub fn decide(arrival: &Arrival, caller: &Caller, snapshot: &Snapshot) -> Decision {
    match locate(arrival, snapshot).and_then(|destination| judge(arrival, caller, destination)) {
        Ok(permit) => Decision::Forward(permit),
        Err(early) => Decision::Early(early),
    }
}

/// Which app the request is for, or what it gets without one.
pub fn locate(arrival: &Arrival, snapshot: &Snapshot) -> Result<Destination, Early> {
    let site = snapshot.site();
    let path = arrival.target.path();
    let refuse = |reason| Err(Early::Refuse(Refusal { reason, app: None }));
    match route(path, site) {
        Route::App { id, root } => {
            let Some(app) = snapshot.find(id) else { return refuse(Reason::UnknownApp) };
            match path::check_below_root(&path[root + 1..]) {
                Ok(()) => Ok(Destination::new(app.clone(), arrival.target.clone(), root)),
                Err(malformed) => refuse(Reason::Malformed(malformed)),
            }
        }
        Route::AppWithoutSlash { id } => match snapshot.find(id) {
            Some(app) => Err(Early::Redirect {
                status: StatusCode::PERMANENT_REDIRECT,
                location: with_query(&format!("{}/", app.mount), arrival),
            }),
            None => refuse(Reason::UnknownApp),
        },
        Route::Launcher => match arrival.method {
            Method::GET | Method::HEAD => Err(Early::Launcher),
            _ => refuse(Reason::MethodNotAllowed),
        },
        Route::ToLauncher => Err(Early::Redirect {
            status: StatusCode::FOUND,
            location: with_query(&site.launcher(), arrival),
        }),
        Route::Endpoint(endpoint) if takes(endpoint, &arrival.method) => Err(Early::Endpoint(endpoint)),
        Route::Endpoint(_) => refuse(Reason::MethodNotAllowed),
        Route::Console => match &site.console {
            Some(console) => Ok(Destination::new(console.clone(), arrival.target.clone(), 0)),
            None => refuse(Reason::NotFound),
        },
        // Inside our prefix, bytes that no id has are an attempt to be read differently.
        Route::NotAnId if path.bytes().any(|byte| matches!(byte, b'%' | b';')) || path.contains("/.") => {
            refuse(Reason::Malformed(Malformed::Path))
        }
        Route::NotAnId => refuse(Reason::UnknownApp),
        Route::Nowhere => refuse(Reason::NotFound),
    }
}

/// Whether the destination's app lets everybody in, so that nobody asks who the caller is.
pub fn is_open(destination: &Destination) -> bool {
    use crate::model::app::AppKind;
    match (destination.app.kind, &destination.app.spec.access) {
        (AppKind::Console, _) | (AppKind::Hosted, Access::Public) => true,
        (AppKind::Hosted, Access::User | Access::Group(_) | Access::Owner(_) | Access::Unknown(_)) => false,
    }
}

/// Whether this caller may reach the destination, and what they get if not.
pub fn judge(arrival: &Arrival, caller: &Caller, destination: Destination) -> Result<Permit, Early> {
    let refuse =
        |reason, destination: Destination| Err(Early::Refuse(Refusal { reason, app: Some(destination.app) }));
    if is_open(&destination) {
        return conclude(arrival, None, destination);
    }
    match caller {
        Caller::BadToken => refuse(Reason::BadToken, destination),
        Caller::Unverifiable => refuse(Reason::Unverifiable, destination),
        Caller::Anonymous => conclude(arrival, None, destination),
        Caller::Person { principal, credential } => match cookie_counts(arrival, *credential) {
            Ok(true) => conclude(arrival, Some(principal), destination),
            Ok(false) => conclude(arrival, None, destination),
            Err(reason) => refuse(reason, destination),
        },
    }
}

/// Rows 22 and 39: a cookie speaks for the person only where our own origin led the browser here.
fn cookie_counts(arrival: &Arrival, credential: Credential) -> Result<bool, Reason> {
    match (credential, arrival.class, arrival.origin, arrival.provenance) {
        (Credential::Bearer, _, _, _) => Ok(true),
        (Credential::Cookie, RequestClass::WebSocket, Origin::Own, Provenance::Own) => Ok(true),
        (Credential::Cookie, RequestClass::WebSocket, _, _) => Err(Reason::ForeignOrigin),
        (Credential::Cookie, _, _, Provenance::Own) => Ok(true),
        (Credential::Cookie, _, _, Provenance::Foreign) => Ok(false),
    }
}

fn conclude(
    arrival: &Arrival,
    person: Option<&std::sync::Arc<crate::model::principal::Principal>>,
    destination: Destination,
) -> Result<Permit, Early> {
    authorize(destination, person).map_err(|(destination, denied)| match denied {
        Denied::Anonymous if arrival.class == RequestClass::Navigation => {
            Early::SignIn { return_to: destination.public_target().as_str().to_owned() }
        }
        Denied::Anonymous | Denied::NotInGroup | Denied::NotOwner | Denied::UnknownAccess => {
            Early::Refuse(Refusal { reason: Reason::Denied(denied), app: Some(destination.app) })
        }
    })
}

fn takes(endpoint: Endpoint, method: &Method) -> bool {
    let reads = method == Method::GET || method == Method::HEAD;
    match endpoint {
        Endpoint::Start | Endpoint::Callback | Endpoint::SignIn | Endpoint::Userinfo => reads,
        Endpoint::SignOut => reads || method == Method::POST,
    }
}

fn with_query(path: &str, arrival: &Arrival) -> String {
    match arrival.target.query() {
        Some(query) => format!("{path}?{query}"),
        None => path.to_owned(),
    }
}
