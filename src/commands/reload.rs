//! A configuration file that is written anew while the gateway runs: put in force whole, or not at
//! all.
//!
//! The apps change without a restart. What cannot is named, and stays as it was at the start. The
//! file is looked at now and then rather than watched: that works wherever it comes from, a
//! ConfigMap that is swapped as a link included.

use std::{
    cell::OnceCell,
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use toml::Table;

use crate::{
    run::Running,
    settings::{self, ConfigErrors, Settings},
};

/// The table whose content may change without a restart.
const LIVE: &str = "apps";

/// Looks at one file.
pub struct Reload {
    path: PathBuf,
    /// What it said at the start: that is in force but for the apps.
    first: Option<String>,
    /// Its tables, once they were asked for.
    first_tables: OnceCell<Table>,
    /// What it said when its apps were last put in force.
    in_force: Option<String>,
    /// What it said at the last look: one that is being written is looked at once more.
    seen: Option<String>,
    /// What was last said to be wrong with it.
    wrong: Option<String>,
}

impl Reload {
    /// Of the file that the gateway is started with.
    pub fn new(path: &Path) -> Reload {
        let first = fs::read_to_string(path).ok();
        let (path, first_tables) = (path.to_owned(), OnceCell::new());
        Reload {
            path,
            in_force: first.clone(),
            seen: first.clone(),
            first,
            first_tables,
            wrong: None,
        }
    }

    /// What it means at the start.
    ///
    /// # Errors
    /// All mistakes at once; an unreadable file is one.
    pub fn settings(&self) -> Result<Settings, ConfigErrors> {
        match &self.first {
            Some(text) => settings::parse(text, self.folder(), std::env::vars()),
            None => settings::load(&self.path),
        }
    }

    /// Puts the file in force when it has changed and stands still, or when somebody asks for it.
    /// One that cannot be used is tried again and again: what it names may come later than the file
    /// itself.
    pub fn look(&mut self, running: &Running, asked: bool) {
        let text = fs::read_to_string(&self.path);
        let before = std::mem::replace(&mut self.seen, text.as_ref().ok().cloned());
        if !asked && (self.seen != before || (self.wrong.is_none() && self.seen == self.in_force)) {
            return;
        }
        let read = match &text {
            Ok(text) => settings::parse(text, self.folder(), std::env::vars())
                .map_err(|mistakes| mistakes.to_string()),
            Err(error) => Err(error.to_string()),
        };
        match read {
            Ok(settings) => {
                let count = settings.apps.len();
                running.replace_apps(settings.apps);
                // Nobody waits for what is only told.
                let first = self
                    .first_tables
                    .get_or_init(|| tables(self.first.as_deref()));
                let waiting = changed(first, &tables(self.seen.as_deref()));
                running.report_configuration(Ok(&waiting));
                if waiting.is_empty() {
                    tracing::info!(apps = count, "reloaded the configuration");
                } else {
                    let keys = waiting.join(", ");
                    tracing::warn!(
                        apps = count,
                        needs_restart = keys,
                        "reloaded the apps of the configuration; other changes need a restart"
                    );
                }
                self.in_force.clone_from(&self.seen);
                self.wrong = None;
            }
            Err(mistakes) => {
                if asked || self.wrong.as_ref() != Some(&mistakes) {
                    running.report_configuration(Err(&mistakes));
                    tracing::warn!(%mistakes, "cannot reload the configuration; the previous one stays in force");
                }
                self.wrong = Some(mistakes);
            }
        }
    }

    fn folder(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new("."))
    }
}

/// What a text holds, but for what may change.
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
