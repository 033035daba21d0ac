//! A configuration file that is written anew while the gateway runs: put in force whole, or not at all.
//!
//! The apps change without a restart. What cannot is named, and stays as it was at the start. The file is looked at now and
//! then rather than watched: that works wherever it comes from, a ConfigMap that is swapped as a link included.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use toml::Table;

use crate::{run::Running, settings};

/// The table whose content may change without a restart.
const LIVE: &str = "apps";

/// Looks at one file.
pub struct Reload {
    path: PathBuf,
    /// What it said at the start: that is in force but for the apps.
    first: Table,
    /// What it said last.
    last: Option<String>,
}

impl Reload {
    /// Of the file that the gateway was started with.
    pub fn new(path: &Path) -> Reload {
        let last = fs::read_to_string(path).ok();
        let first = last.as_deref().and_then(|text| text.parse().ok()).unwrap_or_default();
        Reload { path: path.to_owned(), first, last }
    }

    /// Puts the file in force when it has changed, or when somebody asks for it.
    pub fn look(&mut self, running: &Running, asked: bool) {
        let text = fs::read_to_string(&self.path);
        if let (Ok(text), Some(last), false) = (&text, &self.last, asked)
            && text == last
        {
            return;
        }
        if let (Err(_), None, false) = (&text, &self.last, asked) {
            // Still unreadable, as was said.
            return;
        }
        let folder = self.path.parent().unwrap_or(Path::new("."));
        let read = match &text {
            Ok(text) => {
                settings::parse(text, folder, std::env::vars()).map_err(|mistakes| mistakes.to_string())
            }
            Err(error) => Err(error.to_string()),
        };
        match read {
            Ok(settings) => {
                let table: Table = text.as_deref().unwrap_or_default().parse().unwrap_or_default();
                let (count, waiting) = (settings.apps.len(), changed(&self.first, &table));
                running.replace_apps(settings.apps);
                running.tell_configuration(Ok(&waiting));
                if waiting.is_empty() {
                    tracing::info!(apps = count, "the configuration was read anew and is in force");
                } else {
                    let keys = waiting.join(", ");
                    tracing::warn!(
                        apps = count,
                        needs_restart = keys,
                        "the configuration was read anew; its apps are in force"
                    );
                }
            }
            Err(mistakes) => {
                running.tell_configuration(Err(&mistakes));
                tracing::warn!(%mistakes, "the configuration was read anew and cannot be used; nothing has changed");
            }
        }
        self.last = text.ok();
    }
}

/// The keys that differ and need a restart, such as `session.idle`.
fn changed(before: &Table, after: &Table) -> Vec<String> {
    let sections: BTreeSet<&String> =
        before.keys().chain(after.keys()).filter(|name| *name != LIVE).collect();
    let mut changed = Vec::new();
    for section in sections {
        match (before.get(section), after.get(section)) {
            (Some(toml::Value::Table(before)), Some(toml::Value::Table(after))) => {
                let keys: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
                let differing = keys.into_iter().filter(|key| before.get(*key) != after.get(*key));
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
        let table = |text: &str| -> Table { text.parse().expect("TOML") };
        let before = table(
            "[site]\nurl = \"a\"\n[session]\nidle = \"30m\"\nlifetime = \"12h\"\n[[apps]]\nid = \"x\"\n[admin]\n",
        );
        let after = table(
            "[site]\nurl = \"a\"\n[session]\nidle = \"1m\"\nrecheck = \"1m\"\n[[apps]]\nid = \"y\"\n[log]\nlevel = \"warn\"\n[admin]\n",
        );
        assert_eq!(changed(&before, &after), ["log", "session.idle", "session.lifetime", "session.recheck"]);
        assert_eq!(changed(&before, &before), Vec::<String>::new());
    }
}
