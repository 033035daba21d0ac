//! Idle apps: whether an app is scaled to zero, by the uses that the gateways report.
//!
//! Invariant: missing knowledge never stops an app. A gateway that does not answer makes no app
//! idle, and any gateway that answers can wake one.

mod activity;
pub mod decision;
pub mod gateway_activity;
pub mod poller;
mod report;
pub mod settings;
