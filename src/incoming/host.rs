//! The Host header: one authority, byte-wise ASCII, ours or refused (docs/behaviour.md#hosts).
//!
//! No IDNA: a name that only becomes ours after decoding is not ours.

use http::{header, request::Parts};

use super::malformed::Malformed;
use crate::model::{
    header_values::single,
    site::{Site, WebOrigin},
    vhost::{self, HostLabel, VirtualHost},
};

/// Checks the Host header and the authority of an absolute-form target, and says which of our
/// origins the request arrived at.
pub fn check(parts: &Parts, site: &Site) -> Result<VirtualHost, Malformed> {
    let host = single(&parts.headers, &header::HOST).ok_or(Malformed::Host)?;
    let host = host.as_bytes();
    let verdict = vhost(host, site);
    match parts.uri.authority() {
        // Absolute form (RFC 9112 section 3.2.2): allowed only where both say the same.
        Some(named) if !named.as_str().as_bytes().eq_ignore_ascii_case(host) => {
            verdict.and(Err(Malformed::HostMismatch))
        }
        Some(_) if parts.uri.scheme_str().is_none() => Err(Malformed::Target),
        Some(_) | None => verdict,
    }
}

/// Which of our origins an authority names.
///
/// # Errors
/// [`Malformed::Host`] for a malformed authority, or for a host of ours at another port;
/// [`Malformed::UnknownHost`] for any other host.
pub fn vhost(host: &[u8], site: &Site) -> Result<VirtualHost, Malformed> {
    let origin = &site.origin;
    // As browsers write it; everything else is taken apart first.
    if host == origin.authority.as_bytes() {
        return Ok(VirtualHost::Site);
    }
    let authority = Authority::read(host).ok_or(Malformed::Host)?;
    let port = authority.port.unwrap_or(origin.default_port());
    let at_our_port = |vhost| {
        if port == origin.port {
            Ok(vhost)
        } else {
            Err(Malformed::Host)
        }
    };
    if authority.name.eq_ignore_ascii_case(origin.host.as_bytes()) {
        return at_our_port(VirtualHost::Site);
    }
    if let Some(range) = &site.ports
        && authority.name.eq_ignore_ascii_case(range.host.as_bytes())
    {
        let inside = (range.first..=range.last).contains(&port);
        return if inside {
            Ok(VirtualHost::Port(port))
        } else {
            Err(Malformed::Host)
        };
    }
    let label = site
        .apps_domain
        .as_ref()
        .and_then(|domain| authority.label_below(domain));
    match label {
        Some(label) => at_our_port(VirtualHost::Host(
            HostLabel::new(label).ok_or(Malformed::Host)?,
        )),
        None => Err(Malformed::UnknownHost),
    }
}

/// Whether a request for the site's alias asks to be sent on (only `demo` has an alias).
pub fn is_alias(parts: &Parts, site: &Site) -> bool {
    let host = parts
        .headers
        .get(header::HOST)
        .map(|value| value.as_bytes());
    match (&site.alias, host) {
        (Some(alias), Some(host)) => is_origin(host, alias),
        (None, _) | (_, None) => false,
    }
}

fn is_origin(host: &[u8], origin: &WebOrigin) -> bool {
    Authority::read(host).is_some_and(|authority| {
        authority.name.eq_ignore_ascii_case(origin.host.as_bytes())
            && authority.port.unwrap_or(origin.default_port()) == origin.port
    })
}

/// The authority without its port; the brackets of an IPv6 address stay.
pub fn without_port(authority: &[u8]) -> &[u8] {
    split_port(authority).0
}

/// The name and the text of the port, empty where there is none.
fn split_port(authority: &[u8]) -> (&[u8], &[u8]) {
    match authority.iter().rposition(|b| *b == b':') {
        Some(colon) if !authority.ends_with(b"]") => (&authority[..colon], &authority[colon + 1..]),
        Some(_) | None => (authority, &b""[..]),
    }
}

/// A well-formed `host[:port]`.
struct Authority<'h> {
    /// A name, an IPv4 address, or an IPv6 address in brackets.
    name: &'h [u8],
    /// `None` when empty or absent, which both mean the scheme's default (RFC 3986 section 6.2.3).
    port: Option<u16>,
}

