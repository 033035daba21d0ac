//! Responses of the sample apps: HTML pages and short plain texts, with their headers.

use std::convert::Infallible;

use bytes::Bytes;
use http::{HeaderValue, Method, Response, StatusCode, header};
use http_body_util::{BodyExt, Empty, Full, combinators::UnsyncBoxBody};

/// Pages load nothing; the icon in the tab is a `data:` URL.
const STILL: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; \
     frame-ancestors 'self'",
);
const LIVELY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'unsafe-inline'; \
     connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'self'",
);

/// A response of a sample app.
pub type AppResponse = Response<UnsyncBoxBody<Bytes, Infallible>>;

/// Scripts that a page may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scripts {
    /// The page has none.
    None,
    /// An inline script, which may call the app.
    Own,
}

/// Whether a method only reads.
pub fn reads(method: &Method) -> bool {
    *method == Method::GET || *method == Method::HEAD
}

/// An HTML page. It may name the person, so it is not cached.
pub fn html(page: String, scripts: Scripts) -> AppResponse {
    let mut answer = answer(StatusCode::OK, "text/html; charset=utf-8", page);
    let policy = match scripts {
        Scripts::None => STILL,
        Scripts::Own => LIVELY,
    };
    answer
        .headers_mut()
        .insert(header::CONTENT_SECURITY_POLICY, policy);
    answer
}

/// A plain-text response.
pub fn plain(status: StatusCode, text: &'static str) -> AppResponse {
    answer(status, "text/plain; charset=utf-8", text)
}

/// 404 with a plain text.
pub fn not_found() -> AppResponse {
    plain(StatusCode::NOT_FOUND, "There is nothing here.\n")
}

/// 405 with the allowed methods.
pub fn wrong_method(allowed: &'static str) -> AppResponse {
    let mut answer = plain(
        StatusCode::METHOD_NOT_ALLOWED,
        "This is done with another method.\n",
    );
    answer
        .headers_mut()
        .insert(header::ALLOW, HeaderValue::from_static(allowed));
    answer
}

/// A body without content.
pub fn nothing() -> UnsyncBoxBody<Bytes, Infallible> {
    Empty::new().boxed_unsync()
}

fn answer(status: StatusCode, kind: &'static str, body: impl Into<Bytes>) -> AppResponse {
    let mut answer = Response::new(Full::new(body.into()).boxed_unsync());
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(
        header::X_CONTENT_TYPE_OPTIONS,
        HeaderValue::from_static("nosniff"),
    );
    answer
}
