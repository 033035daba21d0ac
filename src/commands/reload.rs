//! Reload of the configuration file while the gateway runs: a changed file takes effect as a whole
//! or not at all.
//!
//! The apps change without a restart. Other changes are named in the log, and the values from
//! start-up stay in force.

use std::{cell::OnceCell, collections::BTreeSet, path::Path};

use toml::Table;

use crate::{
    ops::file_watch::WatchedFile,
    run::Running,
    settings::{self, ConfigErrors, Settings},
};

/// The table that may change without a restart.
const LIVE: &str = "apps";

/// Reloads one configuration file.
pub struct ConfigReload {
    file: WatchedFile,
    /// The text at start-up, in force except for the apps.
    first: Option<String>,
    /// The tables of `first`, parsed at the first reload.
    first_tables: OnceCell<Table>,
    /// The text whose apps are in force.
    in_force: Option<String>,
    /// The errors that were logged last.
    errors: Option<String>,
}

impl ConfigReload {
    /// Reads the file that the gateway is started with.
    pub fn new(path: &Path) -> ConfigReload {
        let file = WatchedFile::new(path);
        let first = file.content().map(str::to_owned);
        ConfigReload {
            file,
            in_force: first.clone(),
            first,
            first_tables: OnceCell::new(),
            errors: None,
        }
    }

    /// The settings at start-up.
    ///
    /// # Errors
    /// All errors at once; an unreadable file is one.
    pub fn settings(&self) -> Result<Settings, ConfigErrors> {
        match &self.first {
            Some(text) => settings::parse(text, self.folder(), std::env::vars()),
            None => settings::load(self.file.path()),
        }
    }

    /// Reloads the file if it has changed and is not being written, or if `forced`. An invalid file
    /// is tried again at every poll: files that it names may appear later than the file itself.
    pub fn poll(&mut self, running: &Running, forced: bool) {
        let (text, is_settled) = self.file.read();
        let is_in_force = self.file.content() == self.in_force.as_deref();
        if !forced && (!is_settled || (self.errors.is_none() && is_in_force)) {
            return;
        }
        let read = match &text {
            Ok(text) => settings::parse(text, self.folder(), std::env::vars())
                .map_err(|errors| errors.to_string()),
            Err(error) => Err(error.to_string()),
        };
        match read {
            Ok(settings) => self.apply(running, settings),
            Err(mistakes) => {
                if forced || self.errors.as_ref() != Some(&mistakes) {
                    running.report_configuration(Err(&mistakes));
                    tracing::warn!(%mistakes, "cannot reload the configuration; the previous one stays in force");
                }
                self.errors = Some(mistakes);
            }
        }
    }

    fn apply(&mut self, running: &Running, settings: Settings) {
        let apps = settings.apps.len();
        running.replace_apps(settings.apps);
        // After the apps: access rules must not wait for this comparison.
        let first = self
            .first_tables
            .get_or_init(|| tables(self.first.as_deref()));
        let waiting = changed(first, &tables(self.file.content()));
        running.report_configuration(Ok(&waiting));
        if waiting.is_empty() {
            tracing::info!(apps, "reloaded the configuration");
        } else {
            let keys = waiting.join(", ");
            tracing::warn!(
                apps,
                needs_restart = keys,
                "reloaded the apps of the configuration; other changes need a restart"
            );
        }
        self.in_force = self.file.content().map(str::to_owned);
        self.errors = None;
    }

    fn folder(&self) -> &Path {
        self.file.path().parent().unwrap_or(Path::new("."))
    }
}

/// The tables of a text, without the live one.
fn tables(text: Option<&str>) -> Table {
    let mut tables: Table = text.and_then(|text| text.parse().ok()).unwrap_or_default();
    tables.remove(LIVE);
    tables
}

/// The keys that differ and need a restart, such as `session.idle`.
fn changed(before: &Table, after: &Table) -> Vec<String> {
    let sections: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let mut changed = Vec::new();
    for section in sections {
        match (before.get(section), after.get(section)) {
            (Some(toml::Value::Table(before)), Some(toml::Value::Table(after))) => {
                let keys: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
                let differing = keys
                    .into_iter()
                    .filter(|key| before.get(*key) != after.get(*key));
                changed.extend(differing.map(|key| format!("{section}.{key}")));
            }
            (before, after) if before != after => changed.push(section.clone()),
            (_, _) => {}
        }
    }
    changed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_needs_a_restart_is_named_by_its_keys() {
        let table = |text: &str| tables(Some(text));
        let before = table(
            "[site]\nurl = \"a\"\n[session]\nidle = \"30m\"\nlifetime = \"12h\"\n[[apps]]\nid = \"x\"\n[admin]\n",
        );
        let after = table(
            "[site]\nurl = \"a\"\n[session]\nidle = \"1m\"\nrecheck = \"1m\"\n[[apps]]\nid = \"y\"\n[log]\nlevel = \"warn\"\n[admin]\n",
        );
        assert_eq!(
            changed(&before, &after),
            ["log", "session.idle", "session.lifetime", "session.recheck"]
        );
        assert_eq!(changed(&before, &before), Vec::<String>::new());
    }
}
