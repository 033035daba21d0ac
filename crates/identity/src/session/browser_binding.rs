//! The bind cookie: ties what a browser brings back to the browser that was sent away. One per
//! origin, shared by all tabs; what travels in addresses is its hash.

use aws_lc_rs::{constant_time, digest};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};

use super::cookie::{NewId, NoRandomness};

/// Of the cookie's 256 bits, and of a SHA-256, in base64url.
const LENGTH: usize = 43;

/// A new cookie's value.
///
/// # Errors
/// When the system has no random bytes.
pub fn new_bind() -> Result<String, NoRandomness> {
    NewId::random().map(|id| id.as_str().to_owned())
}

/// Whether it looks like one that [`new_bind`] made.
pub fn is_bind(value: &[u8]) -> bool {
    value.len() == LENGTH
        && value
            .iter()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'))
}

/// The hash of a bind cookie, as it travels in addresses.
#[derive(Clone, Debug)]
pub struct BindHash(Box<str>);

impl BindHash {
    /// Of a cookie's value.
    pub fn from_cookie(cookie: &[u8]) -> BindHash {
        BindHash(
            URL_SAFE_NO_PAD
                .encode(digest::digest(&digest::SHA256, cookie))
                .into(),
        )
    }

    /// As it was presented; `None` when no hash looks like it.
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
