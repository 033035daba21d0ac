//! A sign-in while the browser is at the provider. Its state is sealed into `state`; the server
//! stores nothing.
//!
//! One bind cookie per browser is shared by all tabs; each tab's state carries its own nonce,
//! verifier and target. Replay is stopped by the provider's one-time code and by a bounded set of
//! used states.

use aws_lc_rs::digest;
use moka::{policy::EvictionPolicy, sync::Cache};
use serde::{Deserialize, Serialize};

use crate::{
    model::authentication::{
        AuthenticationEvent, AuthenticationRequirement, InsufficientAuthentication,
    },
    session::{
        browser_binding::BindHash,
        keys::{KeyRing, Purpose},
    },
};

/// A sign-in may take this long, in seconds.
pub const MAX_AGE: i64 = 600;
/// Longest return target, in bytes; a longer one is replaced by `/`.
pub const MAX_RETURN: usize = 2048;
/// Used states that are remembered. A state expires after ten minutes anyway.
const MAX_USED: u64 = 100_000;

/// The content of `state`.
#[derive(Debug, Deserialize, Serialize)]
pub struct PendingSignIn {
    /// The nonce the ID token must repeat.
    #[serde(rename = "n")]
    pub nonce: String,
    /// The PKCE verifier.
    #[serde(rename = "v")]
    pub verifier: String,
    /// The return target: a path on the site, or an absolute URL at another origin of ours.
    #[serde(rename = "r")]
    pub return_to: String,
    /// The issuer that the browser was sent to (mix-up defence).
    #[serde(rename = "i")]
    pub issuer: String,
    /// The id of the further provider that it is; `None`: the default one.
    #[serde(rename = "p", default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// When the sign-in began, in seconds since 1970.
    #[serde(rename = "t")]
    pub issued: i64,
    /// Hash of the bind cookie.
    #[serde(rename = "b")]
    pub bind: String,
    /// Hash of the bind cookie at the other origin, if the person gets a ticket for it.
    #[serde(rename = "h", default, skip_serializing_if = "Option::is_none")]
    pub hand_over: Option<String>,
    /// The parameter `max_age` that was sent, in seconds.
    #[serde(rename = "m", default, skip_serializing_if = "Option::is_none")]
    pub max_age: Option<String>,
    /// The parameter `acr_values` that was sent.
    #[serde(rename = "a", default, skip_serializing_if = "Option::is_none")]
    pub acr_values: Option<String>,
}

/// Why a callback's state is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StateError {
    /// Not sealed by us, or sealed with a key that was removed.
    #[error("the sign-in was not started here, or too long ago")]
    NotOurs,
    /// Older than ten minutes.
    #[error("the sign-in took longer than ten minutes")]
    Expired,
    /// Started in another browser.
    #[error("the sign-in was started in another browser")]
    OtherBrowser,
    /// Already completed once.
    #[error("this sign-in was completed already")]
    Used,
}

impl PendingSignIn {
    /// Seals it for the browser.
    pub fn seal(&self, keys: &KeyRing) -> Option<String> {
        let plain = serde_json::to_vec(self).ok()?;
        keys.seal(Purpose::State, &plain).ok()
    }

    /// Opens a presented state. Its age and its browser are checked by [`PendingSignIn::check`].
    pub fn open(state: &str, keys: &KeyRing) -> Result<PendingSignIn, StateError> {
        let plain = keys
            .open(Purpose::State, state)
            .map_err(|_| StateError::NotOurs)?;
        serde_json::from_slice(&plain).map_err(|_| StateError::NotOurs)
    }

    /// Checks that an authentication meets what was required when the sign-in began. Its age then
    /// counts, as it did for the provider: a person with a session there may come back seconds
    /// after the limit. Credentials that were entered since are of no age, however long that took.
    /// `now` is in seconds since 1970.
    ///
    /// # Errors
    /// What the provider did not confirm.
    pub fn check_authentication(
        &self,
        authentication: &AuthenticationEvent,
        now: i64,
    ) -> Result<(), InsufficientAuthentication> {
        let entered = authentication.time.unwrap_or(self.issued);
        let at = entered.min(now).max(self.issued);
        let (max_age, acr_values) = (self.max_age.as_deref(), self.acr_values.as_deref());
        match AuthenticationRequirement::from_parameters(max_age, acr_values) {
            Ok(Some(requirement)) => requirement.check(authentication, at),
            Ok(None) => Ok(()),
            // Never sealed by this version.
            Err(_) => Err(InsufficientAuthentication::OtherContext),
        }
    }

