//! The Host header: one authority, byte-wise ASCII, ours or refused (behaviour row 6).
//!
//! No IDNA: a name that only becomes ours after decoding is not ours.

use http::{header, request::Parts};

use super::Malformed;
use crate::model::site::{Site, WebOrigin};

/// Checks the Host header and the authority of an absolute-form target against the site.
pub fn check(parts: &Parts, site: &Site) -> Result<(), Malformed> {
    let mut hosts = parts.headers.get_all(header::HOST).iter();
    let (Some(host), None) = (hosts.next(), hosts.next()) else { return Err(Malformed::Host) };
    let host = host.as_bytes();
    let ours = matches_origin(host, &site.origin);
    let verdict = match ours {
        Match::Ours => Ok(()),
        Match::OtherPort => Err(Malformed::Host),
        Match::Other if !is_authority(host) => Err(Malformed::Host),
        Match::Other => Err(Malformed::UnknownHost),
    };
    match parts.uri.authority() {
        // Absolute form (RFC 9112 section 3.2.2): allowed only where both say the same.
        Some(named) if !named.as_str().as_bytes().eq_ignore_ascii_case(host) => {
            verdict.and(Err(Malformed::HostMismatch))
        }
        Some(_) if parts.uri.scheme_str().is_none() => Err(Malformed::Target),
        Some(_) | None => verdict,
    }
}

/// Whether a request for the site's alias asks to be sent on (only `demo` has an alias).
pub fn is_alias(parts: &Parts, site: &Site) -> bool {
    let host = parts.headers.get(header::HOST).map(|value| value.as_bytes());
    match (&site.alias, host) {
        (Some(alias), Some(host)) => matches!(matches_origin(host, alias), Match::Ours),
        (None, _) | (_, None) => false,
    }
}

enum Match {
    Ours,
    OtherPort,
    Other,
}

fn matches_origin(host: &[u8], origin: &WebOrigin) -> Match {
    if host.eq_ignore_ascii_case(origin.authority.as_bytes()) {
        return Match::Ours;
    }
    let ours = origin.host.as_bytes();
    let (name, rest) = host.split_at(host.len().min(ours.len()));
    if !name.eq_ignore_ascii_case(ours) {
        return Match::Other;
    }
    let default = if origin.secure { 443 } else { 80 };
    match rest {
        // Empty means the default port, as does a colon with nothing behind it (RFC 3986 section 6.2.3).
        [] | [b':'] if origin.port == default => Match::Ours,
        [] | [b':'] => Match::OtherPort,
        [b':', digits @ ..] if digits.iter().all(u8::is_ascii_digit) => {
            if canonical_port(digits) == Some(origin.port) { Match::Ours } else { Match::OtherPort }
        }
        _ => Match::Other,
    }
}

fn canonical_port(digits: &[u8]) -> Option<u16> {
    if digits.first() == Some(&b'0') {
        return None;
    }
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// Whether the bytes could be somebody's `host[:port]`: then the answer is 421, otherwise 400.
fn is_authority(host: &[u8]) -> bool {
    let (name, port) = match host.iter().rposition(|b| *b == b':') {
        Some(colon) if !host.ends_with(b"]") => (&host[..colon], Some(&host[colon + 1..])),
        Some(_) | None => (host, None),
    };
    let port_ok = port
        .is_none_or(|digits| digits.is_empty() || (digits.len() <= 5 && canonical_port(digits).is_some()));
    let name_ok = match name {
        [b'[', inside @ .., b']'] => inside.iter().all(|b| b.is_ascii_hexdigit() || matches!(b, b':' | b'.')),
        _ => {
            name.len() <= 253
                && !name.ends_with(b".")
                && name.split(|b| *b == b'.').all(|label| {
                    matches!(label.len(), 1..=63)
                        && label.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'))
                })
        }
    };
    port_ok && name_ok
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_ours_only_byte_for_byte() {
        let site = WebOrigin::new(true, "gw.test", 443);
        for ours in ["gw.test", "GW.TEST", "gw.test:443", "gw.test:"] {
            assert!(matches!(matches_origin(ours.as_bytes(), &site), Match::Ours), "{ours:?}");
        }
        for other in [
            "gw.test.",
            "xgw.test",
            "gw.test.evil",
            "gw.test:80",
            "gw.test:0443",
            "gw.test:x",
            "",
            "u@gw.test",
        ] {
            assert!(!matches!(matches_origin(other.as_bytes(), &site), Match::Ours), "{other:?}");
        }
    }

    #[test]
    fn what_is_no_authority_is_bad_rather_than_unknown() {
        for bad in
            ["", "a, b", "x@b:80", "a/b", "a\u{ff}", "a..b", "a.", "[::1", "a:99999", "a:080", "a b", "-:80x"]
        {
            assert!(!is_authority(bad.as_bytes()), "{bad:?}");
        }
        for fine in ["evil.test", "evil.test:8080", "[::1]", "[::1]:80", "127.0.0.1", "xn--gw-.test"] {
            assert!(is_authority(fine.as_bytes()), "{fine:?}");
        }
    }
}
