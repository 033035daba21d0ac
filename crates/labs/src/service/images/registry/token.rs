//! Tokens of a registry: what its token server answers, and how long one is used.

use std::time::Duration;

use http::HeaderValue;
use serde::Deserialize;
use tokio::time::Instant;

use super::error::RegistryError;

/// Lifetime of a token that does not say it.
const DEFAULT_LIFETIME: Duration = Duration::from_secs(60);
/// Longest use of a token.
const MAX_LIFETIME: Duration = Duration::from_secs(3600);
/// A token is not used so shortly before its end.
const MARGIN: Duration = Duration::from_secs(10);

/// A header that the registry accepted, or is to accept.
#[derive(Clone, Debug)]
pub(super) struct Authorization {
    /// The header; its value is not shown.
    pub(super) header: HeaderValue,
    /// Until when it is used; `None`: until it is refused.
    pub(super) until: Option<Instant>,
}

impl Authorization {
    /// Whether it can still be used.
    pub(super) fn is_valid(&self) -> bool {
        self.until.is_none_or(|until| Instant::now() < until)
    }
}

#[derive(Deserialize)]
struct TokenAnswer {
    token: Option<String>,
    access_token: Option<String>,
    expires_in: Option<u64>,
}

/// Reads the answer of a token server.
pub(super) fn parse(answer: &[u8], asked: Instant) -> Result<Authorization, RegistryError> {
    let no_token = |problem: &str| RegistryError::Token(problem.to_owned());
    // The error's own text may quote the token.
    let answer: TokenAnswer = serde_json::from_slice(answer)
        .map_err(|_| no_token("the answer is not the expected JSON"))?;
    let token = answer.token.or(answer.access_token);
    let token = token.filter(|token| !token.is_empty());
    let token = token.ok_or_else(|| no_token("the answer has none"))?;
    let mut header = HeaderValue::try_from(format!("Bearer {token}"))
        .map_err(|_| no_token("it has characters that no header can have"))?;
    header.set_sensitive(true);
    let lifetime = answer
        .expires_in
        .map_or(DEFAULT_LIFETIME, Duration::from_secs);
    let lifetime = lifetime.min(MAX_LIFETIME).saturating_sub(MARGIN);
    Ok(Authorization {
        header,
        until: Some(asked + lifetime),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_used_until_shortly_before_its_end() {
        let asked = Instant::now();
        let seconds = |answer: &str| {
            let authorization = parse(answer.as_bytes(), asked).unwrap();
            assert_eq!(authorization.header, "Bearer abc");
            assert!(!format!("{authorization:?}").contains("abc"));
            (authorization.until.unwrap() - asked).as_secs()
        };
        assert_eq!(seconds(r#"{"token": "abc"}"#), 50);
        assert_eq!(
            seconds(r#"{"access_token": "abc", "expires_in": 300}"#),
            290
        );
        assert_eq!(
            seconds(r#"{"token": "abc", "expires_in": 18446744073709551615}"#),
            3590
        );
        assert_eq!(
            seconds(r#"{"token": "abc", "access_token": "x", "expires_in": 5}"#),
            0
        );
    }

    #[test]
    fn other_answers_have_no_token() {
        for answer in [
            "",
            "[]",
            "{}",
            r#"{"token": ""}"#,
            r#"{"token": "a\nb"}"#,
            "null",
        ] {
            let error = parse(answer.as_bytes(), Instant::now());
            assert!(matches!(error, Err(RegistryError::Token(_))), "{answer}");
        }
    }
}
