//! Our cookies: random ids, the keys of their records, and `Set-Cookie` values.
//!
//! HttpOnly, SameSite=Lax, no Domain, no Max-Age except in `remember`, since the server enforces
//! the deadlines. Secure when the site is https.

use std::time::Duration;

use aws_lc_rs::{digest, rand};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use cookie::{Cookie, SameSite};
use http::HeaderValue;
use zeroize::Zeroizing;

/// 256 bits in base64url.
const ID_LENGTH: usize = 43;

/// The key of a record: the SHA-256 of its id, so that neither memory nor logs hold an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RecordKey(pub [u8; 32]);

/// A fresh id, on its way to a browser; the store keeps only its [`RecordKey`].
pub struct NewId {
    text: Zeroizing<String>,
    key: RecordKey,
}

impl NewId {
    /// 256 bits from the system's generator.
    ///
    /// # Errors
    /// When the system has no random bytes; then no session is started.
    pub fn random() -> Result<NewId, NoRandomness> {
        let mut bytes = Zeroizing::new([0; 32]);
        rand::fill(&mut *bytes).map_err(|_| NoRandomness)?;
        let text = Zeroizing::new(URL_SAFE_NO_PAD.encode(bytes.as_slice()));
        let key = RecordKey::hash(text.as_bytes());
        Ok(NewId { text, key })
    }

    /// The key of its record.
    pub fn key(&self) -> RecordKey {
        self.key
    }

    /// The text for the cookie.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

/// The system has no random bytes.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the system gave no random bytes")]
pub struct NoRandomness;

impl RecordKey {
    /// The key of a presented id; `None` when the value does not have the form of an id.
    pub fn parse(presented: &[u8]) -> Option<RecordKey> {
        let plausible = presented.len() == ID_LENGTH
            && presented
                .iter()
                .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'));
        plausible.then(|| RecordKey::hash(presented))
    }

    /// The key of the sign-in of another system's token. The hashed text is no id, so no cookie
    /// leads to it.
    pub fn from_token(token: &str) -> RecordKey {
        RecordKey::hash(format!("token {token}").as_bytes())
    }

    /// The key of a name that must not be readable in Redis.
    pub fn from_name(name: &str) -> RecordKey {
        RecordKey::hash(format!("name {name}").as_bytes())
    }

    /// In hex.
    pub fn hex(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Reads what [`RecordKey::hex`] wrote.
    pub fn from_hex(text: &str) -> Option<RecordKey> {
        let mut key = [0; 32];
        if text.len() != 64
            || !text
                .bytes()
                .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
        {
            return None;
        }
        for (at, byte) in key.iter_mut().enumerate() {
            *byte = u8::from_str_radix(text.get(2 * at..2 * at + 2)?, 16).ok()?;
        }
        Some(RecordKey(key))
    }

    /// The SHA-256 of a secret text.
    pub(crate) fn hash(text: &[u8]) -> RecordKey {
        let mut key = [0; 32];
        key.copy_from_slice(digest::digest(&digest::SHA256, text).as_ref());
        RecordKey(key)
    }

    /// A number that differs between keys, to spread events that would otherwise coincide.
    pub fn jitter(&self) -> u8 {
        self.0[31]
    }

    /// The first 8 hex digits, for logs.
    pub fn short(&self) -> String {
        self.0[..4]
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect()
    }
}

/// A `Set-Cookie` value that gives the browser an id.
pub fn set(name: &str, value: &str, path: &str, secure: bool) -> Option<HeaderValue> {
    let cookie = build(name, value, path, secure).build();
    HeaderValue::from_str(&cookie.to_string()).ok()
}

/// A `Set-Cookie` value for a persistent cookie; never for a session.
pub fn remember(name: &str, value: &str, age: Duration, secure: bool) -> Option<HeaderValue> {
    let seconds = i64::try_from(age.as_secs()).ok()?;
    let cookie = build(name, value, "/", secure)
        .max_age(cookie::time::Duration::seconds(seconds))
        .build();
    HeaderValue::from_str(&cookie.to_string()).ok()
}

/// A `Set-Cookie` value that removes a cookie; the attributes must be those it was set with.
pub fn clear(name: &str, path: &str, secure: bool) -> Option<HeaderValue> {
    let mut cookie = build(name, "", path, secure).build();
    cookie.make_removal();
    HeaderValue::from_str(&cookie.to_string()).ok()
}

fn build<'c>(
    name: &'c str,
    value: &'c str,
    path: &'c str,
    secure: bool,
) -> cookie::CookieBuilder<'c> {
    let cookie = Cookie::build((name, value))
        .path(path)
        .http_only(true)
        .same_site(SameSite::Lax);
    // `secure(false)` would render the same line, so `secure` is called only when it is true.
    if secure { cookie.secure(true) } else { cookie }
}
