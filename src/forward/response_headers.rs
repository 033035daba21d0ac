//! The headers of an answer as the client gets them: without hop-by-hop fields, with cookies
//! restricted to the app, and with public addresses. An app on a path cannot set policies of the
//! whole origin, and an app on its own host none of the parent domain.

use http::{HeaderMap, HeaderName, HeaderValue, header};

use super::{header_action::nominated, public_location, set_cookie};
use crate::model::{
    app::{App, AppKind},
    header_values::{Occurrence, list, occurrence, single},
    site::Site,
};

const SERVICE_WORKER_ALLOWED: HeaderName = HeaderName::from_static("service-worker-allowed");

/// Rewrites the headers of an answer in place.
pub fn rewrite(headers: &mut HeaderMap, app: &App, site: &Site) {
    let found = Found::among(headers);
    if found.connection {
        strip_nominated(headers);
    }
    if found.transfer_encoding {
        headers.remove(header::TRANSFER_ENCODING);
    }
    if found.hop_by_hop {
        strip_hop_by_hop(headers);
    }
    if found.cookies {
        set_cookie::rewrite(headers, app, site);
    }
    if found.addresses {
        public_location::restore_mount(headers, app, site);
    }
    if let Some(ancestors) = &app.spec.frame_ancestors {
        headers.append(header::CONTENT_SECURITY_POLICY, ancestors.policy().clone());
    }
    match app.kind {
        _ if !found.beyond_the_app => {}
        AppKind::Console => {}
        AppKind::Hosted if app.mount.is_empty() => keep_to_the_host(headers),
        AppKind::Hosted => keep_to_the_app(headers, app),
    }
}

/// Whether the head of an answer has the length of its body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BodyLength {
    /// Yes.
    Known,
    /// No: it ends with its last chunk, or with the connection.
    Unknown,
}

/// Makes the framing of an answer unambiguous: `chunked` alone, or one length in canonical decimal,
/// or none. `None`: that is not possible.
pub(super) fn normalize_framing(headers: &mut HeaderMap) -> Option<BodyLength> {
    if single(headers, &header::CONTENT_LENGTH).is_some_and(is_canonical) {
        let is_coded = headers.contains_key(header::TRANSFER_ENCODING);
        return (!is_coded).then_some(BodyLength::Known);
    }
    let chunked = match occurrence(headers, &header::TRANSFER_ENCODING) {
        Occurrence::Absent => false,
        Occurrence::Once(coding) if coding.eq_ignore_ascii_case(b"chunked") => true,
        Occurrence::Once(_) | Occurrence::Repeated => return None,
    };
    let length = {
        let mut lengths = list(headers, &header::CONTENT_LENGTH)
            .map(|digits| std::str::from_utf8(digits).ok()?.parse::<u64>().ok());
        let Some(first) = lengths.next() else {
            return Some(BodyLength::Unknown);
        };
        first.filter(|_| lengths.all(|other| other == first))
    };
    let (Some(length), false) = (length, chunked) else {
        return None;
    };
    headers.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    Some(BodyLength::Known)
}

/// Whether it is canonical decimal, and short enough not to overflow.
fn is_canonical(length: &HeaderValue) -> bool {
    match length.as_bytes() {
        long if long.len() > 18 => false,
        [b'0'] => true,
        [b'1'..=b'9', rest @ ..] => rest.iter().all(u8::is_ascii_digit),
        _ => false,
    }
}

/// Which fields of an answer must be changed or removed. Most answers have few of them, so one pass
/// over the present names is cheaper than a look-up of each.
#[derive(Default)]
struct Found {
    /// `Connection`.
    connection: bool,
    /// `Transfer-Encoding`, which most responses without a length have.
    transfer_encoding: bool,
    /// Other fields of one connection only.
    hop_by_hop: bool,
    cookies: bool,
    /// Addresses, which an app that does not see its mount writes without it.
    addresses: bool,
    /// Policies of an origin or of a domain.
    beyond_the_app: bool,
}

impl Found {
    fn among(headers: &HeaderMap) -> Found {
        let mut found = Found::default();
        for name in headers.keys() {
            match name.as_str() {
                "connection" => found.connection = true,
                "transfer-encoding" => found.transfer_encoding = true,
                "keep-alive" | "proxy-connection" | "proxy-authenticate" | "te" | "upgrade" => {
                    found.hop_by_hop = true;
                }
                "set-cookie" => found.cookies = true,
                "location" | "content-location" | "refresh" => found.addresses = true,
                "strict-transport-security"
                | "alt-svc"
                | "public-key-pins"
                | "public-key-pins-report-only"
                | "clear-site-data"
                | "nel"
                | "report-to"
                | "reporting-endpoints"
                | "set-login"
                | "origin-agent-cluster"
                | "service-worker-allowed" => found.beyond_the_app = true,
                _ => {}
            }
        }
        found
    }
}

