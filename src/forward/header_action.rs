//! Which headers of a client are forwarded to an app: no hop-by-hop field, and no spelling of a
//! header that the gateway sets.

use http::{HeaderMap, HeaderName, header};

use crate::model::header_values::list;

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

/// Whether a field of this name is the client's own to send.
pub fn passes(name: &HeaderName) -> bool {
    matches!(action(name.as_str()), HeaderAction::Forward)
}

/// Whether a name equals, or begins like, one that we set or that speaks for a proxy, in any
/// spelling.
fn is_forged(name: &str) -> bool {
    if !matches!(name.as_bytes().first(), Some(b'x' | b'f' | b't' | b'c')) {
        return false;
    }
    let mut buffer = [0_u8; MAX_COMPARED];
    let canonical = canonical(name, &mut buffer);
    FAMILIES.iter().any(|family| canonical.starts_with(family)) || EXACT.contains(&canonical)
}

/// Whether an app may take the path or the method of a request from a field of this name, in any
/// spelling. The rule of a path was chosen by the request line.
pub fn overrides_target(name: &str) -> bool {
    let mut buffer = [0_u8; MAX_COMPARED];
    name.starts_with('x') && OVERRIDES.contains(&canonical(name, &mut buffer))
}

/// Whether an app may take a field of this name for one of `X-Auth-Request-*`, although it is
/// spelled differently. A proxy replaces the plain spelling only.
pub fn misspells_auth_request(name: &str) -> bool {
    let mut buffer = [0_u8; MAX_COMPARED];
    let canonical = canonical(name, &mut buffer);
    canonical.starts_with(AUTH_REQUEST) && !name.as_bytes().starts_with(canonical)
}

/// The beginning of a name, in which every byte other than a letter or a digit is read as `-`. CGI,
/// FastCGI and WSGI servers turn a name into a variable in that way (RFC 3875 section 4.1.18 asks
/// for `-` alone, but some map every such byte to `_`), so `X~Forwarded~User` would become
/// `HTTP_X_FORWARDED_USER`. Names arrive in lower case.
fn canonical<'b>(name: &str, buffer: &'b mut [u8; MAX_COMPARED]) -> &'b [u8] {
    // No name in the lists is this long, but a prefix of it decides.
    let len = name.len().min(buffer.len());
    for (to, from) in buffer.iter_mut().zip(name.bytes()) {
        *to = if from.is_ascii_alphanumeric() {
            from
        } else {
            b'-'
        };
    }
    &buffer[..len]
}

/// Bytes of a name that are compared.
const MAX_COMPARED: usize = 64;

/// The identity that a proxy with auth requests passes on.
const AUTH_REQUEST: &[u8] = b"x-auth-request-";

/// Every name that begins so is ours.
const FAMILIES: [&[u8]; 5] = [
    b"x-forwarded-",
    AUTH_REQUEST,
    b"x-ludgate-",
    b"x-arvados-authorization",
    b"x-arvados-container-",
];

/// Names that are ours as a whole. The two framing fields themselves never get here: only their
/// misspellings do.
const EXACT: [&[u8]; 9] = [
    b"forwarded",
    b"x-forwarded",
    b"x-real-ip",
    b"x-request-id",
    b"true-client-ip",
    b"cf-connecting-ip",
    b"x-cluster-client-ip",
    b"content-length",
    b"transfer-encoding",
];

/// Names by which frameworks let a field replace the path or the method of the request line.
const OVERRIDES: [&[u8]; 5] = [
    b"x-original-url",
    b"x-rewrite-url",
    b"x-http-method-override",
    b"x-http-method",
    b"x-method-override",
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
            let family = std::str::from_utf8(family).expect("ASCII");
            [
                family.to_owned(),
                format!("{family}user"),
                format!("{family}anything-else"),
            ]
        });
        let exact = EXACT
            .iter()
            .map(|name| std::str::from_utf8(name).expect("ASCII").to_owned());
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
            let name = std::str::from_utf8(name).expect("ASCII");
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
        for ours in ["x-auth-request-user", "x-auth-request-preferred-username"] {
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
