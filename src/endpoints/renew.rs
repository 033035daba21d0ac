//! Renewing a session without leaving the page: a window signs the person in and notifies the page
//! that opened it. `/.ludgate/renew.js` opens the window; `/.ludgate/renewed` is where it ends.

use http::StatusCode;

use super::{call::EndpointCall, ticket};
use crate::{
    authorize::Denied,
    catalog::lookup::Lookup,
    decide::Reason,
    model::{arrival::RequestClass, vhost::VirtualHost},
    pages::{self, Page, RenewedPage},
    respond::endpoint::EndpointReply,
    route::path::RENEWED,
};

/// The page's script: notifies its opener, if that is a page of this very origin.
const NOTIFY: &str = "if(opener){opener.postMessage({renewed:true},location.origin)}close()";
/// The script that an app loads.
pub(super) const SCRIPT: &str = include_str!("../../templates/renew.js");

/// The end of a window that renews; a person without a session signs in first.
pub(super) async fn renewed(call: EndpointCall<'_, '_>) -> EndpointReply {
    if has_session(call).await {
        let page = RenewedPage { script: NOTIFY };
        return EndpointReply::page(Page::scripted(&page, NOTIFY));
    }
    let arrival = &call.request.arrival;
    if arrival.class != RequestClass::Navigation {
        return EndpointReply::refuse(Reason::Denied(Denied::Anonymous));
    }
    match arrival.vhost {
        VirtualHost::Site => {
            let start = pages::start(call.site(), RENEWED);
            EndpointReply::redirect(StatusCode::FOUND, start)
        }
        VirtualHost::Host(_) | VirtualHost::Port(_) => ticket::lead_to_site(call, RENEWED),
    }
}

async fn has_session(call: EndpointCall<'_, '_>) -> bool {
    let vhost = &call.request.arrival.vhost;
    let Ok(cookies) = call.request.cookies() else {
        return false;
    };
    if *vhost == VirtualHost::Site {
        return call.sign_in().is_some();
    }
    let client = call.request.client.address;
    let lookup = call
        .gateway
        .catalog
        .find(vhost, call.snapshot, client)
        .await;
    let Lookup::App(app) = lookup else {
        return false;
    };
    let now = call.gateway.clock.now();
    let sessions = &call.gateway.sessions;
    sessions
        .store
        .find(cookies.app.iter(), std::iter::empty(), app.id(), vhost, now)
        .is_some()
}
