//! The gateway's own credentials at an app (RFC 7617).

use std::fmt;

use base64::{Engine, engine::general_purpose::STANDARD};
use http::HeaderValue;
use zeroize::Zeroizing;

use super::secret::Secret;

/// User and password for one app, as the value of `Authorization`.
///
/// The value is made once. Requests share it, so it is not overwritten on drop.
#[derive(Clone, PartialEq, Eq)]
pub struct BasicCredentials(HeaderValue);

impl BasicCredentials {
    /// Reads `user:password`.
    ///
    /// # Errors
    /// The problem, without any part of the text.
    pub fn parse(text: &Secret) -> Result<BasicCredentials, &'static str> {
        let (user, _) = text
            .expose()
            .split_once(':')
            .ok_or("must be a user and a password with a colon between them")?;
        if user.is_empty() {
            return Err("has no user before the colon");
        }
        if text.expose().contains(char::is_control) {
            return Err("must be one line without control characters");
        }
        let encoded = Zeroizing::new(STANDARD.encode(text.expose()));
        let value = Zeroizing::new(format!("Basic {}", *encoded));
        let mut value = HeaderValue::from_str(&value).map_err(|_| "is no value of a header")?;
        value.set_sensitive(true);
        Ok(BasicCredentials(value))
    }

    /// The value of `Authorization`.
    pub fn authorization(&self) -> &HeaderValue {
        &self.0
    }
}

impl fmt::Debug for BasicCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<BasicCredentials, &'static str> {
        BasicCredentials::parse(&Secret::new(text))
    }

    #[test]
    fn a_user_and_a_password_become_one_value() {
        for (text, value) in [
            ("Aladdin:open sesame", "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="),
            ("test:123\u{a3}", "Basic dGVzdDoxMjPCow=="),
            ("a:b:c", "Basic YTpiOmM="),
            ("a:", "Basic YTo="),
        ] {
            let found = parse(text).map(|it| it.authorization().clone());
            assert_eq!(found, Ok(HeaderValue::from_static(value)), "{text}");
        }
    }

    #[test]
    fn a_text_that_is_no_credential_is_refused_and_none_is_shown() {
        for text in ["", "secret", ":secret", "a:b\nc:d", "a:b\u{7f}"] {
            let error = parse(text).expect_err(text);
            assert!(!error.contains("secret"), "{error}");
        }
        let value = parse("a:secret").expect("valid");
        assert_eq!(format!("{value:?}"), "[redacted]");
        assert!(value.authorization().is_sensitive());
        assert!(value != parse("a:other").expect("valid"));
    }
}
