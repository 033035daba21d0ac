//! The pages of an app that get the script of `apps.session_notice`, and their headers.
//!
//! A page stays unchanged unless it is certain that it is HTML, and that the script may run in it.

use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header};
use hyper::body::Body;

use super::download::Download;
use crate::model::header_values::{Occurrence, has_media_type, list, occurrence};

/// The tag. `async`: the page does not wait for it.
const TAG: &str = "<script src=\"/.ludgate/session.js\" async></script>";

/// Encodings that extend ASCII, by the beginnings of their names.
const ASCII_COMPATIBLE: [&str; 5] = ["utf-8", "utf8", "us-ascii", "iso-8859-", "windows-125"];

/// Has the script added to the response while it passes, if it is a page.
pub(super) fn add(response: &mut Response<Download>) {
    let is_page = response.status() == StatusCode::OK
        && !response.body().is_end_stream()
        && may_be_changed(response.headers());
    if !is_page {
        return;
    }
    let headers = response.headers_mut();
    // They describe the app's bytes.
    for name in [
        header::CONTENT_LENGTH,
        header::ACCEPT_RANGES,
        HeaderName::from_static("content-md5"),
        HeaderName::from_static("digest"),
        HeaderName::from_static("content-digest"),
        HeaderName::from_static("repr-digest"),
    ] {
        headers.remove(name);
    }
    weaken_tag(headers);
    response.body_mut().insert(TAG);
}

fn may_be_changed(headers: &HeaderMap) -> bool {
    has_media_type(headers, &[b"text/html"])
        && is_ascii_compatible(headers)
        && is_uncompressed(headers)
        && !is_download(headers)
        && !list(headers, &header::CACHE_CONTROL)
            .any(|directive| directive.eq_ignore_ascii_case(b"no-transform"))
        && headers
            .get_all(header::CONTENT_SECURITY_POLICY)
            .iter()
            .all(|value| {
                value
                    .to_str()
                    .is_ok_and(|text| text.split(',').all(permits))
            })
}

fn is_ascii_compatible(headers: &HeaderMap) -> bool {
    let Occurrence::Once(kind) = occurrence(headers, &header::CONTENT_TYPE) else {
        return false;
    };
    let kind = String::from_utf8_lossy(kind).to_ascii_lowercase();
    let (name, parameters) = kind.split_once(';').unwrap_or((kind.as_str(), ""));
    let mut charsets = parameters
        .split(';')
        .filter_map(|parameter| parameter.trim().strip_prefix("charset="))
        .map(|charset| charset.trim_matches('"'));
    name.trim() == "text/html"
        && charsets.all(|charset| {
            let mut known = ASCII_COMPATIBLE.iter();
            known.any(|name| charset.starts_with(*name))
        })
}

fn is_uncompressed(headers: &HeaderMap) -> bool {
    list(headers, &header::CONTENT_ENCODING).all(|coding| coding.eq_ignore_ascii_case(b"identity"))
}

/// Whether browsers save the response as a file.
fn is_download(headers: &HeaderMap) -> bool {
    let value = headers.get(header::CONTENT_DISPOSITION);
    value.is_some_and(|value| !value.as_bytes().to_ascii_lowercase().starts_with(b"inline"))
}

/// Whether a Content-Security-Policy lets the script run and send its requests. Its own styles need
/// no permission.
fn permits(policy: &str) -> bool {
    // If a directive is repeated, the first one counts.
    let directive = |name: &str| {
        policy.split(';').find_map(|directive| {
            let mut words = directive.split_ascii_whitespace();
            let is_it = words.next()?.eq_ignore_ascii_case(name);
            is_it.then(|| words.map(str::to_ascii_lowercase).collect::<Vec<_>>())
        })
    };
    let permits_own = |names: &[&str]| {
        let sources = names.iter().find_map(|name| directive(name));
        sources.is_none_or(|sources| {
            let has = |source: &str| sources.iter().any(|known| known == source);
            // With `strict-dynamic`, origins do not count.
            (has("'self'") || has("*")) && !has("'strict-dynamic'")
        })
    };
    directive("sandbox").is_none()
        && permits_own(&["script-src-elem", "script-src", "default-src"])
        && permits_own(&["connect-src", "default-src"])
}

