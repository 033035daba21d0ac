//! Rewrites the head of an HTTP/2 request as one of HTTP/1.1, so that the rest of the gateway
//! handles one form only: the Host header from `:authority` (RFC 9113 section 8.3.1), one Cookie
//! header (section 8.2.3), and an extended CONNECT as a WebSocket upgrade (RFC 8441 section 4).
//!
//! h2 itself refuses upper-case names, connection-specific fields and wrong lengths.

use aws_lc_rs::rand;
use base64::{Engine, engine::general_purpose::STANDARD};
use http::{HeaderValue, Method, Version, header, request::Parts};
use hyper::ext::Protocol;

use super::{cookies::strip_blanks, malformed::Malformed};
use crate::model::header_values::{Occurrence, occurrence};

/// Normalizes the head, which may have at most `most_fields` fields. A head of HTTP/1.1 is not
/// changed.
///
/// # Errors
/// When HTTP/1.1 cannot express the head, or can express it in two ways.
pub fn normalize(parts: &mut Parts, most_fields: usize) -> Result<(), Malformed> {
    if parts.version != Version::HTTP_2 {
        return Ok(());
    }
    // A blank at either end would be gone on the way to the app (RFC 9113 section 8.2.1).
    if parts
        .headers
        .values()
        .any(|value| strip_blanks(value.as_bytes()).len() != value.len())
    {
        return Err(Malformed::Field);
    }
    if !matches!(parts.uri.scheme_str(), None | Some("http" | "https")) {
        return Err(Malformed::Target);
    }
    match (parts.uri.authority(), parts.headers.get(header::HOST)) {
        (None, None) => return Err(Malformed::Host),
        (None, Some(_)) => {}
        (Some(authority), None) => {
            let host = HeaderValue::from_str(authority.as_str()).map_err(|_| Malformed::Host)?;
            parts.headers.insert(header::HOST, host);
        }
        // `:authority` and Host differ: refused even if one of them is ours (RFC 9113 section
        // 8.3.1).
        (Some(authority), Some(host))
            if !authority
                .as_str()
                .as_bytes()
                .eq_ignore_ascii_case(host.as_bytes()) =>
        {
            return Err(Malformed::HostMismatch);
        }
        (Some(_), Some(_)) => {}
    }
    join_cookies(parts);
    if parts.headers.len() > most_fields {
        return Err(Malformed::Fields);
    }
    if parts.method == Method::CONNECT {
        upgrade(parts)?;
    }
    Ok(())
}

fn join_cookies(parts: &mut Parts) {
    if occurrence(&parts.headers, &header::COOKIE) != Occurrence::Repeated {
        return;
    }
    let crumbs: Vec<&[u8]> = parts
        .headers
        .get_all(header::COOKIE)
        .iter()
        .map(HeaderValue::as_bytes)
        .collect();
    // Made of values, so a value.
    if let Ok(line) = HeaderValue::try_from(crumbs.join(&b"; "[..])) {
        parts.headers.insert(header::COOKIE, line);
    }
}

/// The handshake with the app is of HTTP/1.1, with a key of our own: on HTTP/2 there is none (RFC
/// 8441 section 5).
fn upgrade(parts: &mut Parts) -> Result<(), Malformed> {
    let protocol = parts
        .extensions
        .get::<Protocol>()
        .ok_or(Malformed::Method)?;
    if protocol.as_ref() != b"websocket" {
        return Err(Malformed::Method);
    }
    let mut key = [0; 16];
    // It proves that the app read the request, not who sent it.
    let _ = rand::fill(&mut key);
    let key = HeaderValue::try_from(STANDARD.encode(key)).map_err(|_| Malformed::Handshake)?;
    parts.method = Method::GET;
    parts.headers.insert(header::SEC_WEBSOCKET_KEY, key);
    parts
        .headers
        .insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    parts
        .headers
        .insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    Ok(())
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    fn settled(uri: &str, headers: &[(&str, &str)]) -> Result<Parts, Malformed> {
        let mut request = Request::builder().version(Version::HTTP_2).uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let mut parts = request.body(()).expect("a request").into_parts().0;
        normalize(&mut parts, 5).map(|()| parts)
    }

    #[test]
    fn the_authority_becomes_the_host_and_crumbs_one_line() {
        let cookies = [("cookie", "a=1"), ("x", "y"), ("cookie", "b=2; c=3")];
        let parts = settled("https://gw.test/apps/a/", &cookies).expect("fine");
        assert_eq!(parts.headers[header::HOST], "gw.test");
        assert_eq!(
            parts
                .headers
                .get_all(header::COOKIE)
                .iter()
                .collect::<Vec<_>>(),
            ["a=1; b=2; c=3"]
        );
    }

    #[test]
    fn what_http11_cannot_say_is_refused() {
        for (uri, headers, why) in [
            ("/no-authority", &[][..], Malformed::Host),
            ("ftp://gw.test/", &[], Malformed::Target),
            (
                "https://gw.test/",
                &[("host", "other.test")],
                Malformed::HostMismatch,
            ),
            ("https://gw.test/", &[("x-a", "1"); 5], Malformed::Fields),
            ("https://gw.test/", &[("x-a", " a")], Malformed::Field),
            ("https://gw.test/", &[("x-a", "a\t")], Malformed::Field),
        ] {
            assert_eq!(
                settled(uri, headers).expect_err("refused"),
                why,
                "{uri} {headers:?}"
            );
        }
    }
}
