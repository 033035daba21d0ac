//! Whether the caller may reach the app: the access rule first, then the app's state. Pure.

use std::sync::Arc;

use super::{
    decision::{Decision, Refusal},
    origin_check::cookie_counts,
    reason::Reason,
    target::Target,
};
use crate::{
    authorize::{self, Denied, Permit},
    caller::Identified,
    model::{
        app::AppState,
        arrival::{Arrival, RequestClass},
        caller::{Caller, Credential},
        destination::Destination,
        principal::Principal,
        site::Site,
    },
};

/// The right to send the request to the app.
///
/// The state is checked after the rule, so that a person who may not reach an app does not learn
/// its state. `now` is the app's `decision_time`.
///
/// # Errors
/// What the caller gets instead of the app.
pub fn authorize(
    target: Target,
    caller: &Identified,
    arrival: &Arrival,
    site: &Site,
    now: i64,
) -> Result<Permit, Decision> {
    let permit = admit(target.destination, caller, arrival, site, now)?;
    if arrival.sheds_token() {
        return Err(Decision::DropToken {
            permit: Box::new(permit),
            tenant: target.tenant.into_changed(),
        });
    }
    check_state(permit)
}

/// Checks the access rule alone, whatever the app's state. A refusal that a planted cookie may have
/// caused counts as anonymous: pages below the same domain can set a token for all hosts, and must
/// not lock users out. The person is then asked to sign in, and the session of that sign-in takes
/// precedence.
///
/// # Errors
/// What the caller gets instead of the app.
pub fn admit(
    destination: Destination,
    caller: &Identified,
    arrival: &Arrival,
    site: &Site,
    now: i64,
) -> Result<Permit, Decision> {
    let may_be_planted =
        caller.by_shared_cookie && arrival.class == RequestClass::Navigation && site.signs_in;
    if !may_be_planted {
        return check_access(arrival, &caller.caller, destination, now);
    }
    check_access(arrival, &caller.caller, destination.clone(), now)
        .or_else(|_| check_access(arrival, &Caller::Anonymous, destination, now))
}

/// Whether this caller may reach the destination, by its access rule.
///
/// # Errors
/// What the caller gets instead of the app.
pub fn check_access(
    arrival: &Arrival,
    caller: &Caller,
    destination: Destination,
    now: i64,
) -> Result<Permit, Decision> {
    if destination.is_open() {
        return apply_rule(arrival, None, destination, now);
    }
    match caller {
        Caller::BadToken => refuse(Reason::BadToken, destination),
        Caller::Unverifiable => refuse(Reason::Unverifiable, destination),
        Caller::Anonymous => apply_rule(arrival, None, destination, now),
        Caller::Person {
            principal,
            credential,
        } => match cookie_counts(arrival, *credential) {
            Ok(true) => apply_rule(arrival, Some(principal), destination, now)
                .map_err(|decision| for_credential(decision, *credential)),
            Ok(false) => apply_rule(arrival, None, destination, now),
            Err(reason) => refuse(reason, destination),
        },
    }
}

fn refuse<T>(reason: Reason, destination: Destination) -> Result<T, Decision> {
    Err(Refusal::at(destination.app, reason).into())
}

/// A sign-in does not help a caller whose request brings a token of its own: only another token
/// does, which the refusal asks for.
fn for_credential(decision: Decision, credential: Credential) -> Decision {
    match (decision, credential) {
        (Decision::SignIn { refusal, .. } | Decision::SaveForm(refusal), Credential::Bearer) => {
            Decision::Refuse(refusal)
        }
        (decision, Credential::Bearer | Credential::Cookie | Credential::Address) => decision,
    }
}

fn apply_rule(
    arrival: &Arrival,
    person: Option<&Arc<Principal>>,
    destination: Destination,
    now: i64,
) -> Result<Permit, Decision> {
    let (destination, denial) = match authorize::authorize(destination, person, now) {
        Ok(permit) => return Ok(permit),
        Err(refused) => refused,
    };
    let refusal = Refusal {
        rule: denial.rule,
        ..Refusal::at(destination.app.clone(), Reason::Denied(denial.denied))
    };
    Err(match denial.denied {
        Denied::Anonymous | Denied::InsufficientAuthentication(_)
            if arrival.class == RequestClass::Navigation =>
        {
            Decision::SignIn {
                return_to: destination.public_target().as_str().to_owned(),
                refusal,
            }
        }
        Denied::Anonymous | Denied::InsufficientAuthentication(_) if arrival.sends_form => {
            Decision::SaveForm(refusal)
        }
        Denied::Anonymous
        | Denied::InsufficientAuthentication(_)
        | Denied::NotInGroup
        | Denied::NotOwner
        | Denied::OtherIssuer
        | Denied::NotAdmitted(_)
        | Denied::Excluded(_)
        | Denied::UnknownAccess => Decision::Refuse(refusal),
    })
}

/// Whether the app can be reached now.
fn check_state(permit: Permit) -> Result<Permit, Decision> {
    let reason = match permit.app().spec.state {
        AppState::Running => return Ok(permit),
        AppState::Starting => Reason::Starting,
        AppState::Idle => Reason::Idle,
        AppState::Stopping => Reason::Stopping,
        AppState::Stopped => Reason::Stopped,
        AppState::Failed => Reason::Failed,
        AppState::Ended => Reason::Ended,
    };
    Err(Refusal::at(permit.app().clone(), reason).into())
}
