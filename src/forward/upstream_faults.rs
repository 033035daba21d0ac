//! Records faults of apps: in the health of the app, as metrics, and in the log when an app begins
//! or ceases to fail.

use std::{error::Error, time::Instant};

use super::{
    fault::{Fault, FaultOrigin},
    metrics::ForwardMetrics,
    tls_cause::TlsCause,
};
use crate::model::app::App;

/// Records the cause of a fault, which the fault itself does not carry. The request may still
/// succeed on another connection.
pub(super) fn note_cause(app: &App, fault: Fault, error: &(dyn Error + 'static)) -> Fault {
    let health = &app.upstream_health;
    if let Fault::Tls(failure) = fault {
        health.record_cause(fault.reason(), &TlsCause { failure, error });
    } else {
        health.record_cause(fault.reason(), error);
    }
    tracing::debug!(app = %app.id(), upstream = %app.spec.upstream_list(), %error, "{fault}");
    fault
}

/// Records that a request got no response.
#[cold]
pub(super) fn record(app: &App, fault: Fault, metrics: &ForwardMetrics) {
    match fault.origin() {
        FaultOrigin::Client => {}
        FaultOrigin::AppLimit => metrics.count_fault(app, fault),
        FaultOrigin::App => {
            metrics.count_fault(app, fault);
            let health = &app.upstream_health;
            let Some(failure) = health.fail(fault.reason(), &fault, Instant::now()) else {
                return;
            };
            tracing::warn!(
                app = %app.id(), upstream = %app.spec.upstream_list(), outcome = failure.outcome,
                error = %failure.cause, "the app fails"
            );
        }
    }
}

/// Records a response. Costs one relaxed load, unless the app failed before.
pub(super) fn record_response(app: &App) {
    if app.upstream_health.is_failing() {
        record_recovery(app);
    }
}

#[cold]
fn record_recovery(app: &App) {
    let Some(recovery) = app.upstream_health.recover(Instant::now()) else {
        return;
    };
    tracing::warn!(
        app = %app.id(), upstream = %app.spec.upstream_list(), outcome = recovery.outcome,
        failed_for_s = recovery.failed_for.as_secs(), "the app answers again"
    );
}