    /// Checks that the state has not expired, was started in this browser, and is unused.
    pub fn check<'c>(
        &self,
        state: &str,
        mut bind_cookies: impl Iterator<Item = &'c [u8]>,
        now: i64,
        used: &UsedStates,
    ) -> Result<(), StateError> {
        if !(-60..=MAX_AGE).contains(&now.saturating_sub(self.issued)) {
            return Err(StateError::Expired);
        }
        let bind = BindHash::parse(&self.bind).ok_or(StateError::NotOurs)?;
        if !bind_cookies.any(|cookie| bind.matches(cookie)) {
            return Err(StateError::OtherBrowser);
        }
        if used.contains(state) {
            Err(StateError::Used)
        } else {
            Ok(())
        }
    }
}

/// States whose code was exchanged.
#[derive(Debug)]
pub struct UsedStates(Cache<[u8; 32], ()>);

impl UsedStates {
    /// An empty set.
    pub fn new() -> UsedStates {
        UsedStates::with_capacity(MAX_USED)
    }

    fn with_capacity(capacity: u64) -> UsedStates {
        // The default policy may reject a new entry when the cache is full.
        UsedStates(
            Cache::builder()
                .max_capacity(capacity)
                .eviction_policy(EvictionPolicy::lru())
                .build(),
        )
    }

    /// Adds a state, after a successful exchange only.
    pub fn remember(&self, state: &str) {
        self.0.insert(key(state), ());
    }

    /// Whether the state was used.
    pub fn contains(&self, state: &str) -> bool {
        self.0.contains_key(&key(state))
    }
}

impl Default for UsedStates {
    fn default() -> Self {
        UsedStates::new()
    }
}

fn key(state: &str) -> [u8; 32] {
    let mut key = [0; 32];
    key.copy_from_slice(digest::digest(&digest::SHA256, state.as_bytes()).as_ref());
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_count_from_when_the_sign_in_began_and_may_take_as_long_as_it() {
        use InsufficientAuthentication::TooOld;
        let pending = PendingSignIn {
            nonce: String::new(),
            verifier: String::new(),
            return_to: "/".into(),
            issuer: String::new(),
            provider: None,
            issued: 1000,
            bind: String::new(),
            hand_over: None,
            max_age: Some("300".into()),
            acr_values: None,
        };
        for (time, now, wanted) in [
            (Some(700), 1500, Ok(())),
            (Some(699), 1000, Err(TooOld)),
            (Some(1000), 1000, Ok(())),
            (Some(1061), 1061, Ok(())),
            (Some(1590), 1600, Ok(())),
            // The provider's clock is ahead.
            (Some(1660), 1600, Ok(())),
            (Some(1661), 1600, Err(TooOld)),
            (Some(i64::MAX), 1600, Err(TooOld)),
            (Some(i64::MIN), 1600, Err(TooOld)),
            // Another replica began the sign-in, and its clock is ahead.
            (Some(990), 990, Ok(())),
            (None, 1000, Err(TooOld)),
        ] {
            let authentication = AuthenticationEvent::new(time, None);
            let checked = pending.check_authentication(&authentication, now);
            assert_eq!(checked, wanted, "{time:?} at {now}");
        }
    }

    #[test]
    fn a_state_that_was_just_used_is_remembered_however_many_there_were() {
        let used = UsedStates::with_capacity(100);
        for old in 0..100 {
            used.remember(&old.to_string());
        }
        used.0.run_pending_tasks();
        // Frequent look-ups, as an attacker could make them, must not keep old entries in place of
        // a new one.
        for _ in 0..100 {
            assert!((0..100).all(|old| used.contains(&old.to_string())));
        }
        for new in 100..200 {
            used.remember(&new.to_string());
            used.0.run_pending_tasks();
            assert!(used.contains(&new.to_string()), "{new}");
        }
    }
}
