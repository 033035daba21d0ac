//! Refusals and faults: which title, which headers, and when to try again.

use http::{HeaderValue, Response, StatusCode, header};

use super::{
    audience::Audience,
    body::ReplyBody,
    error_response::{Problem, render},
    http_response::capitalised,
};
use crate::{
    authorize::Denied,
    decide::{Reason, Refusal},
    forward::fault::Fault,
    model::app::App,
};

/// A page about a state that may end soon loads again after so many seconds.
const RELOAD_AFTER: u8 = 5;

/// The answer to a refused request.
pub(super) fn refusal(
    refusal: &Refusal,
    audience: Audience<'_>,
    id: &HeaderValue,
) -> Response<ReplyBody> {
    let reason = refusal.reason;
    let cannot_sign_in = reason == Reason::Denied(Denied::Anonymous) && !audience.site.signs_in;
    let sentence = if cannot_sign_in {
        "This app needs a token; interactive sign-in is not configured.".to_owned()
    } else {
        reason.sentence()
    };
    let problem = Problem {
        status: reason.status(),
        reason: reason.as_str(),
        title: title(reason),
        sentence: &sentence,
        retry_after: retry_after(reason),
        action: None,
    };
    let mut response = render(problem, refusal.app.as_deref(), audience, id);
    if let Some((name, value)) = extra_header(reason) {
        response.headers_mut().insert(name, value);
    }
    response
}

fn title(reason: Reason) -> &'static str {
    match reason {
        Reason::Denied(Denied::Anonymous) => "Please sign in",
        Reason::Denied(_) | Reason::ForeignOrigin => "You don't have access",
        Reason::UnknownApp | Reason::NotFound => "Not found",
        Reason::BadToken => "The token is not valid",
        Reason::Unverifiable | Reason::CatalogUnavailable => "Temporarily unavailable",
        Reason::Busy => "The service is busy",
        Reason::TooOften => "Too many sign-ins",
        Reason::Starting => "The app is starting",
        Reason::Stopping => "The app is stopping",
        Reason::Stopped => "The app is stopped",
        Reason::Failed => "The app failed to start",
        Reason::Unassigned | Reason::OtherTenant | Reason::Ended => "No longer available",
        Reason::BadTicket => "This link has expired",
        Reason::Malformed(_) | Reason::MethodNotAllowed | Reason::BadForm | Reason::BadQuery => {
            "The request was refused"
        }
    }
}

/// The challenge of a 401 (RFC 6750 section 3).
pub(super) fn challenge() -> HeaderValue {
    HeaderValue::from_static("Bearer realm=\"ludgate\"")
}

fn extra_header(reason: Reason) -> Option<(header::HeaderName, HeaderValue)> {
    match reason {
        Reason::Denied(Denied::Anonymous) => Some((header::WWW_AUTHENTICATE, challenge())),
        Reason::BadToken => {
            let invalid = "Bearer realm=\"ludgate\", error=\"invalid_token\"";
            Some((header::WWW_AUTHENTICATE, HeaderValue::from_static(invalid)))
        }
        Reason::Unverifiable
        | Reason::CatalogUnavailable
        | Reason::Busy
        | Reason::TooOften
        | Reason::Starting
        | Reason::Stopping
        | Reason::Stopped
        | Reason::Failed => Some((header::RETRY_AFTER, HeaderValue::from_static("5"))),
        // The bytes that follow may be part of what was misunderstood.
        Reason::Malformed(_) => Some((header::CONNECTION, HeaderValue::from_static("close"))),
        Reason::UnknownApp
        | Reason::NotFound
        | Reason::MethodNotAllowed
        | Reason::ForeignOrigin
        | Reason::BadForm
        | Reason::BadQuery
        | Reason::Unassigned
        | Reason::OtherTenant
        | Reason::Ended
        | Reason::BadTicket
        | Reason::Denied(Denied::NotInGroup | Denied::NotOwner | Denied::UnknownAccess) => None,
    }
}

/// After how many seconds the page loads again.
fn retry_after(reason: Reason) -> Option<u8> {
    match reason {
        Reason::Starting => Some(3),
        Reason::Unverifiable | Reason::CatalogUnavailable | Reason::Busy => Some(RELOAD_AFTER),
        Reason::Stopping | Reason::Stopped | Reason::Failed => Some(10),
        Reason::Malformed(_)
        | Reason::UnknownApp
        | Reason::NotFound
        | Reason::MethodNotAllowed
        | Reason::ForeignOrigin
        | Reason::BadForm
        | Reason::BadQuery
        | Reason::BadToken
        | Reason::TooOften
        | Reason::Unassigned
        | Reason::OtherTenant
        | Reason::Ended
        | Reason::BadTicket
        | Reason::Denied(_) => None,
    }
}

/// The answer when the app gave none.
pub(super) fn fault(
    fault: Fault,
    app: &App,
    audience: Audience<'_>,
    id: &HeaderValue,
) -> Response<ReplyBody> {
    let title = match fault {
        Fault::ClientBody | Fault::UploadStalled | Fault::Unsendable => "The request was refused",
        Fault::TooLarge => "Too large",
        Fault::ConnectTimeout | Fault::HeadTimeout => "The app takes too long",
        Fault::Busy => "The app is busy",
        Fault::Refused
        | Fault::NoHttp2
        | Fault::NoWebSockets
        | Fault::Tls(_)
        | Fault::WrongProof
        | Fault::Died
        | Fault::DiedUnanswered
        | Fault::BadAnswer => "The app does not answer",
    };
    let sentence = format!("{}.", capitalised(&fault.to_string()));
    // An app that restarts answers again soon.
    let may_pass = matches!(
        fault.status(),
        StatusCode::BAD_GATEWAY | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT
    );
    let problem = Problem {
        status: fault.status(),
        reason: fault.reason(),
        title,
        sentence: &sentence,
        retry_after: may_pass.then_some(RELOAD_AFTER),
        action: None,
    };
    let mut response = render(problem, Some(app), audience, id);
    let headers = response.headers_mut();
    if fault == Fault::Busy {
        headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    }
    if fault.must_close() {
        headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    response
}
