//! The state of the test hooks: changes to tokens and responses, and counters of calls.

use std::collections::BTreeMap;

use serde_json::Value;

/// Changes header and claims of an ID token before it is signed.
pub type Mischief = Box<dyn Fn(&mut Value, &mut Value) + Send + Sync>;

/// The state of the hooks.
#[derive(Default)]
pub(super) struct Hooks {
    pub(super) calls: BTreeMap<&'static str, u64>,
    pub(super) mischief: Option<Mischief>,
    /// Its metadata name its keys, and nothing else.
    pub(super) is_keys_only: bool,
    /// Opaque tokens, and what is said of them.
    pub(super) opaque: BTreeMap<String, Value>,
    /// Only the ID tokens of sign-ins have groups.
    pub(super) has_groups_at_sign_in_only: bool,
}

impl Hooks {
    /// Counts a call of an endpoint.
    pub(super) fn count(&mut self, endpoint: &'static str) {
        *self.calls.entry(endpoint).or_default() += 1;
    }
}
