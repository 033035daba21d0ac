//! Renewing a session without leaving the page: a window signs the person in and notifies the page
//! that opened it. `/.ludgate/renew.js` opens the window; `/.ludgate/renewed` is where it ends.

use std::sync::Arc;

use http::StatusCode;

use super::{call::EndpointCall, step_up, ticket};
use crate::{
    authorize::Denied,
    catalog::lookup::Lookup,
    decide::Reason,
    model::{arrival::RequestClass, authentication::AuthenticationRequirement, vhost::VirtualHost},
    pages::{self, Page, RenewedPage},
    respond::endpoint::EndpointReply,
    route::path::RENEWED,
    session::record::SignIn,
};

/// The page's script: notifies its opener, if that is a page of this very origin.
const NOTIFY: &str = "if(opener){opener.postMessage({renewed:true},location.origin)}close()";
/// The script that an app loads.
pub(super) const SCRIPT: &str = include_str!("../../templates/renew.js");

/// The end of a window that renews; a person without a session signs in first.
pub(super) async fn renewed(call: EndpointCall<'_, '_>) -> EndpointReply {
    let Ok(asked) = step_up::requirement(call) else {
        return EndpointReply::refuse(Reason::BadQuery);
    };
    let (sign_in, required) = session(call).await;
    let requirement = asked.or(required);
    let is_renewed = |it: &Arc<SignIn>| step_up::is_met(call, it, requirement.as_ref());
    if sign_in.as_ref().is_some_and(is_renewed) {
        let page = RenewedPage { script: NOTIFY };
        return EndpointReply::page(Page::scripted(&page, NOTIFY));
    }
    let arrival = &call.request.arrival;
    if arrival.class != RequestClass::Navigation {
        return EndpointReply::refuse(Reason::Denied(Denied::Anonymous));
    }
    match arrival.vhost {
        VirtualHost::Site => {
            let start = pages::start_with(call.site(), RENEWED, requirement.as_ref());
            EndpointReply::redirect(StatusCode::FOUND, start)
        }
        VirtualHost::Host(_) | VirtualHost::Port(_) => {
            ticket::lead_to_site(call, RENEWED, requirement.as_ref())
        }
    }
}

/// The sign-in of the session at this origin, and what the app of the origin requires of it. Apps
/// on paths share the site, so that the query has to say what they require.
async fn session(
    call: EndpointCall<'_, '_>,
) -> (Option<Arc<SignIn>>, Option<AuthenticationRequirement>) {
    let vhost = &call.request.arrival.vhost;
    let Ok(cookies) = call.request.cookies() else {
        return (None, None);
    };
    if *vhost == VirtualHost::Site {
        return (call.sign_in(), None);
    }
    let client = call.request.client.address;
    let lookup = call
        .gateway
        .catalog
        .find(vhost, call.snapshot, client)
        .await;
    let Lookup::App(app) = lookup else {
        return (None, None);
    };
    let now = call.gateway.clock.now();
    let sessions = &call.gateway.sessions;
    let presented = cookies.app.iter();
    let live = sessions
        .store
        .find(presented, std::iter::empty(), app.id(), vhost, now);
    let sign_in = live.map(|live| live.sign_in().clone());
    (sign_in, app.spec.authentication.as_deref().cloned())
}
