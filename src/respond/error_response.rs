//! What went wrong, as a page for people, problem+json (RFC 9457) for programs, or trailers for
//! gRPC.

use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header};
use serde_json::json;

use super::{
    audience::Audience,
    body::ReplyBody,
    http_response::{json as json_response, page, raw},
};
use crate::{
    forward::request_headers::X_REQUEST_ID,
    model::{
        app::{App, AppState},
        grpc,
    },
    pages::{self, Action, Page, Policy, RefusalPage},
};

/// The challenges of a 401 (RFC 6750 section 3, RFC 9470 section 3): without a credential, with a
/// bad one, and with one of a person who must sign in again.
const CHALLENGE: &str = "Bearer realm=\"ludgate\"";
pub(super) const INVALID_TOKEN: &str = "Bearer realm=\"ludgate\", error=\"invalid_token\"";
pub(super) const INSUFFICIENT_AUTHENTICATION: &str =
    "Bearer realm=\"ludgate\", error=\"insufficient_user_authentication\"";

/// Most states that pass are over after so many seconds.
pub(super) const RETRY_AFTER: u8 = 5;

/// What went wrong, for every format.
pub(super) struct Problem<'p> {
    /// The status.
    pub(super) status: StatusCode,
    /// The stable word for programs.
    pub(super) reason: &'static str,
    /// A few words.
    pub(super) title: &'p str,
    /// One sentence.
    pub(super) sentence: &'p str,
    /// Another attempt may succeed after so many seconds: `Retry-After`, and the page loads again
    /// where that cannot do something twice. `None`: waiting does not help.
    pub(super) retry_after: Option<u8>,
    /// The text and address of the page's button, where the status alone does not give them.
    pub(super) action: Option<(&'static str, String)>,
    /// What the access rule requires, in words.
    pub(super) needed: Option<String>,
}

impl<'p> Problem<'p> {
    /// A problem that time does not solve.
    pub(super) fn new(
        status: StatusCode,
        reason: &'static str,
        title: &'p str,
        sentence: &'p str,
    ) -> Problem<'p> {
        Problem {
            status,
            reason,
            title,
            sentence,
            retry_after: None,
            action: None,
            needed: None,
        }
    }
}

/// Renders the problem for its audience; `id` is the request id.
pub(super) fn render(
    problem: Problem<'_>,
    app: Option<&App>,
    audience: Audience<'_>,
    id: &HeaderValue,
) -> Response<ReplyBody> {
    // Only a refusal for the state itself tells the state's message.
    let is_away = |app: &&App| problem.retry_after.is_some() && app.spec.state != AppState::Running;
    let message = app
        .filter(is_away)
        .and_then(|app| app.spec.message.as_deref());
    let status = problem.status;
    let retry_after = problem.retry_after;
    let mut response = if audience.grpc {
        grpc_status(problem.status, problem.sentence)
    } else if audience.wants_html {
        html(problem, message, app, audience, id)
    } else {
        problem_json(&problem, message, audience, id)
    };
    let headers = response.headers_mut();
    headers.insert(X_REQUEST_ID, id.clone());
    add_hints(headers, status, retry_after);
    response
}

/// Adds the headers by which a program may succeed: with a credential, or later.
pub(super) fn add_hints(headers: &mut HeaderMap, status: StatusCode, retry_after: Option<u8>) {
    if status == StatusCode::UNAUTHORIZED {
        let challenge = HeaderValue::from_static(CHALLENGE);
        headers.insert(header::WWW_AUTHENTICATE, challenge);
    }
    if let Some(seconds) = retry_after {
        let seconds = HeaderValue::from(u16::from(seconds));
        headers.insert(header::RETRY_AFTER, seconds);
    }
}

fn html(
    problem: Problem<'_>,
    message: Option<&str>,
    app: Option<&App>,
    audience: Audience<'_>,
    id: &HeaderValue,
) -> Response<ReplyBody> {
    let status = problem.status;
    let waits = problem.retry_after.filter(|_| audience.may_reload);
    let given = problem.action.map(|(label, href)| Action {
        label,
        href,
        new_tab: audience.framed,
    });
    let person = audience.person;
    let html = RefusalPage {
        status: format!(
            "{} {}",
            status.as_u16(),
            status.canonical_reason().unwrap_or_default()
        ),
        title: problem.title,
        sentence: problem.sentence,
        message,
        waits,
        reason: problem.reason,
        script: pages::WAITING,
        app: app.map(|app| app.title().to_owned()),
        needed: problem.needed,
        person: person.map(|person| format!("{} ({})", person.display_name, person.subject)),
        request_id: id.to_str().unwrap_or_default(),
        action: given.or_else(|| action_for(status, audience)),
        home: audience.home(),
        new_tab: audience.framed,
    };
    let framed = audience.framed;
    let policy = match waits {
        Some(_) => Policy::Waiting { framed },
        None => Policy::Plain { framed },
    };
    page(Page::new(status, &html, policy))
}

/// The button that helps, by the status.
fn action_for(status: StatusCode, audience: Audience<'_>) -> Option<Action> {
    let new_tab = audience.framed;
    match status {
        StatusCode::UNAUTHORIZED if audience.site.signs_in => Some(Action {
            label: "Sign in",
            href: audience.sign_in(),
            new_tab,
        }),
        StatusCode::FORBIDDEN if audience.person.is_some() => Some(Action {
            label: "Use another account",
            href: format!("{}&prompt=login", audience.sign_in()),
            new_tab,
        }),
        StatusCode::BAD_GATEWAY
        | StatusCode::GATEWAY_TIMEOUT
        | StatusCode::SERVICE_UNAVAILABLE
        | StatusCode::TOO_MANY_REQUESTS => Some(Action {
            label: "Try again",
            href: audience.address(),
            new_tab: false,
        }),
        _ => None,
    }
}

fn problem_json(
    problem: &Problem<'_>,
    message: Option<&str>,
    audience: Audience<'_>,
    id: &HeaderValue,
) -> Response<ReplyBody> {
    let mut body = json!({
        "type": "about:blank",
        "title": problem.title,
        "status": problem.status.as_u16(),
        "detail": problem.sentence,
        "reason": problem.reason,
        "request_id": id.to_str().unwrap_or_default(),
    });
    if problem.status == StatusCode::UNAUTHORIZED {
        body["sign_in"] = audience.sign_in().into();
    }
    if let Some(message) = message {
        body["message"] = message.into();
    }
    json_response(problem.status, "application/problem+json", &body)
}

/// A gRPC call that ends before it began: trailers only, with the status that its client reads.
fn grpc_status(status: StatusCode, sentence: &str) -> Response<ReplyBody> {
    let mut response = raw(StatusCode::OK, ReplyBody::whole(""));
    let headers = response.headers_mut();
    let grpc_type = HeaderValue::from_static("application/grpc");
    headers.insert(header::CONTENT_TYPE, grpc_type);
    let code = HeaderValue::from(grpc::status_code(status));
    headers.insert(HeaderName::from_static("grpc-status"), code);
    // Percent-encoded where it is not plain text; our sentences are plain text.
    if let Ok(message) = HeaderValue::from_str(sentence) {
        headers.insert(HeaderName::from_static("grpc-message"), message);
    }
    response
}
