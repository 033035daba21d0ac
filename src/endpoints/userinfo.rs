//! `/oauth2/userinfo`, and `/.ludgate/userinfo` on every origin: the signed-in person, as JSON.

use std::sync::Arc;

use http::StatusCode;
use serde_json::json;

use super::call::{EndpointCall, person_of};
use crate::{
    authorize::Denied,
    caller::session_memo::SessionMemo,
    catalog::lookup::Lookup,
    decide::{Decision, Reason, authorize::admit},
    model::{
        destination::Destination, path_rule::RuleSet, principal::Principal, vhost::VirtualHost,
    },
    respond::endpoint::{Content, EndpointReply},
};

/// Answers with the person, or with the reason why there is none.
pub(super) async fn userinfo(call: EndpointCall<'_, '_>) -> EndpointReply {
    let found = match call.request.arrival.vhost {
        VirtualHost::Site => person_of(&call.identify().await.caller),
        VirtualHost::Host(_) | VirtualHost::Port(_) => person_at_host(call).await,
    };
    let person = match found {
        Ok(person) => person,
        Err(reason) => return EndpointReply::refuse(reason),
    };
    let groups: Vec<&str> = person.groups().iter().map(|group| group.as_str()).collect();
    let body = json!({
        "user": person.subject,
        "email": person.email,
        "preferredUsername": person.preferred_username,
        "groups": groups,
    });
    EndpointReply::new(Content::Json(StatusCode::OK, body)).with_person(person)
}

/// The person at an app's host. Scripts of the app read the answer, so it names a person only if
/// the headers of the app's requests do.
async fn person_at_host(call: EndpointCall<'_, '_>) -> Result<Arc<Principal>, Reason> {
    let EndpointCall {
        gateway,
        snapshot,
        request,
        ..
    } = call;
    let arrival = &request.arrival;
    let client = request.client.address;
    let lookup = gateway.catalog.find(&arrival.vhost, snapshot, client).await;
    let Lookup::App(app) = lookup else {
        return Err(Reason::NotFound);
    };
    if !app.spec.identity_headers {
        return Err(Reason::NotFound);
    }
    // Not by a rule of a path: this path is not the app's.
    let destination = Destination::new(app, arrival.target.clone(), 0).with_rules(RuleSet::OWN);
    let memo = SessionMemo::default();
    let caller = gateway
        .callers
        .identify(request, &destination, &memo)
        .await
        .map_err(Reason::Malformed)?;
    let now = destination.app.decision_time(&gateway.clock);
    match admit(destination, &caller, arrival, call.site(), now) {
        Ok(permit) => permit
            .principal()
            .cloned()
            .ok_or(Reason::Denied(Denied::Anonymous)),
        Err(Decision::SignIn { .. }) => Err(Reason::Denied(Denied::Anonymous)),
        Err(Decision::Refuse(refusal) | Decision::SaveForm(refusal)) => {
            let may_learn = refusal.hideable().is_none();
            Err(refusal.hidden_unless(may_learn).reason)
        }
        Err(
            Decision::Endpoint(_)
            | Decision::Launcher
            | Decision::Redirect(_)
            | Decision::ForgetTenant { .. }
            | Decision::DropToken { .. }
            | Decision::ResendForm(_)
            | Decision::Fault { .. },
        ) => Err(Reason::NotFound),
    }
}
