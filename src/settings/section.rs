//! One table of the configuration: typed values by key, with errors that name key path and line.

use std::time::Duration;

use toml::de::{DeTable, DeValue};

use super::{
    document::{Document, variable_name},
    error::ConfigError,
    keys::{self, Kind, PATH_RULE, PUBLISHED_PORT},
    units,
};
use crate::model::access::compound::WrittenRule;

/// One table of the file, or its absence.
#[derive(Clone, Copy)]
pub struct ConfigSection<'f> {
    pub(super) document: &'f Document<'f>,
    /// Name in the table of keys, such as `apps`.
    pub(super) name: &'static str,
    /// Path in errors, such as `apps[2]`.
    pub(super) path: &'f str,
    pub(super) table: Option<&'f DeTable<'f>>,
}

impl ConfigSection<'_> {
    /// Whether the file has the key, with any value.
    pub fn has(&self, name: &str) -> bool {
        self.value(name).is_some()
    }

    /// The text of a key.
    pub fn text(&self, name: &'static str) -> Option<String> {
        self.scalar(
            name,
            |value| value.as_str().map(str::to_owned),
            |text| Some(text.to_owned()),
        )
    }

    /// The boolean of a key.
    pub fn switch(&self, name: &'static str) -> Option<bool> {
        self.scalar(name, |value| value.as_bool(), |text| text.parse().ok())
    }

    /// The whole number of a key, from 0.
    pub fn number(&self, name: &'static str) -> Option<u64> {
        self.scalar(
            name,
            |value| value.as_integer()?.as_str().replace('_', "").parse().ok(),
            |t| t.parse().ok(),
        )
    }

    /// The number of a key, such as `0.5`.
    pub fn decimal(&self, name: &'static str) -> Option<f64> {
        let number = |value: &DeValue<'_>| match value {
            DeValue::Integer(number) => number.as_str().replace('_', "").parse().ok(),
            DeValue::Float(number) => number.as_str().replace('_', "").parse().ok(),
            DeValue::String(_)
            | DeValue::Boolean(_)
            | DeValue::Datetime(_)
            | DeValue::Array(_)
            | DeValue::Table(_) => None,
        };
        self.scalar(name, number, |text| text.parse().ok())
    }

    /// Whether the value of a key is a table.
    pub fn is_table(&self, name: &str) -> bool {
        self.value(name).is_some_and(|(_, value)| value.is_table())
    }

    /// Whether the value of a key is a list.
    pub fn is_list(&self, name: &str) -> bool {
        self.value(name).is_some_and(|(_, value)| value.is_array())
    }

    /// Passes the table of a key, if there is one; `section` is its name among the sections.
    pub fn inner<R>(
        &self,
        name: &'static str,
        section: &'static str,
        read: impl FnOnce(ConfigSection<'_>) -> R,
    ) -> Option<R> {
        let (_, value) = self.value(name)?;
        let Some(table) = value.as_table() else {
            self.wrong(
                name,
                format!("expected a table, found {}", value.type_str()),
                None,
            );
            return None;
        };
        let path = format!("{}.{name}", self.path);
        self.document.check_keys(section, &path, table);
        Some(read(ConfigSection {
            document: self.document,
            name: section,
            path: &path,
            table: Some(table),
        }))
    }

    /// The duration of a key, such as `30m`.
    pub fn duration(&self, name: &'static str) -> Option<Duration> {
        self.scalar(
            name,
            |value| units::duration(value.as_str()?),
            units::duration,
        )
    }

    /// The size of a key, in bytes.
    pub fn size(&self, name: &'static str) -> Option<u64> {
        self.scalar(name, |value| units::size(value.as_str()?), units::size)
    }

    /// The list of texts of a key.
    pub fn texts(&self, name: &'static str) -> Option<Vec<String>> {
        self.scalar(
            name,
            |value| {
                value
                    .as_array()?
                    .iter()
                    .map(|item| item.get_ref().as_str().map(str::to_owned))
                    .collect()
            },
            |_| None,
        )
    }

    /// The two texts of an inline table, both required in it.
    pub fn pair(&self, name: &'static str, first: &str, second: &str) -> Option<(String, String)> {
        self.scalar(name, |value| two_texts(value, first, second), |_| None)
    }

    /// The entries of a table of texts.
    pub fn text_table(&self, name: &'static str) -> Vec<(String, String)> {
        let entries = |value: &DeValue<'_>| {
            let entries = value.as_table()?.iter().map(|(key, value)| {
                let text = value.get_ref().as_str().map(str::to_owned);
                (key.get_ref().to_string(), text)
            });
            Some(entries.collect::<Vec<_>>())
        };
        let entries = self.scalar(name, entries, |_| None).unwrap_or_default();
        let text = |(key, text): (String, Option<String>)| {
            if text.is_none() {
                self.wrong(name, format!("{key:?} must have a text as its value"), None);
            }
            Some((key, text?))
        };
        entries.into_iter().filter_map(text).collect()
    }

    /// One such table, or a list of them.
    pub fn pairs(
        &self,
        name: &'static str,
        first: &str,
        second: &str,
    ) -> Option<Vec<(String, String)>> {
        let one_or_more = |value: &DeValue<'_>| match value.as_array() {
            Some(list) if list.is_empty() => None,
            Some(list) => list
                .iter()
                .map(|item| two_texts(item.get_ref(), first, second))
                .collect(),
            None => Some(vec![two_texts(value, first, second)?]),
        };
        self.scalar(name, one_or_more, |_| None)
    }

    /// Passes every table of `published_ports`, with its key.
    pub fn each_port(&self, mut read: impl FnMut(&str, ConfigSection<'_>)) {
        let Some((_, value)) = self.value("published_ports") else {
            return;
        };
        let Some(ports) = value.as_table() else {
            let example =
                keys::find(self.name, "published_ports").map(|key| key.example.to_owned());
            self.wrong(
                "published_ports",
                format!("expected a table, found {}", value.type_str()),
                example,
            );
            return;
        };
        for (key, value) in ports.iter() {
            let path = format!("{}.published_ports.{}", self.path, key.get_ref());
            match value.get_ref().as_table() {
                Some(table) => {
                    self.document.check_keys(PUBLISHED_PORT.name, &path, table);
                    let section = ConfigSection {
                        document: self.document,
                        name: PUBLISHED_PORT.name,
                        path: &path,
                        table: Some(table),
                    };
                    read(key.get_ref(), section);
                }
                None => {
                    let line = Some(self.document.line(value.span().start));
                    let what = "expected a table such as { access = \"public\" }".to_owned();
                    self.document.report(ConfigError {
                        key: path,
                        line,
                        what,
                        suggestion: None,
                    });
                }
            }
        }
    }

    /// The access rule of a key.
    pub fn rule(&self, name: &'static str) -> Option<WrittenRule> {
        self.scalar(name, written_rule, |_| None)
    }

    /// Passes every table of the list `paths`.
    pub fn each_path(&self, read: impl FnMut(ConfigSection<'_>)) {
        self.each_table("paths", PATH_RULE.name, read);
    }

    /// Passes every table of a list; `section` is the name of such tables among the sections.
    pub fn each_table(
        &self,
        name: &'static str,
        section: &'static str,
        mut read: impl FnMut(ConfigSection<'_>),
    ) {
        let Some((_, value)) = self.value(name) else {
            return;
        };
        let Some(list) = value.as_array() else {
            let what = format!("expected [[{section}]] tables, found {}", value.type_str());
            self.wrong(name, what, Some(format!("write [[{section}]]")));
            return;
        };
        for (index, item) in list.iter().enumerate() {
            let path = format!("{}.{name}[{index}]", self.path);
            match item.get_ref().as_table() {
                Some(table) => {
                    self.document.check_keys(section, &path, table);
                    read(ConfigSection {
                        document: self.document,
                        name: section,
                        path: &path,
                        table: Some(table),
                    });
                }
                None => self.document.report(ConfigError {
                    key: path,
                    line: Some(self.document.line(item.span().start)),
                    what: "expected a table".to_owned(),
                    suggestion: None,
                }),
            }
        }
    }

    /// A duration above zero, with a default.
    pub fn positive(&self, name: &'static str, default: Duration) -> Duration {
        let value = self.duration(name).unwrap_or(default);
        if value.is_zero() {
            self.wrong(name, "must be longer than nothing", None);
        }
        value
    }

    /// A required text, parsed by `read`.
    pub fn required<T>(
        &self,
        name: &'static str,
        read: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<T> {
        let Some(text) = self.text(name) else {
            // A value of the wrong kind was reported already.
            if self.value(name).is_none() {
                self.missing(name);
            }
            return None;
        };
        let example =
            keys::find(self.name, name).map(|key| format!("for example {name} = {}", key.example));
        read(&text)
            .map_err(|what| self.wrong(name, what, example))
            .ok()
    }

    /// An optional text, parsed by `read`, with a default.
    pub fn required_or<T>(
        &self,
        name: &'static str,
        default: T,
        read: impl FnOnce(&str) -> Result<T, String>,
    ) -> T {
        if self.has(name) {
            self.required(name, read).unwrap_or(default)
        } else {
            default
        }
    }

    /// Reports an invalid value.
    pub fn wrong(&self, name: &str, what: impl Into<String>, suggestion: Option<String>) {
        let line = self.value(name).map(|(line, _)| line);
        self.document.report(ConfigError {
            key: format!("{}.{name}", self.path),
            line,
            what: what.into(),
            suggestion,
        });
    }

    /// Reports a missing value.
    pub fn missing(&self, name: &str) {
        let example =
            keys::find(self.name, name).map(|key| format!("for example {name} = {}", key.example));
        self.document.report(ConfigError {
            key: format!("{}.{name}", self.path),
            line: None,
            what: "is required".into(),
            suggestion: example,
        });
    }

    fn value(&self, name: &str) -> Option<(usize, &DeValue<'_>)> {
        let value = self.table?.get(name)?;
        Some((self.document.line(value.span().start), value.get_ref()))
    }

    fn scalar<T>(
        &self,
        name: &'static str,
        from_file: impl FnOnce(&DeValue<'_>) -> Option<T>,
        from_environment: impl FnOnce(&str) -> Option<T>,
    ) -> Option<T> {
        debug_assert!(
            keys::find(self.name, name).is_some(),
            "{}.{name} is not in the table of keys",
            self.name
        );
        let kind = || keys::find(self.name, name).map_or(Kind::Text, |key| key.kind);
        // A variable cannot name one of several apps, listeners or groups.
        let is_the_only_one = self.path == self.name;
        let found = is_the_only_one
            .then(|| self.document.variable(self.name, name))
            .flatten();
        if let Some(text) = found {
            let read = from_environment(text);
            if read.is_none() {
                let what = match kind() {
                    Kind::Texts | Kind::TextOrTexts | Kind::Table | Kind::Rule => {
                        "only the file can set this".to_owned()
                    }
                    Kind::Text
                    | Kind::Switch
                    | Kind::Number
                    | Kind::Decimal
                    | Kind::Duration
                    | Kind::Size => format!("expected {}, found {text:?}", kind().words()),
                };
                self.document.report(ConfigError {
                    key: variable_name(self.name, name),
                    line: None,
                    what,
                    suggestion: None,
                });
            }
            return read;
        }
        let (_, value) = self.value(name)?;
        let read = from_file(value);
        if read.is_none() {
            // A text in place of a table may be the value of a header, which may be a secret.
            let shown = value.as_str().filter(|_| !matches!(kind(), Kind::Table));
            let found =
                shown.map_or_else(|| value.type_str().to_owned(), |text| format!("{text:?}"));
            let example = keys::find(self.name, name)
                .map(|key| format!("for example {name} = {}", key.example));
            self.wrong(
                name,
                format!("expected {}, found {found}", kind().words()),
                example,
            );
        }
        read
    }
}

/// An access rule as it is written. Whether its clauses are understood is another question.
fn written_rule(value: &DeValue<'_>) -> Option<WrittenRule> {
    if let Some(text) = value.as_str() {
        return Some(WrittenRule::Clause(text.to_owned()));
    }
    let mut entries = value.as_table()?.iter();
    let (Some((key, list)), None) = (entries.next(), entries.next()) else {
        return None;
    };
    let parts = list.get_ref().as_array()?.iter();
    let parts = parts.map(|part| written_rule(part.get_ref()));
    let parts = parts.collect::<Option<Vec<_>>>()?;
    let key: &str = key.get_ref();
    match key {
        "any" => Some(WrittenRule::Any(parts)),
        "all" => Some(WrittenRule::All(parts)),
        _ => None,
    }
}

/// The two texts of an inline table without other keys.
fn two_texts(value: &DeValue<'_>, first: &str, second: &str) -> Option<(String, String)> {
    let table = value.as_table()?;
    let text = |wanted: &str| {
        let (_, value) = table.iter().find(|(key, _)| key.get_ref() == wanted)?;
        value.get_ref().as_str().map(str::to_owned)
    };
    let only_these = table
        .iter()
        .all(|(key, _)| key.get_ref() == first || key.get_ref() == second);
    only_these.then_some((text(first)?, text(second)?))
}
