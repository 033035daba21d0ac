//! Uses of apps that do not run. The controller starts an idle app for them.

use super::Handler;
use crate::decide::Decision;

impl Handler {
    /// Records the use of an app that starts or is idle, if the request was permitted. The caller
    /// of an open app is anonymous: those wake it at a limited rate only.
    pub(super) fn record_use(&self, decision: &Decision) {
        let Some(app) = decision.awaited_app() else {
            return;
        };
        let now = self.gateway.clock.now();
        if !app.is_open() {
            app.activity.record(now);
        } else if let Some(interval) = self.gateway.anonymous_use_interval {
            app.activity.record_anonymous(now, interval);
        }
    }
}
