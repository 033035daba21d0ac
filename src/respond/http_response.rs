//! The HTTP responses that all answers of ours are made of.

use http::{HeaderName, HeaderValue, Response, StatusCode, header};

use super::body::ReplyBody;
use crate::pages::{Page, Policy};

/// A redirect to an address of ours, or to the provider.
pub fn redirect(status: StatusCode, location: &str) -> Response<ReplyBody> {
    match HeaderValue::from_str(location) {
        Ok(location) => {
            let mut response = raw(status, ReplyBody::whole(""));
            response.headers_mut().insert(header::LOCATION, location);
            response
        }
        // Every location is made of checked parts.
        Err(_) => raw(StatusCode::INTERNAL_SERVER_ERROR, ReplyBody::whole("")),
    }
}

/// Adds cookies to an answer, in this order.
pub fn append_cookies(
    response: &mut Response<ReplyBody>,
    lines: impl IntoIterator<Item = HeaderValue>,
) {
    for line in lines {
        response.headers_mut().append(header::SET_COOKIE, line);
    }
}

/// One of our pages.
pub(super) fn page(page: Page) -> Response<ReplyBody> {
    let mut response = raw(page.status, ReplyBody::whole(page.html));
    let headers = response.headers_mut();
    let html = HeaderValue::from_static("text/html; charset=utf-8");
    headers.insert(header::CONTENT_TYPE, html);
    headers.insert(header::CONTENT_SECURITY_POLICY, page.policy.to_header());
    // With `no-referrer` a browser sends `Origin: null` with the sign-out form, as it does for a
    // form of an app.
    headers.insert(
        header::REFERRER_POLICY,
        HeaderValue::from_static("same-origin"),
    );
    match page.policy {
        Policy::Plain { .. } | Policy::Waiting { .. } => {
            let opener = HeaderName::from_static("cross-origin-opener-policy");
            headers.insert(opener, HeaderValue::from_static("same-origin"));
        }
        // It talks to the page that opened its window; an opener policy would separate the two.
        Policy::Script(_) | Policy::Forms(_) => {}
    }
    response
}

/// A script that every app may load.
pub(super) fn script(script: &'static str) -> Response<ReplyBody> {
    let mut response = raw(StatusCode::OK, ReplyBody::whole(script));
    let headers = response.headers_mut();
    let javascript = HeaderValue::from_static("text/javascript; charset=utf-8");
    headers.insert(header::CONTENT_TYPE, javascript);
    let an_hour = HeaderValue::from_static("public, max-age=3600");
    headers.insert(header::CACHE_CONTROL, an_hour);
    response
}

/// JSON of this media type.
pub(super) fn json(
    status: StatusCode,
    kind: &'static str,
    body: &serde_json::Value,
) -> Response<ReplyBody> {
    let mut response = raw(status, ReplyBody::whole(body.to_string()));
    let kind = HeaderValue::from_static(kind);
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

/// Public keys. A new key is published for five minutes before it signs, so caches may keep the set
/// for one.
pub(super) fn key_set(keys: &serde_json::Value) -> Response<ReplyBody> {
    let mut response = json(StatusCode::OK, "application/jwk-set+json", keys);
    let a_minute = HeaderValue::from_static("public, max-age=60");
    response
        .headers_mut()
        .insert(header::CACHE_CONTROL, a_minute);
    response
}

/// Nothing but a 200; it may stand in a frame of this origin.
pub(super) fn empty(frame_ancestor: Option<String>) -> Response<ReplyBody> {
    let mut response = raw(StatusCode::OK, ReplyBody::whole(""));
    let policy = frame_ancestor
        .map(|origin| format!("default-src 'none'; frame-ancestors {origin}"))
        .and_then(|policy| HeaderValue::try_from(policy).ok());
    if let Some(policy) = policy {
        response
            .headers_mut()
            .insert(header::CONTENT_SECURITY_POLICY, policy);
    }
    response
}

/// What all our answers have in common: not stored, not sniffed, no referrer.
pub(super) fn raw(status: StatusCode, body: ReplyBody) -> Response<ReplyBody> {
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

/// Has the browser clear what it stored for this origin.
pub(super) fn clear_site_data(response: &mut Response<ReplyBody>, what: &'static str) {
    let name = HeaderName::from_static("clear-site-data");
    response
        .headers_mut()
        .insert(name, HeaderValue::from_static(what));
}

/// The text with a capital first letter.
pub fn capitalised(text: &str) -> String {
    let mut characters = text.chars();
    let first = characters.next();
    first.map_or_else(String::new, |first| {
        first.to_uppercase().chain(characters).collect()
    })
}
