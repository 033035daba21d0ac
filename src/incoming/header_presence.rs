//! Which of the fields that matter to parsing a head has. Most heads have few of them, so one pass
//! over the present names is cheaper than a look-up of each.

use http::HeaderMap;

/// The fields that are there, once or more often.
#[derive(Clone, Copy, Debug, Default)]
pub struct HeaderPresence {
    /// `Authorization`.
    pub authorization: bool,
    /// `Via`.
    pub via: bool,
    /// `Expect`, `Transfer-Encoding` or `Content-Length`.
    pub framing: bool,
    /// `Origin`.
    pub origin: bool,
    /// `Upgrade`.
    pub upgrade: bool,
    /// `Content-Type`.
    pub content_type: bool,
    /// One of `Sec-Fetch-…`.
    pub fetch: bool,
}

impl HeaderPresence {
    /// Of a head.
    pub fn from_headers(headers: &HeaderMap) -> HeaderPresence {
        let mut names = HeaderPresence::default();
        for name in headers.keys() {
            match name.as_str() {
                "authorization" => names.authorization = true,
                "via" => names.via = true,
                "expect" | "transfer-encoding" | "content-length" => names.framing = true,
                "origin" => names.origin = true,
                "upgrade" => names.upgrade = true,
                "content-type" => names.content_type = true,
                other => names.fetch |= other.starts_with("sec-fetch-"),
            }
        }
        names
    }
}
