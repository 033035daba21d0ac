//! Our own endpoints: sign-in on the site; sign-out and the caller's identity on every origin;
//! tickets on the hosts of apps; answers for other proxies. Each returns a value; `respond` renders
//! it. `app_session` and `hide_existence` serve requests to apps too.

pub mod app_session;
mod call;
mod forward_auth;
mod hide_existence;
pub mod logout;
pub mod logs;
mod page_session;
mod provider_choice;
pub mod renew;
pub mod sign_in;
pub mod sign_out;
mod step_up;
pub mod ticket;
mod userinfo;

use http::Method;

use crate::{
    decide::Reason,
    forward::body::Source,
    pages,
    respond::endpoint::{Content, EndpointReply},
    route::Endpoint,
};
pub use call::EndpointCall;
pub use hide_existence::hide_existence;

/// Answers a request to an endpoint.
pub async fn answer(call: EndpointCall<'_, '_>, endpoint: Endpoint, body: Source) -> EndpointReply {
    // A proxy asks about the caller of another request.
    let has_caller = endpoint != Endpoint::Auth;
    let is_unknown = has_caller && call.load_session().await.is_err() && call.sign_in().is_none();
    if is_unknown && needs_session(endpoint, &call.request.arrival.method) {
        // Another replica may know the session: ask the client to retry, not to sign in.
        return EndpointReply::refuse(Reason::Unverifiable);
    }
    match endpoint {
        Endpoint::Start => sign_in::start(call).await,
        Endpoint::Callback => sign_in::callback(call).await,
        Endpoint::SignIn => sign_in::page(call),
        Endpoint::SignOut if call.request.arrival.method == Method::POST => {
            sign_out::sign_out(call, body).await
        }
        Endpoint::SignOut => sign_out::confirmation(call),
        Endpoint::Userinfo => userinfo::userinfo(call).await,
        Endpoint::BackchannelLogout => logout::back_channel(call, body).await,
        Endpoint::FrontchannelLogout => logout::front_channel(call).await,
        Endpoint::Renewed => renew::renewed(call).await,
        Endpoint::RenewScript => EndpointReply::new(Content::Script(renew::SCRIPT)),
        Endpoint::SessionStatus => page_session::status(call).await,
        Endpoint::SessionScript => EndpointReply::new(Content::Script(page_session::SCRIPT)),
        Endpoint::Jwks => key_set(call),
        Endpoint::Logs => logs::stream(call).await,
        Endpoint::Enter => ticket::enter(call).await,
        Endpoint::Auth => forward_auth::answer(call).await,
    }
}

fn needs_session(endpoint: Endpoint, method: &Method) -> bool {
    match endpoint {
        Endpoint::Start
        | Endpoint::SignIn
        | Endpoint::Userinfo
        | Endpoint::Logs
        | Endpoint::Renewed
        | Endpoint::SessionStatus => true,
        Endpoint::SignOut => method != Method::POST,
        Endpoint::Callback
        | Endpoint::BackchannelLogout
        | Endpoint::FrontchannelLogout
        | Endpoint::RenewScript
        | Endpoint::SessionScript
        | Endpoint::Jwks
        | Endpoint::Enter
        | Endpoint::Auth => false,
    }
}

/// The launcher, for a signed-in person or a visitor.
pub async fn launcher(call: EndpointCall<'_, '_>) -> EndpointReply {
    if call.load_session().await.is_err() && call.sign_in().is_none() {
        return EndpointReply::refuse(Reason::Unverifiable);
    }
    let sign_in = call.sign_in().map(|sign_in| sign_in.principal().clone());
    let person = sign_in.or_else(|| call.person_beside().map(|(person, _)| person));
    let page = pages::Page::plain(&pages::launcher(call.snapshot, person.as_ref()));
    EndpointReply {
        person,
        ..EndpointReply::page(page)
    }
}

/// The public keys of signed identities, for apps and their tools.
fn key_set(call: EndpointCall<'_, '_>) -> EndpointReply {
    match &call.gateway.assertions {
        Some(signer) => EndpointReply::new(Content::KeySet(signer.key_set())),
        None => EndpointReply::refuse(Reason::NotFound),
    }
}
