//! The one place where decisions become HTTP responses: pages for people, problem+json for
//! programs, with a reason and a request id for both.
//!
//! Invariant: nothing here decides; no other room makes a response of our own.

mod audience;
pub mod body;
pub mod endpoint;
mod error_response;
mod forward_auth;
mod http_response;
mod refusal;

use http::{HeaderValue, Response, StatusCode, header};

use crate::{
    decide::{Refusal, labels::SignInProblem},
    model::vhost::VirtualHost,
    saved_form::{self, page::SavedFormPage},
};
pub use audience::Audience;
use body::ReplyBody;
use endpoint::{Content, EndpointReply};
use error_response::{Problem, RETRY_AFTER, add_hints, render};
pub use http_response::{append_cookies, capitalised, redirect};
use http_response::{clear_site_data, empty, json, key_set, page, raw, script};
pub use refusal::{fault, refuse};

/// Back to the same address, after the browser cleared what the last tenant stored.
pub fn forget_tenant(address: &str, expired: Vec<HeaderValue>) -> Response<ReplyBody> {
    let mut response = redirect(StatusCode::SEE_OTHER, address);
    clear_site_data(&mut response, "\"cache\", \"storage\"");
    append_cookies(&mut response, expired);
    response
}

/// The answer of an endpoint.
pub fn endpoint(
    reply: EndpointReply,
    audience: Audience<'_>,
    id: &HeaderValue,
) -> Response<ReplyBody> {
    let person = reply.person.as_deref();
    let mut response = match reply.content {
        Content::Redirect { status, location } => redirect(status, &location),
        Content::Refusal(refused) => refuse(&refused, audience, id),
        Content::RefusalAt {
            refusal,
            vhost,
            target,
        } => {
            let audience = Audience {
                vhost: Some(vhost),
                target: &target,
                person,
                ..audience
            };
            refuse(&refusal, audience, id)
        }
        Content::SignInProblem {
            problem,
            sentence,
            retry,
        } => sign_in_problem(problem, &sentence, retry, audience, id),
        Content::Page(content) => page(content),
        Content::Script(text) => script(text),
        Content::Json(status, body) => json(status, "application/json", &body),
        Content::KeySet(keys) => key_set(&keys),
        Content::Empty { frame_ancestor } => empty(frame_ancestor),
        Content::MayForward { status, permit } => forward_auth::allow(status, &permit),
        Content::MayNotForward(refused) => forward_auth::refuse(&refused, audience, person, id),
        Content::PodLog(body) => {
            let mut response = raw(StatusCode::OK, body);
            let plain = HeaderValue::from_static("text/plain; charset=utf-8");
            response.headers_mut().insert(header::CONTENT_TYPE, plain);
            response
        }
    };
    if reply.clears_cache {
        clear_site_data(&mut response, "\"cache\"");
    }
    append_cookies(&mut response, reply.cookies);
    response
}

/// The page that holds a saved form.
pub fn saved_form(
    form: &SavedFormPage,
    audience: Audience<'_>,
    id: &HeaderValue,
) -> Response<ReplyBody> {
    let address = audience.vhost.unwrap_or(VirtualHost::Site);
    let mut response = page(form.render(audience.site, &address, audience.target, id));
    let retry_after = form.status.is_server_error().then_some(RETRY_AFTER);
    add_hints(response.headers_mut(), form.status, retry_after);
    response
}

/// The answer to a form that came after its session expired and could not be saved.
pub fn form_not_saved(
    refused: &Refusal,
    audience: Audience<'_>,
    id: &HeaderValue,
) -> Response<ReplyBody> {
    let cause = saved_form::cause(refused.reason);
    let sentence = format!(
        "{cause} Your form could not be saved: files, and forms of more than 64 KiB, cannot. Your \
         browser may still have it: go back, sign in in another tab, and send it again."
    );
    let problem = Problem::new(
        StatusCode::UNAUTHORIZED,
        refused.reason.as_str(),
        "Please sign in",
        &sentence,
    );
    render(problem, refused.app.as_deref(), audience, id)
}

fn sign_in_problem(
    problem: SignInProblem,
    sentence: &str,
    retry: String,
    audience: Audience<'_>,
    id: &HeaderValue,
) -> Response<ReplyBody> {
    let (status, title) = match problem {
        SignInProblem::BadCallback => (StatusCode::BAD_REQUEST, "Signing in did not work"),
        SignInProblem::Declined => (StatusCode::FORBIDDEN, "You were not signed in"),
        SignInProblem::NotConfirmed => (StatusCode::FORBIDDEN, "Your sign-in was not confirmed"),
        SignInProblem::ClientRefused => {
            (StatusCode::INTERNAL_SERVER_ERROR, "Sign-in is unavailable")
        }
        SignInProblem::Unavailable => (
            StatusCode::SERVICE_UNAVAILABLE,
            "Signing in is not possible now",
        ),
    };
    // The address may be a callback, which works once.
    let audience = Audience {
        may_reload: false,
        ..audience
    };
    let is_unavailable = status == StatusCode::SERVICE_UNAVAILABLE;
    let problem = Problem {
        retry_after: is_unavailable.then_some(RETRY_AFTER),
        action: Some(("Sign in again", retry)),
        ..Problem::new(status, problem.as_str(), title, sentence)
    };
    render(problem, None, audience, id)
}
