//! The configuration file as its tables: sections, listeners, apps.

use toml::de::DeValue;

use super::{
    document::Document,
    error::{ConfigError, ConfigErrors},
    section::ConfigSection,
};

/// A configuration text and the environment, with the errors found so far.
pub struct ConfigFile<'t> {
    document: Document<'t>,
}

impl<'t> ConfigFile<'t> {
    /// Parses the text, passes it to `resolve`, and returns the result or all errors.
    ///
    /// # Errors
    /// All errors of the text and of `resolve`.
    pub fn read<R>(
        text: &'t str,
        environment: impl Iterator<Item = (String, String)>,
        resolve: impl FnOnce(&ConfigFile<'_>) -> Option<R>,
    ) -> Result<R, ConfigErrors> {
        let file = ConfigFile {
            document: Document::parse(text, environment),
        };
        let resolved = resolve(&file);
        let errors = file.document.into_errors();
        match resolved {
            Some(resolved) if errors.is_empty() => Ok(resolved),
            Some(_) | None => Err(ConfigErrors(errors)),
        }
    }

    /// One table. Several, where one is expected, are an error.
    pub fn section(&self, name: &'static str) -> ConfigSection<'_> {
        let table = self
            .document
            .value(name)
            .and_then(|value| match value.get_ref() {
                DeValue::Table(table) => Some(table),
                // The first of several listeners; `other_listeners` passes the rest.
                DeValue::Array(list) if list.len() == 1 || name == "listen" => {
                    list.first().and_then(|one| one.get_ref().as_table())
                }
                DeValue::String(_)
                | DeValue::Integer(_)
                | DeValue::Float(_)
                | DeValue::Boolean(_)
                | DeValue::Datetime(_)
                | DeValue::Array(_) => {
                    let line = Some(self.document.line(value.span().start));
                    let what = format!("expected a table, found {}", value.get_ref().type_str());
                    self.document.report(ConfigError {
                        key: name.into(),
                        line,
                        what,
                        suggestion: None,
                    });
                    None
                }
            });
        ConfigSection {
            document: &self.document,
            name,
            path: name,
            table,
        }
    }

    /// Whether a table was written, or one of its keys is in the environment.
    pub fn has(&self, name: &str) -> bool {
        self.document.has(name)
    }

    /// Passes every `[[listen]]` table after the first. The environment overrides the first only.
    pub fn other_listeners(&self, mut read: impl FnMut(ConfigSection<'_>)) {
        let written = self.document.value("listen");
        let list = written.and_then(|value| value.get_ref().as_array());
        for (index, table) in list.into_iter().flatten().enumerate().skip(1) {
            let path = format!("listen[{index}]");
            let table = table.get_ref().as_table();
            read(ConfigSection {
                document: &self.document,
                name: "listen",
                path: &path,
                table,
            });
        }
    }

    /// Passes every table of a map such as `[groups]`, with its name.
    pub fn each_named(&self, map: &'static str, mut read: impl FnMut(&str, ConfigSection<'_>)) {
        let tables = self
            .document
            .value(map)
            .and_then(|it| it.get_ref().as_table());
        for (name, value) in tables.into_iter().flat_map(|tables| tables.iter()) {
            let path = format!("{map}.{}", name.get_ref());
            match value.get_ref().as_table() {
                Some(table) => {
                    self.document.check_keys(map, &path, table);
                    let section = ConfigSection {
                        document: &self.document,
                        name: map,
                        path: &path,
                        table: Some(table),
                    };
                    read(name.get_ref(), section);
                }
                None => self.document.report(ConfigError {
                    key: path,
                    line: Some(self.document.line(value.span().start)),
                    what: "expected a table".into(),
                    suggestion: None,
                }),
            }
        }
    }

    /// Passes every `[[apps]]` table.
    pub fn each_app(&self, mut read: impl FnMut(ConfigSection<'_>)) {
        let Some(value) = self.document.value("apps") else {
            return;
        };
        let Some(list) = value.get_ref().as_array() else {
            let line = Some(self.document.line(value.span().start));
            let what = format!(
                "expected [[apps]] tables, found {}",
                value.get_ref().type_str()
            );
            self.document.report(ConfigError {
                key: "apps".into(),
                line,
                what,
                suggestion: Some("write [[apps]]".into()),
            });
            return;
        };
        for (index, app) in list.iter().enumerate() {
            let path = format!("apps[{index}]");
            match app.get_ref().as_table() {
                Some(table) => {
                    self.document.check_keys("apps", &path, table);
                    read(ConfigSection {
                        document: &self.document,
                        name: "apps",
                        path: &path,
                        table: Some(table),
                    });
                }
                None => {
                    let line = Some(self.document.line(app.span().start));
                    self.document.report(ConfigError {
                        key: path,
                        line,
                        what: "expected a table".into(),
                        suggestion: None,
                    });
                }
            }
        }
    }
}
