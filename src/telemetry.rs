//! What operators see: metrics, the request log's sink, diagnostics.

pub mod lines;
pub mod logging;
pub mod metrics;
pub mod optional_gauge;
