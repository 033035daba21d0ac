//! The session of an open page, and how long it lasts without further use. Asking is no use: a page
//! that asks for ever does not keep its session.

use http::StatusCode;
use serde_json::json;

use super::call::EndpointCall;
use crate::{
    catalog::lookup::Lookup,
    model::{caller::Caller, vhost::VirtualHost},
    respond::endpoint::{Content, EndpointReply},
    session::live::Live,
};

/// The script of `apps.session_notice`.
pub(super) const SCRIPT: &str = include_str!("../../templates/session.js");

/// The session of the pages at the request's virtual host: the sign-in on the site, the app's
/// session on its own host.
pub(super) async fn find(call: EndpointCall<'_, '_>) -> Option<Live> {
    let vhost = &call.request.arrival.vhost;
    let cookies = call.request.cookies().ok()?;
    if *vhost == VirtualHost::Site {
        return call.sign_in().map(Live::SignIn);
    }
    let client = call.request.client.address;
    let lookup = call
        .gateway
        .catalog
        .find(vhost, call.snapshot, client)
        .await;
    let Lookup::App(app) = lookup else {
        return None;
    };
    let now = call.gateway.clock.now();
    let sessions = &call.gateway.sessions;
    sessions
        .store
        .find(cookies.app.iter(), std::iter::empty(), app.id(), vhost, now)
}

/// Whether the page still has a session, and the seconds until it expires if nothing is used.
pub(super) async fn status(call: EndpointCall<'_, '_>) -> EndpointReply {
    // Cookies of another site's request do not count.
    let live = if call.is_foreign() {
        None
    } else {
        find(call).await
    };
    let body = match live {
        Some(live) => {
            let left = live.time_left(call.gateway.clock.now());
            json!({"signed_in": true, "expires_in": left / 1000})
        }
        None => json!({"signed_in": is_proved_otherwise(call).await}),
    };
    EndpointReply::new(Content::Json(StatusCode::OK, body))
}

/// Whether another credential of the browser, such as the console's token, begins a session on the
/// site with the next request.
async fn is_proved_otherwise(call: EndpointCall<'_, '_>) -> bool {
    let is_on_site = call.request.arrival.vhost == VirtualHost::Site;
    is_on_site && matches!(call.identify().await.caller, Caller::Person { .. })
}
