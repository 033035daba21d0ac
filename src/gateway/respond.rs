//! The one place where decisions and faults become responses: pages for people, problem+json for
//! programs, a reason and a request id for both.

use askama::Template;
use http::{HeaderName, HeaderValue, Method, Response, StatusCode, header};
use serde_json::json;

use super::{
    access_log::Record,
    answer::Answer,
    decision::{Reason, Refusal},
    pages::{self, Action, RefusalPage, needed, policy},
    return_to,
};
use crate::{
    authorize::Denied,
    catalog::snapshot::Snapshot,
    forward::{fault::Fault, request_headers::X_REQUEST_ID},
    model::{
        app::{App, AppState},
        arrival::{Arrival, RequestClass},
        grpc,
        principal::Principal,
        site::Site,
        vhost::VirtualHost,
    },
};

/// For whom an answer is made.
#[derive(Clone, Copy)]
pub struct Audience<'r> {
    /// The site.
    pub site: &'r Site,
    /// A page rather than problem+json.
    pub wants_html: bool,
    /// A call of gRPC, which reads neither.
    pub grpc: bool,
    /// The page stands in a frame.
    pub framed: bool,
    /// The origin it is read at; `None`: none of ours.
    pub vhost: Option<VirtualHost>,
    /// What was asked for there, and where a sign-in would come back to.
    pub target: &'r str,
    /// Who asks, when known.
    pub person: Option<&'r Principal>,
    /// Asking for the same address again changes nothing.
    pub may_reload: bool,
}

