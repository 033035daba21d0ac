//! What kind of client sends the request: a browser's page, frame or WebSocket, or a program.

use base64::{Engine, engine::general_purpose::STANDARD};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Version, header, request::Parts};

use super::{header_presence::HeaderPresence, malformed::Malformed, request_origin::FetchMetadata};
use crate::model::{
    arrival::{Framing, RequestClass},
    header_values::{Occurrence, list, members, single},
};

/// The class of a request.
///
/// # Errors
/// [`Malformed::Handshake`] for a WebSocket upgrade that no server could accept.
pub fn classify(
    parts: &Parts,
    names: HeaderPresence,
    fetch: &FetchMetadata<'_>,
    framing: Framing,
) -> Result<RequestClass, Malformed> {
    if names.upgrade && asks_for_websocket(&parts.headers) && parts.version != Version::HTTP_10 {
        return handshake(parts, framing).map(|()| RequestClass::WebSocket);
    }
    if parts.method != Method::GET && parts.method != Method::HEAD {
        return Ok(RequestClass::Program);
    }
    if fetch.is_absent() {
        let page = prefers_html(&parts.headers);
        return Ok(if page {
            RequestClass::Navigation
        } else {
            RequestClass::Program
        });
    }
    Ok(match (fetch.mode, fetch.dest) {
        (Occurrence::Once(b"navigate"), Occurrence::Once(b"document")) => RequestClass::Navigation,
        (
            Occurrence::Once(b"navigate"),
            Occurrence::Once(b"iframe" | b"frame" | b"embed" | b"object"),
        ) => RequestClass::Frame,
        (Occurrence::Absent | Occurrence::Once(_) | Occurrence::Repeated, _) => {
            RequestClass::Program
        }
    })
}

/// Whether a browser says that a form of a page of the same origin is sent, whose answer will be
/// the next page.
pub fn sends_form(parts: &Parts, fetch: &FetchMetadata<'_>) -> bool {
    parts.method == Method::POST
        && fetch.mode == Occurrence::Once(b"navigate")
        && fetch.dest == Occurrence::Once(b"document")
        && fetch.site == Occurrence::Once(b"same-origin")
}

/// Whether the Accept header asks for a page first: `text/html` named, and nothing named before or
/// above it.
pub fn prefers_html(headers: &HeaderMap) -> bool {
    let mut best: Option<(u32, bool)> = None;
    for range in list(headers, &header::ACCEPT) {
        let mut parts = range.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
        let media = parts.next().unwrap_or_default();
        if media.is_empty() || media.ends_with(b"/*") {
            continue;
        }
        let quality = parts.find_map(quality).unwrap_or(1000);
        let html = media.eq_ignore_ascii_case(b"text/html");
        if best.is_none_or(|(top, _)| quality > top) {
            best = Some((quality, html));
        }
    }
    best.is_some_and(|(quality, html)| html && quality > 0)
}

/// `q=0.5` in thousandths; anything unreadable counts as zero.
fn quality(parameter: &[u8]) -> Option<u32> {
    let (b"q=" | b"Q=", value) = parameter.split_at_checked(2)? else {
        return None;
    };
    let number: f32 = std::str::from_utf8(value)
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(0.0);
    // Saturating: the cast of a float that is negative or not a number gives 0.
    Some(((number * 1000.0) as u32).min(1000))
}

fn asks_for_websocket(headers: &HeaderMap) -> bool {
    let Some(upgrade) = headers.get(header::UPGRADE) else {
        return false;
    };
    members(upgrade).any(|protocol| protocol.eq_ignore_ascii_case(b"websocket"))
        && list(headers, &header::CONNECTION).any(|name| name.eq_ignore_ascii_case(b"upgrade"))
}

/// RFC 6455 section 4.1: GET, version 13, a key of 16 bytes, and here also no body.
fn handshake(parts: &Parts, framing: Framing) -> Result<(), Malformed> {
    let one = |name: &HeaderName| single(&parts.headers, name).map(HeaderValue::as_bytes);
    let key = one(&header::SEC_WEBSOCKET_KEY).and_then(|key| STANDARD.decode(key).ok());
    let is_valid = parts.method == Method::GET
        && matches!(framing, Framing::None | Framing::Length(0))
        && one(&header::SEC_WEBSOCKET_VERSION) == Some(b"13")
        && key.is_some_and(|key| key.len() == 16)
        && one(&header::UPGRADE).is_some_and(|value| value.eq_ignore_ascii_case(b"websocket"));
    if is_valid {
        Ok(())
    } else {
        Err(Malformed::Handshake)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_preferred_only_when_named_first_or_highest() {
        for (accept, expected) in [
            (
                "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
                true,
            ),
            ("TEXT/HTML", true),
            ("*/*", false),
            ("", false),
            ("application/json, text/html", false),
            ("application/json;q=0.5, text/html", true),
            ("application/json, text/html;q=0.9", false),
            ("text/html;q=0", false),
            ("text/html;q=nonsense", false),
            ("text/*", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT, HeaderValue::from_static(accept));
            assert_eq!(prefers_html(&headers), expected, "{accept:?}");
        }
    }
}
