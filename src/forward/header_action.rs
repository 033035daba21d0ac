//! Which headers of a client are forwarded to an app: no hop-by-hop field, and no spelling of a
//! header that the gateway sets.

use http::{HeaderMap, HeaderName, header};

use crate::model::{app::AppSpec, header_values::list};

/// What happens to a header of the client.
pub(super) enum HeaderAction {
    /// Sent unchanged.
    Forward,
    /// Removed: it concerns one connection only (RFC 9110 section 7.6.1), or the gateway writes it.
    HopByHop,
    /// Removed: a name that the gateway sets, in any spelling.
    Reserved,
    /// Our cookies are removed.
    Cookie,
    /// Removed where it is a credential of ours.
    Authorization,
}

/// The action for a header of this name.
pub(super) fn action(name: &str) -> HeaderAction {
    match name {
        "cookie" => HeaderAction::Cookie,
        "authorization" => HeaderAction::Authorization,
        "connection"
        | "keep-alive"
        // Servers with a CGI interface would set HTTP_PROXY by it, which many libraries obey
        // (httpoxy, CVE-2016-5385).
        | "proxy"
        | "proxy-connection"
        | "proxy-authenticate"
        | "proxy-authorization"
        | "te"
        | "trailer"
        | "transfer-encoding"
        | "upgrade"
        | "http2-settings"
        | "expect"
        | "content-length"
        | "host" => HeaderAction::HopByHop,
        _ if is_forged(name) => HeaderAction::Reserved,
        _ => HeaderAction::Forward,
    }
}

/// Whether a field of this name is the client's own to send to an app.
pub fn passes(name: &HeaderName, app: &AppSpec) -> bool {
    matches!(action(name.as_str()), HeaderAction::Forward) && !is_set_by(app, name.as_str())
}

/// Whether the table of an app sets a field of this name, in any spelling.
pub(super) fn is_set_by(app: &AppSpec, name: &str) -> bool {
    let mut headers = app.headers.iter();
    headers.any(|header| is_spelling_of(name, header.name.as_str()))
}

/// Whether the table of an app may set a field of this name: it is neither ours, nor about the
/// connection, nor read by the gateway.
pub fn may_be_set(name: &HeaderName) -> bool {
    let name = name.as_str();
    matches!(action(name), HeaderAction::Forward)
        && !overrides_target(name)
        && !is_one_of(name, &NEVER_SET)
        && !begins_like(name, "sec-websocket-")
}

/// Whether an app may take one of two names for the other. Names are in lower case.
pub fn is_spelling_of(name: &str, other: &str) -> bool {
    name.len() == other.len() && begins_like(name, other)
}

fn is_one_of(name: &str, names: &[&str]) -> bool {
    names.iter().any(|other| is_spelling_of(name, other))
}

/// Whether a name begins with another one, in any spelling of both.
fn begins_like(name: &str, start: &str) -> bool {
    let mut pairs = name.bytes().zip(start.bytes());
    name.len() >= start.len()
        && pairs.all(|(byte, other)| byte == other || dashed(byte) == dashed(other))
}

/// Whether a name equals, or begins like, one that we set or that speaks for a proxy, in any
/// spelling.
fn is_forged(name: &str) -> bool {
    match name.as_bytes().first() {
        Some(b'x') => {
            FAMILIES.iter().any(|family| begins_like(name, family)) || is_one_of(name, &EXACT)
        }
        Some(b'f' | b't' | b'c') => is_one_of(name, &EXACT),
        Some(_) | None => false,
    }
}

/// Whether an app may take the path or the method of a request from a field of this name, in any
/// spelling. The rule of a path was chosen by the request line.
pub fn overrides_target(name: &str) -> bool {
    name.starts_with('x') && is_one_of(name, &OVERRIDES)
}

