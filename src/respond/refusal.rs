//! Refusals and faults: which title, and when to try again.

use http::{HeaderValue, Response, StatusCode, header};

use super::{
    audience::Audience,
    body::ReplyBody,
    error_response::{INSUFFICIENT_AUTHENTICATION, INVALID_TOKEN, Problem, RETRY_AFTER, render},
    http_response::capitalised,
};
use crate::{
    authorize::Denied,
    decide::{Reason, Refusal},
    forward::fault::Fault,
    model::{app::App, authentication::AuthenticationRequirement},
    pages::needed,
};

/// The answer to a refused request.
pub fn refuse(refused: &Refusal, audience: Audience<'_>, id: &HeaderValue) -> Response<ReplyBody> {
    let reason = refused.reason;
    let cannot_sign_in = reason == Reason::Denied(Denied::Anonymous) && !audience.site.signs_in;
    let sentence = match &refused.app {
        _ if cannot_sign_in => {
            "This app needs a token; interactive sign-in is not configured.".to_owned()
        }
        Some(app) if reason == Reason::OutsideApp => outside_app(app),
        Some(_) | None => reason.sentence(),
    };
    // A reload would count as one more sign-in.
    let may_reload = audience.may_reload && reason != Reason::TooOften;
    let requirement = refused.required_authentication();
    let sign_in = requirement.map(|_| audience.sign_in_with(requirement));
    let audience = Audience {
        may_reload,
        sign_in_at: audience.sign_in_at.or(sign_in.as_deref()),
        ..audience
    };
    // A person who is excluded may meet the rest of the rule.
    let is_excluded = matches!(reason, Reason::Denied(Denied::Excluded(_)));
    let needs = reason.status() == StatusCode::FORBIDDEN && !is_excluded;
    let app = refused.app.as_ref().filter(|_| needs);
    let problem = Problem {
        retry_after: retry_after(reason),
        needed: app.map(|app| needed(app.rule(refused.rule))),
        ..Problem::new(reason.status(), reason.as_str(), title(reason), &sentence)
    };
    // Any client can name an app by a Referer, so its title is not shown.
    let shown = refused.app.as_deref();
    let shown = shown.filter(|_| reason != Reason::OutsideApp);
    let mut response = render(problem, shown, audience, id);
    if reason == Reason::BadToken {
        let challenge = HeaderValue::from_static(INVALID_TOKEN);
        let headers = response.headers_mut();
        headers.insert(header::WWW_AUTHENTICATE, challenge);
    }
    if let Some(requirement) = requirement.filter(|_| reason.is_step_up()) {
        let headers = response.headers_mut();
        headers.insert(header::WWW_AUTHENTICATE, step_up_challenge(requirement));
    }
    // The bytes that follow may be part of what was misunderstood.
    if matches!(reason, Reason::Malformed(_)) {
        close_connection(&mut response);
    }
    response
}

/// The challenge of RFC 9470 section 3. The values need no escaping: a requirement has none with
/// quotes or backslashes.
fn step_up_challenge(requirement: &AuthenticationRequirement) -> HeaderValue {
    let mut challenge = INSUFFICIENT_AUTHENTICATION.to_owned();
    if let Some(values) = requirement.acr_values() {
        challenge += &format!(", acr_values=\"{values}\"");
    }
    if let Some(seconds) = requirement.max_age() {
        challenge += &format!(", max_age=\"{seconds}\"");
    }
    HeaderValue::try_from(challenge)
        .unwrap_or_else(|_| HeaderValue::from_static(INSUFFICIENT_AUTHENTICATION))
}

/// For the app's author. The client sent the app's path itself.
fn outside_app(app: &App) -> String {
    format!(
        "There is nothing at this address. A page of the app at {}/ requested it, and it is \
         outside of the app. Troubleshooting in docs/apps.md names settings that help.",
        app.mount
    )
}

fn title(reason: Reason) -> &'static str {
    match reason {
        Reason::Denied(Denied::Anonymous) => "Please sign in",
        Reason::Denied(Denied::InsufficientAuthentication(_)) => "Please sign in again",
        Reason::Denied(_)
        | Reason::ForeignOrigin
        | Reason::MissingOrigin
        | Reason::UntrustedProxy => "You don't have access",
        Reason::UnknownApp | Reason::NotFound | Reason::OutsideApp | Reason::UnknownTarget => {
            "Not found"
        }
        Reason::BadToken => "The token is not valid",
        Reason::Unverifiable | Reason::CatalogUnavailable => "Temporarily unavailable",
        Reason::Busy => "The service is busy",
        Reason::TooOften => "Too many sign-ins",
        Reason::Starting | Reason::Idle => "The app is starting",
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

/// After how many seconds another attempt may succeed.
fn retry_after(reason: Reason) -> Option<u8> {
    match reason {
        Reason::Starting | Reason::Idle => Some(3),
        Reason::Unverifiable | Reason::CatalogUnavailable | Reason::Busy | Reason::TooOften => {
            Some(RETRY_AFTER)
        }
        Reason::Stopping | Reason::Stopped | Reason::Failed => Some(10),
        Reason::Malformed(_)
        | Reason::UnknownApp
        | Reason::NotFound
        | Reason::OutsideApp
        | Reason::MethodNotAllowed
        | Reason::ForeignOrigin
        | Reason::MissingOrigin
        | Reason::BadForm
        | Reason::BadQuery
        | Reason::BadToken
        | Reason::Unassigned
        | Reason::OtherTenant
        | Reason::Ended
        | Reason::BadTicket
        | Reason::UntrustedProxy
        | Reason::UnknownTarget
        | Reason::Denied(_) => None,
    }
}

/// The answer when the app gave none.
pub fn fault(
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
        Fault::Unresolved
        | Fault::Refused
        | Fault::Unreachable
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
        retry_after: may_pass.then_some(RETRY_AFTER),
        ..Problem::new(fault.status(), fault.reason(), title, &sentence)
    };
    let mut response = render(problem, Some(app), audience, id);
    if fault.must_close() {
        close_connection(&mut response);
    }
    response
}

fn close_connection(response: &mut Response<ReplyBody>) {
    let close = HeaderValue::from_static("close");
    response.headers_mut().insert(header::CONNECTION, close);
}
