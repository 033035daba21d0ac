//! The provider's access token of a sign-in, for apps that may act for the person
//! (`pass_access_token`).

use std::time::Duration;

use http::HeaderValue;
use serde::{Deserialize, Serialize};

use crate::model::secret::Secret;

/// Longest token that is kept, in bytes. Few servers accept longer headers.
const MAX_LENGTH: usize = 16 * 1024;
/// A token is renewed this many seconds before it expires, so that the app has time to use it. A
/// token with a short lifetime is renewed after three quarters of it.
const RENEWED_BEFORE: i64 = 60;

/// An access token. Times are in seconds since 1970.
#[derive(Debug)]
pub struct KeptAccessToken {
    token: Secret,
    received_at: i64,
    /// `None`: not known, so only identity checks replace the token.
    expires_at: Option<i64>,
}

/// Whether a sign-in has an access token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessTokenState {
    /// It has one that is valid for a while.
    Fresh,
    /// It has a valid one that expires soon.
    ExpiresSoon,
    /// It has none that is valid.
    Missing,
}

/// The serialized form of an access token.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct StoredAccessToken {
    token: String,
    received_at: i64,
    expires_at: Option<i64>,
}

impl KeptAccessToken {
    /// A token that was received now. `None` if it cannot be sent to an app.
    pub(crate) fn new(
        token: Secret,
        lifetime: Option<Duration>,
        received_at: i64,
    ) -> Option<KeptAccessToken> {
        let seconds = |lifetime: Duration| i64::try_from(lifetime.as_secs()).unwrap_or(i64::MAX);
        let expires_at = lifetime.map(|lifetime| received_at.saturating_add(seconds(lifetime)));
        let kept = KeptAccessToken {
            token,
            received_at,
            expires_at,
        };
        kept.is_sendable().then_some(kept)
    }

    fn is_sendable(&self) -> bool {
        let token = self.token.expose();
        (1..=MAX_LENGTH).contains(&token.len()) && token.bytes().all(|byte| byte.is_ascii_graphic())
    }

    /// Whether it is valid at a time, and for how long still.
    pub(super) fn state(&self, now: i64) -> AccessTokenState {
        let Some(expires_at) = self.expires_at else {
            return AccessTokenState::Fresh;
        };
        let quarter = expires_at.saturating_sub(self.received_at) / 4;
        let renewed_at = expires_at.saturating_sub(quarter.min(RENEWED_BEFORE));
        if now >= expires_at {
            AccessTokenState::Missing
        } else if now >= renewed_at {
            AccessTokenState::ExpiresSoon
        } else {
            AccessTokenState::Fresh
        }
    }

    /// The token as the value of a header.
    pub fn header_value(&self) -> Option<HeaderValue> {
        let mut value = HeaderValue::from_str(self.token.expose()).ok()?;
        value.set_sensitive(true);
        Some(value)
    }

    /// Its size in bytes.
    pub(super) fn size(&self) -> usize {
        self.token.expose().len()
    }

    /// Its serialized form, which the writer seals.
    pub(super) fn to_stored(&self) -> StoredAccessToken {
        StoredAccessToken {
            token: self.token.expose().to_owned(),
            received_at: self.received_at,
            expires_at: self.expires_at,
        }
    }
}

impl StoredAccessToken {
    /// The token. `None` if it cannot be sent to an app.
    pub(super) fn into_kept(self) -> Option<KeptAccessToken> {
        let kept = KeptAccessToken {
            token: Secret::new(self.token),
            received_at: self.received_at,
            expires_at: self.expires_at,
        };
        kept.is_sendable().then_some(kept)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(text: &str, lifetime: Option<u64>) -> Option<KeptAccessToken> {
        KeptAccessToken::new(Secret::new(text), lifetime.map(Duration::from_secs), 1000)
    }

    #[test]
    fn a_token_is_renewed_before_it_expires() {
        use AccessTokenState::{ExpiresSoon, Fresh, Missing};
        for (lifetime, states) in [
            (
                Some(600),
                &[(1000, Fresh), (1539, Fresh), (1540, ExpiresSoon)][..],
            ),
            (Some(600), &[(1599, ExpiresSoon), (1600, Missing)]),
            (
                Some(40),
                &[(1029, Fresh), (1030, ExpiresSoon), (1040, Missing)],
            ),
            (Some(1), &[(1000, Fresh), (1001, Missing)]),
            (Some(0), &[(1000, Missing)]),
            (
                Some(u64::MAX),
                &[(1000, Fresh), (i64::MAX - 1, ExpiresSoon)],
            ),
            (None, &[(1000, Fresh), (i64::MAX, Fresh)]),
        ] {
            let token = token("a.b.c", lifetime).expect("a token");
            for (now, expected) in states {
                assert_eq!(token.state(*now), *expected, "{lifetime:?} {now}");
            }
        }
    }

    #[test]
    fn a_token_that_no_header_can_hold_is_not_kept() {
        let long = "x".repeat(MAX_LENGTH + 1);
        for text in ["", "a b", "a\r\nX-Admin: 1", "\u{fc}", &long] {
            assert!(token(text, None).is_none(), "{text:?}");
        }
        let value = token("a.b-c_d~e+f/g=", None).and_then(|token| token.header_value());
        let value = value.expect("a value");
        assert!(value == "a.b-c_d~e+f/g=" && value.is_sensitive());
    }

    #[test]
    fn a_token_is_the_same_after_it_was_stored_and_is_never_shown() {
        for lifetime in [None, Some(600)] {
            let token = token("CANARY", lifetime).expect("a token");
            assert!(!format!("{token:?}").contains("CANARY"));
            let stored = serde_json::to_string(&token.to_stored()).expect("JSON");
            let read: StoredAccessToken = serde_json::from_str(&stored).expect("the same");
            let read = read.into_kept().expect("a token");
            assert_eq!(read.token.expose(), "CANARY");
            assert_eq!(
                (read.received_at, read.expires_at),
                (token.received_at, token.expires_at)
            );
        }
        let stored = StoredAccessToken {
            token: "a\nb".to_owned(),
            received_at: 0,
            expires_at: None,
        };
        assert!(stored.into_kept().is_none());
    }
}
