//! How the sample apps answer: HTML files with places to fill, and short plain texts.
//!
//! What goes into the places is made in `whoami`, `team` and `chat`.

use std::convert::Infallible;

use bytes::Bytes;
use http::{HeaderValue, Method, Response, StatusCode, header};
use http_body_util::{BodyExt, Empty, Full, combinators::UnsyncBoxBody};

const STYLE: &str = include_str!("style.css");
/// Nothing is loaded from anywhere; the icon in the tab is a `data:` URL.
const STILL: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; \
     frame-ancestors 'self'",
);
const LIVELY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'unsafe-inline'; \
     connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'self'",
);

/// An answer of a sample app.
pub type Answer = Response<UnsyncBoxBody<Bytes, Infallible>>;

/// What is put into a place of a template.
#[derive(Clone, Copy, Debug)]
pub enum Piece<'p> {
    /// Text from anywhere; escaped.
    Text(&'p str),
    /// HTML made here, in which all foreign text is escaped already.
    Markup(&'p str),
}

/// Whether the script of a page may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scripts {
    /// The page has none.
    None,
    /// The page has one of its own, which talks to its app.
    Own,
}

/// Fills the places `{{name}}`, and `{{style}}` with the common style. A place without a piece
/// stays empty; what was put in is not searched for places again.
pub fn fill(template: &str, pieces: &[(&str, Piece<'_>)]) -> String {
    let mut page = String::with_capacity(template.len() + STYLE.len() + 1024);
    let mut rest = template;
    while let Some((before, behind)) = rest.split_once("{{") {
        page.push_str(before);
        let Some((name, after)) = behind.split_once("}}") else {
            return page;
        };
        if name == "style" {
            page.push_str(STYLE);
        }
        match pieces.iter().find(|(known, _)| *known == name) {
            Some((_, Piece::Text(text))) => page.push_str(&escape(text)),
            Some((_, Piece::Markup(markup))) => page.push_str(markup),
            None => {}
        }
        rest = after;
    }
    page.push_str(rest);
    page
}

/// Text as it stands in HTML, between tags or in a quoted attribute.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}

/// Whether a method only reads.
pub fn reads(method: &Method) -> bool {
    *method == Method::GET || *method == Method::HEAD
}

/// A page. It may say who somebody is, so nobody keeps it.
pub fn html(page: String, scripts: Scripts) -> Answer {
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

/// A sentence.
pub fn plain(status: StatusCode, text: &'static str) -> Answer {
    answer(status, "text/plain; charset=utf-8", text)
}

/// 404.
pub fn not_found() -> Answer {
    plain(StatusCode::NOT_FOUND, "There is nothing here.\n")
}

/// 405, with the methods that would do.
pub fn wrong_method(allowed: &'static str) -> Answer {
    let mut answer = plain(
        StatusCode::METHOD_NOT_ALLOWED,
        "This is done with another method.\n",
    );
    answer
        .headers_mut()
        .insert(header::ALLOW, HeaderValue::from_static(allowed));
    answer
}

/// The body that says nothing.
pub fn nothing() -> UnsyncBoxBody<Bytes, Infallible> {
    Empty::new().boxed_unsync()
}

fn answer(status: StatusCode, kind: &'static str, body: impl Into<Bytes>) -> Answer {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_text_cannot_leave_its_place() {
        let filled = fill(
            "<b title='{{t}}'>{{t}}</b>",
            &[("t", Piece::Text("'\"><script>&amp;"))],
        );
        let text = "&#39;&quot;&gt;&lt;script&gt;&amp;amp;";
        assert_eq!(filled, format!("<b title='{text}'>{text}</b>"));
    }

    #[test]
    fn what_was_put_in_is_not_read_as_a_template() {
        let pieces = [
            ("a", Piece::Text("{{b}}")),
            ("b", Piece::Markup("<i>secret</i>")),
        ];
        assert_eq!(fill("{{a}} {{b}} {{c}}.", &pieces), "{{b}} <i>secret</i> .");
    }

    #[test]
    fn the_common_style_stays_inside_its_element() {
        let page = fill("<style>{{style}}</style>", &[]);
        assert_eq!(page.matches('<').count(), 2);
        assert!(page.contains("prefers-color-scheme:dark"));
    }
}
