//! The bind cookie: binds a callback or a ticket to the browser that started the sign-in. One per
//! origin, shared by all tabs; URLs carry only its hash.

use aws_lc_rs::{constant_time, digest};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};

use super::cookie::{NewId, NoRandomness};

/// Length of 256 bits in base64url: of the cookie, and of its SHA-256.
const LENGTH: usize = 43;

/// A new cookie's value.
///
/// # Errors
/// When the system has no random bytes.
pub fn new_bind() -> Result<String, NoRandomness> {
    NewId::random().map(|id| id.as_str().to_owned())
}

/// Whether the value has the form of a bind cookie.
pub fn is_bind(value: &[u8]) -> bool {
    value.len() == LENGTH
        && value
            .iter()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'))
}

/// The hash of a bind cookie, as URLs carry it.
#[derive(Clone, Debug)]
pub struct BindHash(Box<str>);

impl BindHash {
    /// The hash of a cookie's value.
    pub fn from_cookie(cookie: &[u8]) -> BindHash {
        BindHash(
            URL_SAFE_NO_PAD
                .encode(digest::digest(&digest::SHA256, cookie))
                .into(),
        )
    }

    /// Parses a presented hash; `None` when it is malformed.
    pub fn parse(text: &str) -> Option<BindHash> {
        is_bind(text.as_bytes()).then(|| BindHash(text.into()))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it is the hash of this cookie; in constant time.
    pub fn matches(&self, cookie: &[u8]) -> bool {
        let other = BindHash::from_cookie(cookie);
        constant_time::verify_slices_are_equal(other.0.as_bytes(), self.0.as_bytes()).is_ok()
    }
}
