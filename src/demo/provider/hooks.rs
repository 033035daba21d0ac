//! The state of the test hooks: a change to tokens, and counters of calls.

use std::collections::BTreeMap;

use serde_json::Value;

/// Changes header and claims of an ID token before it is signed.
pub type Mischief = Box<dyn Fn(&mut Value, &mut Value) + Send + Sync>;

/// The state of the hooks.
#[derive(Default)]
pub(super) struct Hooks {
    pub(super) calls: BTreeMap<&'static str, u64>,
    pub(super) mischief: Option<Mischief>,
}

impl Hooks {
    /// Counts a call of an endpoint.
    pub(super) fn count(&mut self, endpoint: &'static str) {
        *self.calls.entry(endpoint).or_default() += 1;
    }
}