/// The page is equivalent to the app's, but not the same byte for byte (RFC 9110 section 8.8.1).
fn weaken_tag(headers: &mut HeaderMap) {
    let Some(tag) = headers.get(header::ETAG).map(HeaderValue::as_bytes) else {
        return;
    };
    if tag.starts_with(b"W/") {
        return;
    }
    let weak = HeaderValue::from_bytes(&[&b"W/"[..], tag].concat());
    match weak {
        Ok(weak) => headers.insert(header::ETAG, weak),
        Err(_) => headers.remove(header::ETAG),
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::route::path::SESSION_SCRIPT;

    fn headers(lines: &[(&'static str, &str)]) -> HeaderMap {
        let lines = lines.iter().map(|(name, value)| {
            let value = HeaderValue::from_str(value).expect("a value");
            (HeaderName::from_static(name), value)
        });
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(name, value);
        }
        headers
    }

    #[test]
    fn the_tag_names_our_script() {
        assert!(TAG.contains(&format!("src=\"{SESSION_SCRIPT}\"")));
    }

    #[test]
    fn only_plain_pages_are_changed() {
        for kind in [
            "text/html",
            "Text/HTML; charset=UTF-8",
            "text/html;charset=\"iso-8859-1\"",
            "text/html ; x=y; charset=windows-1252",
        ] {
            assert!(
                may_be_changed(&headers(&[("content-type", kind)])),
                "{kind}"
            );
        }
        for kind in [
            "text/plain",
            "text/htmlx",
            "application/xhtml+xml",
            "text/html; charset=utf-16",
            "text/html; charset=utf-8; charset=utf-16le",
        ] {
            assert!(
                !may_be_changed(&headers(&[("content-type", kind)])),
                "{kind}"
            );
        }
        let html = ("content-type", "text/html");
        for (line, changes) in [
            (("content-encoding", "identity"), true),
            (("content-encoding", "gzip"), false),
            (("content-encoding", "br, identity"), false),
            (("content-disposition", "inline"), true),
            (
                ("content-disposition", "Attachment; filename=a.html"),
                false,
            ),
            (("cache-control", "no-cache, max-age=0"), true),
            (("cache-control", "private, No-Transform"), false),
            (("content-type", "text/html"), false),
        ] {
            assert_eq!(may_be_changed(&headers(&[html, line])), changes, "{line:?}");
        }
        assert!(!may_be_changed(&HeaderMap::new()));
    }

    #[test]
    fn a_policy_must_permit_the_script_and_its_requests() {
        for policy in [
            "",
            "frame-ancestors 'self'",
            "default-src 'self'",
            "script-src 'self' 'unsafe-inline'; object-src 'none'",
            "default-src 'none'; script-src-elem 'SELF'; connect-src *",
            "Script-Src 'self'; script-src 'none'",
        ] {
            assert!(permits(policy), "{policy}");
        }
        for policy in [
            "default-src 'none'",
            "script-src 'none'",
            "script-src https://cdn.example.com 'nonce-a'",
            "script-src 'self' 'strict-dynamic'",
            "script-src 'self'; script-src-elem 'none'",
            "default-src 'self'; connect-src https://api.example.com",
            "sandbox allow-scripts",
        ] {
            assert!(!permits(policy), "{policy}");
        }
        let (html, name) = (("content-type", "text/html"), "content-security-policy");
        let one = [html, (name, "script-src 'self'")];
        assert!(may_be_changed(&headers(&one)));
        let two = [
            html,
            (name, "script-src 'self'"),
            (name, "script-src 'none'"),
        ];
        assert!(!may_be_changed(&headers(&two)));
        let in_one_line = [html, (name, "script-src 'self', script-src 'none'")];
        assert!(!may_be_changed(&headers(&in_one_line)));
    }

    #[test]
    fn an_entity_tag_becomes_weak() {
        for (tag, expected) in [("\"a\"", "W/\"a\""), ("W/\"a\"", "W/\"a\"")] {
            let mut headers = headers(&[("etag", tag)]);
            weaken_tag(&mut headers);
            assert_eq!(
                headers.get("etag").map(HeaderValue::as_bytes),
                Some(expected.as_bytes())
            );
        }
    }
}
