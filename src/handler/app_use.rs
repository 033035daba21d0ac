//! Uses of apps that do not run. The controller starts an idle app for them.

use super::Handler;
use crate::{decide::Decision, model::caller::Caller};

impl Handler {
    /// Records the use of an app that starts or is idle, if the request was permitted. Anonymous
    /// callers, who may use open apps and open paths, wake it at a limited rate only.
    pub(super) fn record_use(&self, decision: &Decision, caller: &Caller) {
        let Some(app) = decision.awaited_app() else {
            return;
        };
        let now = self.gateway.clock.now();
        if caller.principal().is_some() {
            app.activity.record(now);
        } else if let Some(interval) = self.gateway.anonymous_use_interval {
            app.activity.record_anonymous(now, interval);
        }
    }
}