impl<'r> Audience<'r> {
    /// The audience of a request that was understood.
    pub fn of(arrival: &'r Arrival, site: &'r Site, person: Option<&'r Principal>) -> Audience<'r> {
        Audience {
            site,
            wants_html: arrival.wants_html,
            grpc: arrival.grpc.is_some(),
            framed: arrival.class == RequestClass::Frame,
            vhost: Some(arrival.vhost),
            target: arrival.target.as_str(),
            person,
            may_reload: arrival.method == Method::GET,
        }
    }

    /// The audience of a request that was not: judged by its Accept header alone.
    pub fn unknown(site: &'r Site, wants_html: bool) -> Audience<'r> {
        Audience {
            site,
            wants_html,
            grpc: false,
            framed: false,
            vhost: None,
            target: "/",
            person: None,
            may_reload: false,
        }
    }

    /// The address that begins a sign-in and comes back; whole, so that it may be followed from
    /// anywhere.
    fn start(&self) -> String {
        let vhost = self.vhost.unwrap_or(VirtualHost::Site);
        let back = return_to::address(&vhost, self.target, self.site);
        self.site
            .url(&VirtualHost::Site, &pages::start(self.site, &back))
    }

    /// The launcher, from where the page is read.
    fn home(&self) -> String {
        match self.vhost {
            Some(VirtualHost::Site) => self.site.launcher(),
            Some(VirtualHost::Host(_) | VirtualHost::Port(_)) | None => {
                self.site.url(&VirtualHost::Site, &self.site.launcher())
            }
        }
    }
}

/// The answer to a refused request.
pub fn refusal(refusal: &Refusal, audience: Audience<'_>, record: &mut Record) -> Response<Answer> {
    let reason = refusal.reason;
    let title = match reason {
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
    };
    let nobody_signs_in = reason == Reason::Denied(Denied::Anonymous) && !audience.site.signs_in;
    let sentence = if nobody_signs_in {
        "This app needs a token; interactive sign-in is not configured.".to_owned()
    } else {
        reason.sentence()
    };
    let mut response = explain(
        Problem {
            status: reason.status(),
            reason: reason.as_str(),
            title,
            sentence: &sentence,
            waits: waits(reason),
            action: None,
        },
        refusal.app.as_deref(),
        audience,
        record,
    );
    let headers = response.headers_mut();
    match reason {
        Reason::Denied(Denied::Anonymous) => {
            headers.insert(
                header::WWW_AUTHENTICATE,
                HeaderValue::from_static("Bearer realm=\"ludgate\""),
            );
        }
        Reason::BadToken => {
            let challenge =
                HeaderValue::from_static("Bearer realm=\"ludgate\", error=\"invalid_token\"");
            headers.insert(header::WWW_AUTHENTICATE, challenge);
        }
        Reason::Unverifiable
        | Reason::CatalogUnavailable
        | Reason::Busy
        | Reason::TooOften
        | Reason::Starting
        | Reason::Stopping
        | Reason::Stopped
        | Reason::Failed => {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static("5"));
        }
        // Whatever follows on this connection may be part of what was misunderstood.
        Reason::Malformed(_) => {
            headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
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
        | Reason::Denied(Denied::NotInGroup | Denied::NotOwner | Denied::UnknownAccess) => {}
    }
    response
}

/// A page about something that may be over soon is asked for again after so many seconds.
const RELOAD_AFTER: u8 = 5;

/// How soon it is worth looking again, in seconds.
fn waits(reason: Reason) -> Option<u8> {
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
pub fn fault(
    fault: Fault,
    app: &App,
    audience: Audience<'_>,
    record: &mut Record,
) -> Response<Answer> {
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
    record.conclude(fault.reason());
    // An app that restarts is there again soon.
    let may_pass = matches!(
        fault.status(),
        StatusCode::BAD_GATEWAY | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT
    );
    let problem = Problem {
        status: fault.status(),
        reason: fault.reason(),
        title,
        sentence: &sentence,
        waits: may_pass.then_some(RELOAD_AFTER),
        action: None,
    };
    let mut response = explain(problem, Some(app), audience, record);
    if fault == Fault::Busy {
        response
            .headers_mut()
            .insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    }
    if fault.must_close() {
        response
            .headers_mut()
            .insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// What went wrong, in one place for both formats.
pub struct Problem<'p> {
    /// The status.
    pub status: StatusCode,
    /// One stable word.
    pub reason: &'static str,
    /// A few words.
    pub title: &'p str,
    /// One sentence.
    pub sentence: &'p str,
    /// The page is asked for again after so many seconds, unless that could do something twice.
    /// `None` where waiting would not help.
    pub waits: Option<u8>,
    /// What the page's button says and where it leads, when the status alone does not tell.
    pub action: Option<(&'static str, String)>,
}

/// A page or problem+json (RFC 9457) that says what went wrong.
pub fn explain(
    problem: Problem<'_>,
    app: Option<&App>,
    audience: Audience<'_>,
    record: &mut Record,
) -> Response<Answer> {
    let Problem {
        status,
        reason,
        title,
        sentence,
        waits,
        action,
    } = problem;
    // Only with a refusal for the state itself: who may not reach an app does not learn it.
    let away = app.filter(|app| waits.is_some() && app.spec.state != AppState::Running);
    let message = away.and_then(|app| app.spec.message.as_deref());
    let waits = waits.filter(|_| audience.may_reload);
    record.status = status;
    let request_id = record.id();
    let sign_in = audience.start();
    let mut response = if audience.grpc {
        grpc_status(status, sentence)
    } else if audience.wants_html {
        let given = action.map(|(label, href)| Action {
            label,
            href,
            new_tab: audience.framed,
        });
        let by_status = match status {
            StatusCode::UNAUTHORIZED if audience.site.signs_in => Some(Action {
                label: "Sign in",
                href: sign_in,
                new_tab: audience.framed,
            }),
            StatusCode::FORBIDDEN if audience.person.is_some() => Some(Action {
                label: "Use another account",
                href: format!("{sign_in}&prompt=login"),
                new_tab: audience.framed,
            }),
            StatusCode::BAD_GATEWAY
            | StatusCode::GATEWAY_TIMEOUT
            | StatusCode::SERVICE_UNAVAILABLE => {
                let href = audience.site.url(
                    &audience.vhost.unwrap_or(VirtualHost::Site),
                    audience.target,
                );
                Some(Action {
                    label: "Try again",
                    href,
                    new_tab: false,
                })
            }
            _ => None,
        };
        let page = RefusalPage {
            status: format!(
                "{} {}",
                status.as_u16(),
                status.canonical_reason().unwrap_or_default()
            ),
            title,
            sentence,
            message,
            waits,
            reason,
            script: pages::WAITING,
            app: app.map(|app| app.title().to_owned()),
            needed: app.filter(|_| status == StatusCode::FORBIDDEN).map(needed),
            person: audience
                .person
                .map(|person| format!("{} ({})", person.display_name, person.subject)),
            request_id,
            action: given.or(by_status),
            home: audience.home(),
            new_tab: audience.framed,
        };
        let mut response = html(status, &page, audience.framed);
        if waits.is_some() {
            let policy = pages::policy_for_waiting(audience.framed);
            response
                .headers_mut()
                .insert(header::CONTENT_SECURITY_POLICY, policy);
        }
        response
    } else {
        let mut body = json!({
            "type": "about:blank",
            "title": title,
            "status": status.as_u16(),
            "detail": sentence,
            "reason": reason,
            "request_id": request_id,
        });
        if status == StatusCode::UNAUTHORIZED {
            body["sign_in"] = sign_in.into();
        }
        if let Some(message) = message {
            body["message"] = message.into();
        }
        json_body(status, "application/problem+json", &body)
    };
    response
        .headers_mut()
        .insert(X_REQUEST_ID, record.id.clone());
    response
}

/// A call that ends before it began: trailers only, with the status that its client reads.
fn grpc_status(status: StatusCode, sentence: &str) -> Response<Answer> {
    let mut response = ours(StatusCode::OK, Answer::whole(""));
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/grpc"),
    );
    headers.insert(
        HeaderName::from_static("grpc-status"),
        HeaderValue::from(grpc::status_code(status)),
    );
    // Percent-encoded where it is not plain text; none of our sentences is anything else.
    if let Ok(message) = HeaderValue::from_str(sentence) {
        headers.insert(HeaderName::from_static("grpc-message"), message);
    }
    response
}

/// One of our pages.
pub fn html(status: StatusCode, page: &impl Template, framed: bool) -> Response<Answer> {
    // A template over strings cannot fail; should it, an empty page with the right status is shown.
    let mut response = ours(status, Answer::whole(page.render().unwrap_or_default()));
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("text/html; charset=utf-8"),
    );
    headers.insert(header::CONTENT_SECURITY_POLICY, policy(framed));
    // Under `no-referrer` a browser sends `Origin: null` with the sign-out form, which no app may
    // send either.
    headers.insert(
        header::REFERRER_POLICY,
        HeaderValue::from_static("same-origin"),
    );
    let opener = HeaderName::from_static("cross-origin-opener-policy");
    headers.insert(opener, HeaderValue::from_static("same-origin"));
    response
}

/// One of our JSON answers.
pub fn json_body(
    status: StatusCode,
    kind: &'static str,
    body: &serde_json::Value,
) -> Response<Answer> {
    let mut response = ours(status, Answer::whole(body.to_string()));
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

/// A redirect to a path of ours, or to the provider.
pub fn redirect(status: StatusCode, location: &str) -> Response<Answer> {
    match HeaderValue::from_str(location) {
        Ok(location) => {
            let mut response = ours(status, Answer::whole(""));
            response.headers_mut().insert(header::LOCATION, location);
            response
        }
        // Every location is made of checked parts; this arm says what happens if one is not.
        Err(_) => ours(StatusCode::INTERNAL_SERVER_ERROR, Answer::whole("")),
    }
}

/// What all our answers have in common: not stored, not sniffed, no referrer.
pub fn ours(status: StatusCode, body: Answer) -> Response<Answer> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(
        header::X_CONTENT_TYPE_OPTIONS,
        HeaderValue::from_static("nosniff"),
    );
    headers.insert(
        header::REFERRER_POLICY,
        HeaderValue::from_static("no-referrer"),
    );
    response
}

/// The launcher.
pub fn launcher(
    snapshot: &Snapshot,
    person: Option<&std::sync::Arc<Principal>>,
) -> Response<Answer> {
    html(StatusCode::OK, &pages::launcher(snapshot, person), false)
}

/// The text with a capital at its beginning.
pub fn capitalised(text: &str) -> String {
    let mut characters = text.chars();
    characters.next().map_or_else(String::new, |first| {
        first.to_uppercase().chain(characters).collect()
    })
}
