//! The session of an open page, and how long it lasts without further use. These requests do not
//! count as use: a page that polls does not extend its session.

use http::StatusCode;
use serde_json::json;

use super::{call::EndpointCall, step_up};
use crate::{
    catalog::lookup::Lookup,
    model::{authentication::AuthenticationRequirement, caller::Caller, vhost::VirtualHost},
    respond::endpoint::{Content, EndpointReply},
    session::live::Live,
};

/// The script of `apps.session_notice`.
pub(super) const SCRIPT: &str = include_str!("../../templates/session.js");

/// The session of the pages at an origin.
#[derive(Default)]
pub(super) struct PageSession {
    /// The sign-in on the site, the app's session on its own host.
    pub(super) live: Option<Live>,
    /// What the app of the host requires of a sign-in. Apps on paths share the site, so there the
    /// query says what is required.
    pub(super) requirement: Option<AuthenticationRequirement>,
}

/// The session of the pages at the request's virtual host.
pub(super) async fn find(call: EndpointCall<'_, '_>) -> PageSession {
    let vhost = &call.request.arrival.vhost;
    let Ok(cookies) = call.request.cookies() else {
        return PageSession::default();
    };
    if *vhost == VirtualHost::Site {
        return PageSession {
            live: call.sign_in().map(Live::SignIn),
            requirement: None,
        };
    }
    let client = call.request.client.address;
    let lookup = call
        .gateway
        .catalog
        .find(vhost, call.snapshot, client)
        .await;
    let Lookup::App(app) = lookup else {
        return PageSession::default();
    };
    let now = call.gateway.clock.now();
    let store = &call.gateway.sessions.store;
    PageSession {
        live: store.find(cookies.app.iter(), std::iter::empty(), app.id(), vhost, now),
        requirement: app.spec.authentication.as_deref().cloned(),
    }
}

/// Whether the page still has a session that its app accepts, and the seconds until it expires if
/// nothing is used.
pub(super) async fn status(call: EndpointCall<'_, '_>) -> EndpointReply {
    // Cookies of another site's request do not count.
    let session = if call.is_foreign() {
        PageSession::default()
    } else {
        find(call).await
    };
    let requirement = session.requirement.as_ref();
    let body = match session.live {
        Some(live) if !step_up::is_met(call, live.sign_in(), requirement) => {
            json!({"signed_in": false})
        }
        Some(live) => {
            let left = live.time_left(call.gateway.clock.now());
            json!({"signed_in": true, "expires_in": left / 1000})
        }
        None => json!({"signed_in": has_other_credential(call).await}),
    };
    EndpointReply::new(Content::Json(StatusCode::OK, body))
}

/// Whether another credential of the browser, such as the console's token, begins a session on the
/// site with the next request.
async fn has_other_credential(call: EndpointCall<'_, '_>) -> bool {
    let is_on_site = call.request.arrival.vhost == VirtualHost::Site;
    is_on_site && matches!(call.identify().await.caller, Caller::Person { .. })
}