/// Removes `Connection` and the fields that it names.
fn strip_nominated(headers: &mut HeaderMap) {
    let names: Vec<HeaderName> = nominated(headers)
        // It belongs to the message, whatever the app says.
        .filter(|name| *name != header::CONTENT_LENGTH)
        .collect();
    for name in names {
        headers.remove(name);
    }
    headers.remove(header::CONNECTION);
}

/// RFC 9110 section 7.6.1, except `Trailer`, without which hyper forwards no trailers, and what is
/// removed apart. On a 101 too: `Upgrade` is set again when the client's WebSocket is accepted.
fn strip_hop_by_hop(headers: &mut HeaderMap) {
    for name in [
        HeaderName::from_static("keep-alive"),
        HeaderName::from_static("proxy-connection"),
        header::PROXY_AUTHENTICATE,
        header::TE,
        header::UPGRADE,
    ] {
        headers.remove(name);
    }
}

/// Removes policies beyond the origin: an app on its own host sets none for hosts below or beside
/// its own, and none for connections to the gateway.
fn keep_to_the_host(headers: &mut HeaderMap) {
    for name in [
        header::ALT_SVC,
        header::PUBLIC_KEY_PINS,
        header::PUBLIC_KEY_PINS_REPORT_ONLY,
        HeaderName::from_static("set-login"),
    ] {
        headers.remove(name);
    }
    let mentions = |value: &HeaderValue, word: &[u8]| {
        value
            .as_bytes()
            .to_ascii_lowercase()
            .windows(word.len())
            .any(|part| part == word)
    };
    retain_values(headers, &header::STRICT_TRANSPORT_SECURITY, |value| {
        !mentions(value, b"includesubdomains")
    });
    // The value is JSON, which can write a letter as an escape, so none with a backslash stays.
    let nel = HeaderName::from_static("nel");
    retain_values(headers, &nel, |value| {
        !mentions(value, b"include_subdomains") && !mentions(value, b"\\")
    });
    clear_own_data_only(headers);
}

/// `Clear-Site-Data: "cookies"` would clear those of every host under the same registrable domain,
/// ours among them; cache and storage are the origin's own.
fn clear_own_data_only(headers: &mut HeaderMap) {
    let name = HeaderName::from_static("clear-site-data");
    let kept: Vec<&'static str> = ["\"cache\"", "\"storage\"", "\"executionContexts\""]
        .into_iter()
        .filter(|directive| {
            list(headers, &name).any(|given| given == directive.as_bytes() || given == b"\"*\"")
        })
        .collect();
    headers.remove(&name);
    if let Ok(value) = HeaderValue::try_from(kept.join(", "))
        && !kept.is_empty()
    {
        headers.insert(name, value);
    }
}

fn retain_values(headers: &mut HeaderMap, name: &HeaderName, keep: impl Fn(&HeaderValue) -> bool) {
    if headers.get_all(name).iter().all(&keep) {
        return;
    }
    let kept: Vec<HeaderValue> = headers
        .get_all(name)
        .iter()
        .filter(|value| keep(value))
        .cloned()
        .collect();
    headers.remove(name);
    for value in kept {
        headers.append(name, value);
    }
}

/// Removes policies of the origin: apps on paths share it.
fn keep_to_the_app(headers: &mut HeaderMap, app: &App) {
    for name in [
        header::STRICT_TRANSPORT_SECURITY,
        header::ALT_SVC,
        header::PUBLIC_KEY_PINS,
        header::PUBLIC_KEY_PINS_REPORT_ONLY,
        HeaderName::from_static("clear-site-data"),
        HeaderName::from_static("nel"),
        HeaderName::from_static("report-to"),
        HeaderName::from_static("reporting-endpoints"),
        HeaderName::from_static("set-login"),
        HeaderName::from_static("origin-agent-cluster"),
    ] {
        headers.remove(name);
    }
    // A browser reads the value as a URL, in which dots hide behind `%2e` and blanks: only plain
    // bytes pass.
    let plain = |byte: &u8| {
        byte.is_ascii_alphanumeric() || matches!(byte, b'/' | b'-' | b'_' | b'.' | b'~')
    };
    let stays = |scope: &[u8]| {
        let below = scope.strip_prefix(app.mount.as_bytes());
        below.is_some_and(|rest| {
            rest.starts_with(b"/")
                && rest.iter().all(plain)
                && !rest.windows(2).any(|two| two == b"..")
        })
    };
    let may_stay = match occurrence(headers, &SERVICE_WORKER_ALLOWED) {
        Occurrence::Absent => true,
        Occurrence::Once(scope) => stays(scope),
        Occurrence::Repeated => false,
    };
    if !may_stay {
        headers.remove(SERVICE_WORKER_ALLOWED);
    }
}
