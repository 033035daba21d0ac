//! The one place where it is decided what a request gets. Pure: requests, `ludgate explain` and the
//! tests ask the same functions.
//!
//! [`decide`] is [`locate`], which needs no caller, then [`judge`], which does, then [`reachable`].
//! The line calls them apart, because for a public app nobody asks who the caller is.

use super::{
    decision::{Decision, Early, Reason, Refusal},
    locate::locate,
};
use crate::{
    authorize::{Denied, Permit, authorize},
    catalog::{lookup::Lookup, snapshot::Snapshot},
    model::{
        access::Access,
        app::{AppKind, AppState},
        arrival::{Arrival, Origin, Provenance, RequestClass},
        caller::{Caller, Credential},
        destination::Destination,
    },
};

/// What the request gets.
pub fn decide(
    arrival: &Arrival,
    caller: &Caller,
    snapshot: &Snapshot,
    lookup: &Lookup,
) -> Decision {
    let judged = locate(arrival, snapshot, lookup)
        .and_then(|destination| judge(arrival, caller, destination));
    match judged.and_then(reachable) {
        Ok(permit) => Decision::Forward(permit),
        Err(early) => Decision::Early(early),
    }
}

/// Whether the destination's app lets everybody in, so that nobody asks who the caller is.
pub fn is_open(destination: &Destination) -> bool {
    match (destination.app.kind, &destination.app.spec.access) {
        (AppKind::Console, _) | (AppKind::Hosted, Access::Public) => true,
        (
            AppKind::Hosted,
            Access::User
            | Access::Group(_)
            | Access::Owner(_)
            | Access::Admins
            | Access::Unknown(_),
        ) => false,
    }
}

/// Whether this caller may reach the destination, and what they get if not.
pub fn judge(
    arrival: &Arrival,
    caller: &Caller,
    destination: Destination,
) -> Result<Permit, Early> {
    let refuse = |reason, destination: Destination| {
        Err(Early::Refuse(Refusal {
            reason,
            app: Some(destination.app),
        }))
    };
    if is_open(&destination) {
        return conclude(arrival, None, destination);
    }
    match caller {
        Caller::BadToken => refuse(Reason::BadToken, destination),
        Caller::Unverifiable => refuse(Reason::Unverifiable, destination),
        Caller::Anonymous => conclude(arrival, None, destination),
        Caller::Person {
            principal,
            credential,
        } => match cookie_counts(arrival, *credential) {
            Ok(true) => conclude(arrival, Some(principal), destination),
            Ok(false) => conclude(arrival, None, destination),
            Err(reason) => refuse(reason, destination),
        },
    }
}

/// Whether the app is there to be reached: asked after whether the person may, so that nobody
/// learns the state of what they may not see.
pub fn reachable(permit: Permit) -> Result<Permit, Early> {
    let state = permit.app().spec.state;
    let refuse = |reason| {
        Err(Early::Refuse(Refusal {
            reason,
            app: Some(permit.app().clone()),
        }))
    };
    match state {
        AppState::Running => Ok(permit),
        AppState::Starting => refuse(Reason::Starting),
        AppState::Stopping => refuse(Reason::Stopping),
        AppState::Stopped => refuse(Reason::Stopped),
        AppState::Failed => refuse(Reason::Failed),
        AppState::Ended => refuse(Reason::Ended),
    }
}

/// A cookie speaks for the person only where our own origin led the browser here.
fn cookie_counts(arrival: &Arrival, credential: Credential) -> Result<bool, Reason> {
    match (
        credential,
        arrival.class,
        arrival.origin,
        arrival.provenance,
    ) {
        (Credential::Bearer | Credential::Address, _, _, _) => Ok(true),
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
        Denied::Anonymous if arrival.class == RequestClass::Navigation => Early::SignIn {
            return_to: destination.public_target().as_str().to_owned(),
        },
        Denied::Anonymous | Denied::NotInGroup | Denied::NotOwner | Denied::UnknownAccess => {
            Early::Refuse(Refusal {
                reason: Reason::Denied(denied),
                app: Some(destination.app),
            })
        }
    })
}
