//! Requests that pages of an app send to addresses outside of its mount, usually because the app
//! does not know its mount. At most one a minute is reported to operators.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use super::report_limit::ReportLimit;

/// The reports of stray requests of one app. They survive changes of the app while it is published.
#[derive(Clone, Debug, Default)]
pub struct StrayRequests(Arc<Mutex<ReportLimit>>);

impl StrayRequests {
    /// Records a stray request. Returns whether it is to be reported.
    pub fn record(&self, now: Instant) -> bool {
        let mut reports = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        reports.acquire(now)
    }
}
