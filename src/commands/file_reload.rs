//! Reload of the configuration file of a process beside the gateway: what the process can change
//! takes effect as a whole or not at all.

use std::path::Path;

use crate::{
    ops::{configuration_status::ConfigurationStatus, file_watch::WatchedFile},
    settings::ConfigErrors,
};

/// Watches one configuration file.
pub(super) struct FileReload {
    file: WatchedFile,
    /// The text that was loaded last, valid or not.
    loaded: Option<String>,
}

impl FileReload {
    /// Reads the file that the process is started with.
    pub(super) fn new(config: &Path) -> FileReload {
        let file = WatchedFile::new(config);
        let loaded = file.content().map(str::to_owned);
        FileReload { file, loaded }
    }

    /// Reads the file again if it has changed and is not being written, or if `is_forced`.
    pub(super) fn poll(
        &mut self,
        is_forced: bool,
        status: &ConfigurationStatus,
        apply: impl FnOnce(&Path) -> Result<(), ConfigErrors>,
    ) {
        let (_, is_settled) = self.file.read();
        let is_loaded = self.file.content() == self.loaded.as_deref();
        if !is_forced && (!is_settled || is_loaded) {
            return;
        }
        self.loaded = self.file.content().map(str::to_owned);
        match apply(self.file.path()) {
            Ok(()) => {
                status.set(true, "reloaded".to_owned());
                tracing::info!("reloaded the configuration");
            }
            Err(errors) => {
                status.set(false, errors.to_string());
                tracing::warn!(%errors, "cannot reload the configuration; the previous one stays in force");
            }
        }
    }
}
