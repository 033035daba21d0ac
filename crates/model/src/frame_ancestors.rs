//! The origins whose pages may show an app in a frame.

use http::HeaderValue;

/// Other origins of the site whose pages may show an app in a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrameAncestors {
    /// As browsers write them: scheme, host, and a port that is not the default.
    origins: Box<[Box<str>]>,
    policy: HeaderValue,
}

impl FrameAncestors {
    /// `None` without an origin, and if an origin cannot stand in a header.
    pub fn new(origins: Vec<Box<str>>) -> Option<FrameAncestors> {
        if origins.is_empty() {
            return None;
        }
        let policy = format!("frame-ancestors 'self' {}", origins.join(" "));
        Some(FrameAncestors {
            policy: HeaderValue::try_from(policy).ok()?,
            origins: origins.into(),
        })
    }

    /// The Content-Security-Policy of the app's responses: only pages of the app's own origin and
    /// of these may frame it. Browsers apply it together with the app's own.
    pub fn policy(&self) -> &HeaderValue {
        &self.policy
    }

    /// Whether a `Referer` is the address of a page at one of the origins.
    pub fn contain_referer(&self, referer: &[u8]) -> bool {
        self.origins.iter().any(|origin| {
            let rest = referer.strip_prefix(origin.as_bytes());
            rest.is_some_and(|rest| rest.starts_with(b"/"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_at_an_origin_byte_for_byte() {
        let origins = ["https://hub.test", "https://web.svc.test:8443"];
        let origins = origins.iter().map(|origin| (*origin).into()).collect();
        let ancestors = FrameAncestors::new(origins).expect("two origins");
        assert_eq!(
            ancestors.policy(),
            "frame-ancestors 'self' https://hub.test https://web.svc.test:8443"
        );
        for listed in ["https://hub.test/", "https://web.svc.test:8443/a?b"] {
            assert!(ancestors.contain_referer(listed.as_bytes()), "{listed}");
        }
        for other in [
            "",
            "https://hub.test",
            "http://hub.test/",
            "https://hub.test.evil.test/",
            "https://hub.test:444/",
            "https://hub.test@evil.test/",
            "https://evil.test/https://hub.test/",
            "https://web.svc.test/",
        ] {
            assert!(!ancestors.contain_referer(other.as_bytes()), "{other}");
        }
        assert!(FrameAncestors::new(Vec::new()).is_none());
    }
}
