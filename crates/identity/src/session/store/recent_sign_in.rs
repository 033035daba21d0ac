//! The age of a sign-in, for apps with an idle time of their own.

use std::time::Duration;

use super::SessionStore;
use crate::{model::clock::millis, session::record::SignIn};

/// Replicas store the end of a sign-in in whole seconds of clocks that may differ a little.
const CLOCK_SKEW: Duration = Duration::from_secs(5);

impl SessionStore {
    /// Whether the person signed in at most this long ago.
    ///
    /// The age follows from the lifetime that is left, since that survives restarts and replicas. A
    /// sign-in with more left than the present `session.lifetime` has an unknown age.
    pub fn is_recent(&self, sign_in: &SignIn, age: Duration) -> bool {
        let left = sign_in.remaining(self.clock.now()).absolute;
        let longest = millis(self.settings.lifetime + CLOCK_SKEW);
        let passed = longest.checked_sub(left);
        passed.is_some_and(|passed| passed <= millis(age + CLOCK_SKEW))
    }
}
