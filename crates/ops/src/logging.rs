//! Diagnostics through `tracing`: JSON lines on standard error. The request log goes its own way
//! (`lines`).

use tracing_subscriber::{EnvFilter, filter::LevelFilter};

/// How much to say.
#[derive(Clone, Debug)]
pub struct LogSettings {
    /// The JSON line per request on standard output.
    pub requests: bool,
    /// A filter such as `info` or `ludgate=debug`.
    pub level: String,
}

/// Whether the filter can be read. A bare word must be a level: as a target it would silence all
/// others.
pub fn is_level(text: &str) -> bool {
    let is_fine = |part: &str| part.contains('=') || part.trim().parse::<LevelFilter>().is_ok();
    text.split(',').all(is_fine) && EnvFilter::try_new(text).is_ok()
}

/// Installs the subscriber; a second call changes nothing (tests run many gateways in one process).
pub fn start(settings: &LogSettings) {
    let filter = EnvFilter::try_new(&settings.level).unwrap_or_else(|_| EnvFilter::new("info"));
    // Who signed in and out is no matter of verbosity. The client would write down whole answers
    // that it cannot read, with the environment of every pod in them; what is wrong we say
    // ourselves.
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
