//! Renewing a session without leaving the page: a window signs the person in and notifies the page
//! that opened it. `/.ludgate/renew.js` opens the window; `/.ludgate/renewed` is where it ends.

use http::StatusCode;

use super::{call::EndpointCall, page_session, step_up, ticket};
use crate::{
    authorize::Denied,
    decide::Reason,
    model::{arrival::RequestClass, vhost::VirtualHost},
    pages::{self, Page, RenewedPage},
    respond::endpoint::EndpointReply,
    route::path::RENEWED,
    session::live::Live,
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
    let session = page_session::find(call).await;
    let requirement = asked.or(session.requirement);
    let is_renewed = |live: &Live| step_up::is_met(call, live.sign_in(), requirement.as_ref());
    if session.live.as_ref().is_some_and(is_renewed) {
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
            let has_session = session.live.is_some();
            ticket::lead_to_site(call, RENEWED, requirement.as_ref(), has_session)
        }
    }
}
