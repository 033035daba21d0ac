//! `[admin]`, `[log]` and `[metrics]`, which every process has.

use std::path::Path;

use super::{resolve_listen::address, section::ConfigSection, values::secret_file};
use crate::ops::{self, logging, metrics::AppLabels};

/// The admin listener. `None` only together with an error.
pub(super) fn admin(
    section: &ConfigSection<'_>,
    folder: &Path,
) -> Option<ops::admin::AdminSettings> {
    let address = address(section, "127.0.0.1:9090");
    let token = secret_file(section, "token_file", folder);
    Some(ops::admin::AdminSettings {
        address: address?,
        token,
    })
}

/// Whether metrics name apps.
pub(super) fn app_labels(section: &ConfigSection<'_>) -> AppLabels {
    match section.switch("per_app") {
        Some(true) => AppLabels::On,
        Some(false) | None => AppLabels::Off,
    }
}

/// The log.
pub(super) fn log(section: &ConfigSection<'_>) -> logging::LogSettings {
    let level = section.text("level").unwrap_or_else(|| "info".to_owned());
    if !logging::is_level(&level) {
        section.wrong(
            "level",
            format!("{level:?} is no level"),
            Some("level = \"info\"".to_owned()),
        );
    }
    logging::LogSettings {
        requests: section.switch("requests").unwrap_or(true),
        level,
    }
}
