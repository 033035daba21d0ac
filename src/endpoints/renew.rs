//! Renewing a session without leaving the page: a window signs the person in and notifies the page
//! that opened it. `/.ludgate/renew.js` opens the window; `/.ludgate/renewed` is where it ends.

use http::StatusCode;

use super::{call::EndpointCall, page_session, ticket};
use crate::{
    authorize::Denied,
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
    if page_session::find(call).await.is_some() {
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
