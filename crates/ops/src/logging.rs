//! Diagnostics by `tracing`: JSON lines on standard error. The request log has a sink of its own
//! (`line_sink`).

use tracing_subscriber::{EnvFilter, filter::LevelFilter};

/// The level of diagnostics, and whether requests are logged.
#[derive(Clone, Debug)]
pub struct LogSettings {
    /// Log each request as a JSON line on standard output.
    pub requests: bool,
    /// A filter such as `info` or `ludgate=debug`.
    pub level: String,
}

/// Whether a filter is valid. A bare word must be a level: as a target it would silence all others.
pub fn is_level(text: &str) -> bool {
    let is_fine = |part: &str| part.contains('=') || part.trim().parse::<LevelFilter>().is_ok();
    text.split(',').all(is_fine) && EnvFilter::try_new(text).is_ok()
}

/// Installs the subscriber; a second call changes nothing (tests run many gateways in one process).
pub fn start(settings: &LogSettings) {
    let filter = EnvFilter::try_new(&settings.level).unwrap_or_else(|_| EnvFilter::new("info"));
    // Audit events do not depend on the level. The Kubernetes client would log whole responses that
    // it cannot parse, with the environment of every pod; our own code logs the error.
    let own = ["audit=info", "kube_client=off"]
        .into_iter()
        .filter_map(|directive| directive.parse().ok());
    let filter = own.fold(filter, EnvFilter::add_directive);
    let _ = tracing_subscriber::fmt()
        .json()
        .flatten_event(true)
        .with_writer(std::io::stderr)
        .with_env_filter(filter)
        .try_init();
}
