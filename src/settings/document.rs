//! The document behind a configuration: a spanned TOML tree, the environment over it, and the
//! errors found so far.

use std::{cell::RefCell, collections::BTreeMap};

use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::{
    error::ConfigError,
    keys::{self, SECTIONS},
};

/// Prefix of variables that override scalars.
const ENVIRONMENT_PREFIX: &str = "LUDGATE_";

/// A parsed configuration text with the environment.
pub(super) struct Document<'t> {
    /// Byte offsets of the line ends, to find the line of a span.
    line_ends: Vec<usize>,
    root: DeTable<'t>,
    /// Values by section and key.
    environment: BTreeMap<(String, String), String>,
    errors: RefCell<Vec<ConfigError>>,
}

impl<'t> Document<'t> {
    /// Parses the text as far as possible, and reports syntax errors and unknown names.
    pub(super) fn parse(
        text: &'t str,
        environment: impl Iterator<Item = (String, String)>,
    ) -> Document<'t> {
        let (root, syntax_errors) = DeTable::parse_recoverable(text);
        let document = Document {
            line_ends: memchr::memchr_iter(b'\n', text.as_bytes()).collect(),
            root: root.into_inner(),
            environment: environment
                .filter_map(|(name, value)| Some((variable(&name)?, value)))
                .collect(),
            errors: RefCell::default(),
        };
        for error in &syntax_errors {
            let line = error.span().map(|span| document.line(span.start));
            document.report(ConfigError {
                key: "syntax".into(),
                line,
                what: error.message().to_owned(),
                suggestion: None,
            });
        }
        document.check_names();
        document
    }

    /// All errors, in the order of their lines.
    pub(super) fn into_errors(self) -> Vec<ConfigError> {
        let mut errors = self.errors.into_inner();
        errors.sort_by_key(|error| error.line.unwrap_or(usize::MAX));
        errors
    }

    /// The value of a top-level table or list.
    pub(super) fn value(&self, name: &str) -> Option<&Spanned<DeValue<'t>>> {
        let found = self.root.iter().find(|(key, _)| key.get_ref() == name);
        found.map(|(_, value)| value)
    }

    /// Whether a table was written, or one of its keys is in the environment.
    pub(super) fn has(&self, name: &str) -> bool {
        self.value(name).is_some() || self.environment.keys().any(|(section, _)| section == name)
    }

    /// The value of a variable.
    pub(super) fn variable(&self, section: &str, name: &str) -> Option<&str> {
        let key = (section.to_owned(), name.to_owned());
        self.environment.get(&key).map(String::as_str)
    }

    /// Adds an error.
    pub(super) fn report(&self, error: ConfigError) {
        let mut errors = self.errors.borrow_mut();
        // Two readers of one table report the same.
        if !errors.contains(&error) {
            errors.push(error);
        }
    }

    /// The line of a byte offset, from 1.
    pub(super) fn line(&self, offset: usize) -> usize {
        1 + self.line_ends.partition_point(|end| *end < offset)
    }

    /// Reports unknown tables, keys and variables.
    fn check_names(&self) {
        for (key, value) in self.root.iter() {
            let name: &str = key.get_ref();
            if SECTIONS.iter().any(|section| section.name == name) {
                let is_read_later = name == "apps" || keys::MAPS.contains(&name);
                if let (DeValue::Table(table), false) = (value.get_ref(), is_read_later) {
                    self.check_keys(name, name, table);
                } else if let (DeValue::Array(list), "listen") = (value.get_ref(), name) {
                    for table in list.iter().filter_map(|item| item.get_ref().as_table()) {
                        self.check_keys(name, name, table);
                    }
                }
                continue;
            }
            let names = SECTIONS.iter().map(|section| section.name);
            self.unknown(name, name.to_owned(), self.line(key.span().start), names);
        }
        for (section, name) in self.environment.keys() {
            let what = match keys::find(section, name) {
                None => "names no key",
                // A variable cannot name one of several apps.
                Some(_) if section == "apps" || keys::MAPS.contains(&section.as_str()) => {
                    "only the file can set this"
                }
                Some(_) => continue,
            };
            self.report(ConfigError {
                key: variable_name(section, name),
                line: None,
                what: what.into(),
                suggestion: None,
            });
        }
    }

    /// Reports unknown keys of one table.
    pub(super) fn check_keys(&self, section: &str, path: &str, table: &DeTable<'_>) {
        for (key, _) in table.iter() {
            let name: &str = key.get_ref();
            if keys::find(section, name).is_none() {
                let all = keys::all().chain(keys::inner());
                let names = all.filter(|key| key.section == section).map(|key| key.name);
                let line = self.line(key.span().start);
                self.unknown(name, format!("{path}.{name}"), line, names);
            }
        }
    }

    fn unknown<'n>(
        &self,
        name: &str,
        key: String,
        line: usize,
        names: impl Iterator<Item = &'n str>,
    ) {
        let near = names
            .map(|known| (strsim::damerau_levenshtein(known, name), known))
            .min()
            .filter(|(distance, known)| *distance <= 2.max(known.len() / 3));
        self.report(ConfigError {
            key,
            line: Some(line),
            what: "unknown key".to_owned(),
            suggestion: near.map(|(_, known)| format!("did you mean {known}?")),
        });
    }
}

/// `LUDGATE_SESSION__IDLE` names `session.idle`; variables without `__` are not ours.
fn variable(name: &str) -> Option<(String, String)> {
    let (section, key) = name.strip_prefix(ENVIRONMENT_PREFIX)?.split_once("__")?;
    Some((section.to_ascii_lowercase(), key.to_ascii_lowercase()))
}

/// The variable that overrides a key, such as `LUDGATE_SESSION__IDLE`.
pub(super) fn variable_name(section: &str, name: &str) -> String {
    format!("{ENVIRONMENT_PREFIX}{section}__{name}").to_ascii_uppercase()
}