/// Whether an app may take a field of this name for one of `X-Auth-Request-*`, although it is
/// spelled differently. A proxy replaces the plain spelling only.
pub fn misspells_auth_request(name: &str) -> bool {
    begins_like(name, AUTH_REQUEST) && name.bytes().any(|byte| dashed(byte) != byte)
}

/// A byte of a name as some servers read it. CGI, FastCGI and WSGI servers turn a name into a
/// variable (RFC 3875 section 4.1.18 asks for `-` alone, but some map every byte other than a
/// letter or a digit to `_`), so `X~Forwarded~User` would become `HTTP_X_FORWARDED_USER`. Names
/// arrive in lower case.
fn dashed(byte: u8) -> u8 {
    if byte.is_ascii_alphanumeric() {
        byte
    } else {
        b'-'
    }
}

/// The identity that a proxy with auth requests passes on.
const AUTH_REQUEST: &str = "x-auth-request-";

/// Every name that begins so is ours.
const FAMILIES: [&str; 5] = [
    "x-forwarded-",
    AUTH_REQUEST,
    "x-ludgate-",
    "x-arvados-authorization",
    "x-arvados-container-",
];

/// Names that are ours as a whole. The two framing fields themselves never get here: only their
/// misspellings do.
const EXACT: [&str; 9] = [
    "forwarded",
    "x-forwarded",
    "x-real-ip",
    "x-request-id",
    "true-client-ip",
    "cf-connecting-ip",
    "x-cluster-client-ip",
    "content-length",
    "transfer-encoding",
];

/// Fields of clients that the gateway changes or adds to, and other spellings of fields about the
/// connection.
const NEVER_SET: [&str; 8] = [
    "via",
    "origin",
    "referer",
    "keep-alive",
    "proxy-connection",
    "proxy-authenticate",
    "proxy-authorization",
    "http2-settings",
];

/// Names by which frameworks let a field replace the path or the method of the request line.
const OVERRIDES: [&str; 5] = [
    "x-original-url",
    "x-rewrite-url",
    "x-http-method-override",
    "x-http-method",
    "x-method-override",
];