impl<'h> Authority<'h> {
    fn read(host: &'h [u8]) -> Option<Authority<'h>> {
        let (name, port) = split_port(host);
        let port = if port.is_empty() {
            None
        } else {
            Some(vhost::parse_port(port)?)
        };
        is_name(name).then_some(Authority { name, port })
    }

    /// The one label before `.<domain>`.
    fn label_below(&self, domain: &str) -> Option<&'h [u8]> {
        let at = self.name.len().checked_sub(domain.len())?;
        let (before, end) = self.name.split_at(at);
        let label = before
            .strip_suffix(b".")
            .filter(|_| end.eq_ignore_ascii_case(domain.as_bytes()))?;
        (!label.contains(&b'.')).then_some(label)
    }
}

fn is_name(name: &[u8]) -> bool {
    match name {
        [b'[', inside @ .., b']'] => inside
            .iter()
            .all(|b| b.is_ascii_hexdigit() || matches!(b, b':' | b'.')),
        _ => {
            name.len() <= 253
                && !name.ends_with(b".")
                && name.split(|b| *b == b'.').all(|label| {
                    matches!(label.len(), 1..=63)
                        && label
                            .iter()
                            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'))
                })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{cookie_names::CookieNames, site::PortRange};

    fn site() -> Site {
        let mut site = Site::with_default_paths(
            WebOrigin::new(true, "gw.test", 443),
            CookieNames::new(true, "c", &[]),
        );
        site.apps_domain = Some("svc.test".into());
        site.ports = Some(PortRange {
            host: "ports.test".into(),
            first: 2000,
            last: 2009,
        });
        site
    }

    #[test]
    fn a_host_is_ours_only_byte_for_byte() {
        let site = site();
        for ours in ["gw.test", "GW.TEST", "gw.test:443", "gw.test:"] {
            assert_eq!(
                vhost(ours.as_bytes(), &site),
                Ok(VirtualHost::Site),
                "{ours:?}"
            );
        }
        for (other, why) in [
            ("gw.test.", Malformed::Host),
            ("xgw.test", Malformed::UnknownHost),
            ("gw.test.evil", Malformed::UnknownHost),
            ("gw.test:80", Malformed::Host),
            ("gw.test:0443", Malformed::Host),
            ("gw.test:x", Malformed::Host),
            ("", Malformed::Host),
            ("u@gw.test", Malformed::Host),
            ("svc.test", Malformed::UnknownHost),
            ("a.b.svc.test", Malformed::UnknownHost),
            ("xsvc.test", Malformed::UnknownHost),
            (".svc.test", Malformed::Host),
            ("a_b.svc.test", Malformed::Host),
            ("-a.svc.test", Malformed::Host),
            ("web.svc.test.", Malformed::Host),
            ("web.svc.test:444", Malformed::Host),
            ("web.xn--svc-.test", Malformed::UnknownHost),
            ("ports.test", Malformed::Host),
            ("ports.test:1999", Malformed::Host),
            ("ports.test:2010", Malformed::Host),
            ("ports.test:02000", Malformed::Host),
        ] {
            assert_eq!(vhost(other.as_bytes(), &site), Err(why), "{other:?}");
        }
        for (host, label) in [("web.svc.test", "web"), ("WEB-80.Svc.Test:443", "web-80")] {
            let label = HostLabel::new(label.as_bytes()).expect("a label");
            assert_eq!(
                vhost(host.as_bytes(), &site),
                Ok(VirtualHost::Host(label)),
                "{host:?}"
            );
        }
        assert_eq!(
            vhost(b"Ports.test:2009", &site),
            Ok(VirtualHost::Port(2009))
        );
    }

    #[test]
    fn what_is_no_authority_is_bad_rather_than_unknown() {
        for bad in [
            "", "a, b", "x@b:80", "a/b", "a\u{ff}", "a..b", "a.", "[::1", "a:99999", "a:080",
            "a b", "-:80x",
        ] {
            assert!(Authority::read(bad.as_bytes()).is_none(), "{bad:?}");
        }
        for fine in [
            "evil.test",
            "evil.test:8080",
            "[::1]",
            "[::1]:80",
            "127.0.0.1",
            "xn--gw-.test",
        ] {
            assert!(Authority::read(fine.as_bytes()).is_some(), "{fine:?}");
        }
    }
}