/// The fields that `Connection` names: they concern this connection only, and are not forwarded
/// (RFC 9110 section 7.6.1). Without the usual tokens that name no field, or one that is never
/// forwarded.
pub(super) fn nominated(headers: &HeaderMap) -> impl Iterator<Item = HeaderName> {
    list(headers, &header::CONNECTION)
        .filter(|token| {
            [&b"close"[..], b"keep-alive", b"upgrade"]
                .iter()
                .all(|usual| !token.eq_ignore_ascii_case(usual))
        })
        .filter_map(|token| HeaderName::from_bytes(token).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every byte that a field name may hold and that is neither a letter nor a digit (RFC 9110
    /// section 5.6.2).
    const SEPARATORS: &str = "!#$%&'*+-.^_`|~";

    fn is_dropped(name: &str) -> bool {
        !matches!(action(name), HeaderAction::Forward)
    }

    #[test]
    fn every_spelling_of_a_header_we_set_is_removed() {
        let families = FAMILIES.iter().flat_map(|family| {
            let any = ["", "user", "anything-else"];
            any.map(|rest| format!("{family}{rest}"))
        });
        let exact = EXACT.iter().map(|name| (*name).to_owned());
        for ours in families.chain(exact) {
            assert!(is_dropped(&ours), "{ours:?}");
            for separator in SEPARATORS.chars() {
                let all = ours.replace('-', &separator.to_string());
                let first = ours.replacen('-', &separator.to_string(), 1);
                assert!(is_dropped(&all) && is_dropped(&first), "{all:?} {first:?}");
            }
        }
        assert!(is_dropped("proxy"), "httpoxy");
    }

    #[test]
    fn every_spelling_of_an_override_is_found() {
        for name in OVERRIDES {
            for separator in SEPARATORS.chars() {
                let all = name.replace('-', &separator.to_string());
                let first = name.replacen('-', &separator.to_string(), 1);
                assert!(
                    overrides_target(&all) && overrides_target(&first),
                    "{all:?}"
                );
            }
            assert!(!is_dropped(name), "only apps with rules of paths lose it");
        }
        for other in [
            "x-original-urls",
            "x-original",
            "x-http-methods",
            "method-override",
            "xhttp-method",
            "x",
        ] {
            assert!(!overrides_target(other), "{other:?}");
        }
    }

    #[test]
    fn every_other_spelling_of_an_auth_request_header_is_found() {
        let long = format!("{AUTH_REQUEST}{}-x", "a".repeat(100));
        for ours in [
            "x-auth-request-user",
            "x-auth-request-preferred-username",
            &long,
        ] {
            assert!(!misspells_auth_request(ours), "{ours:?}");
            for separator in SEPARATORS.chars().filter(|it| *it != '-') {
                let separator = separator.to_string();
                let all = ours.replace('-', &separator);
                let first = ours.replacen('-', &separator, 1);
                let (start, end) = ours.rsplit_once('-').expect("several parts");
                let last = format!("{start}{separator}{end}");
                for name in [all, first, last] {
                    assert!(misspells_auth_request(&name), "{name:?}");
                }
            }
        }
        for other in ["x-auth-request", "x_auth_user", "x-forwarded_user", "x"] {
            assert!(!misspells_auth_request(other), "{other:?}");
        }
    }

    #[test]
    fn a_name_that_has_a_meaning_for_the_gateway_cannot_be_set() {
        for name in [
            "Host",
            "Connection",
            "Keep-Alive",
            "Keep_Alive",
            "Content-Length",
            "Content_Length",
            "Transfer-Encoding",
            "TE",
            "Trailer",
            "Upgrade",
            "Expect",
            "Forwarded",
            "X-Forwarded-User",
            "X_Forwarded_Anything",
            "X-Forwarded-Access-Token",
            "X-Auth-Request-User",
            "X-Ludgate-Tenant",
            "X-Real-IP",
            "X-Request-Id",
            "Authorization",
            "Proxy-Authorization",
            "Proxy_Authorization",
            "Cookie",
            "Via",
            "Origin",
            "Referer",
            "Sec-WebSocket-Key",
            "X-HTTP-Method-Override",
            "X_Original_URL",
        ] {
            let parsed = HeaderName::from_bytes(name.as_bytes()).expect("a name");
            assert!(!may_be_set(&parsed), "{name}");
        }
        for name in [
            "X-Tenant",
            "X_Tenant",
            "Remote-User",
            "Accept-Encoding",
            "X",
        ] {
            let parsed = HeaderName::from_bytes(name.as_bytes()).expect("a name");
            assert!(may_be_set(&parsed), "{name}");
        }
    }

    #[test]
    fn spellings_of_a_name_differ_in_signs_only() {
        for separator in SEPARATORS.chars() {
            let other = format!("x{separator}tenant{separator}id");
            assert!(is_spelling_of(&other, "x-tenant-id"), "{other}");
            assert!(is_spelling_of("x_tenant-id", &other), "{other}");
        }
        let long = "x-".repeat(200);
        assert!(is_spelling_of(&long, &"x_".repeat(200)));
        for other in [
            "",
            "x",
            "xtenant-id",
            "x-tenant-i",
            "x-tenant-id-",
            "x-tenant-ix",
        ] {
            assert!(!is_spelling_of(other, "x-tenant-id"), "{other}");
        }
    }

    #[test]
    fn a_header_that_is_not_reserved_passes() {
        for theirs in [
            "x-custom",
            "content-type",
            "x-forward",
            "forwarder",
            "x-csrf-token",
            "tx",
            "x-real-ip-2",
            "proxy-x",
            "x~custom",
            "content_type",
        ] {
            assert!(!is_dropped(theirs), "{theirs:?}");
        }
    }
}
