//! What was written: a spanned TOML tree with the environment over it, read key by key, every
//! mistake collected.

use std::{cell::RefCell, collections::BTreeMap, time::Duration};

use toml::de::{DeTable, DeValue};

use super::{
    Mistake, Mistakes,
    keys::{self, Kind, NOT_YET, PUBLISHED_PORT, SECTIONS},
    units,
};

/// Variables that override scalars begin with this.
const ENVIRONMENT_PREFIX: &str = "LUDGATE_";

/// A configuration text and the environment, with what is wrong with them so far.
pub struct File<'t> {
    /// Where its lines end.
    line_ends: Vec<usize>,
    root: DeTable<'t>,
    environment: BTreeMap<(String, String), String>,
    mistakes: RefCell<Vec<Mistake>>,
}

/// One table of the file, or its absence.
#[derive(Clone, Copy)]
pub struct Section<'f> {
    file: &'f File<'f>,
    name: &'static str,
    /// `apps[2]`, `listen`.
    path: &'f str,
    table: Option<&'f DeTable<'f>>,
}

impl<'t> File<'t> {
    /// Parses the text, hands it to `resolve`, and gives back its result or all mistakes.
    pub fn read<R>(
        text: &'t str,
        environment: impl Iterator<Item = (String, String)>,
        resolve: impl FnOnce(&File<'_>) -> Option<R>,
    ) -> Result<R, Mistakes> {
        let (root, errors) = DeTable::parse_recoverable(text);
        let file = File {
            line_ends: memchr::memchr_iter(b'\n', text.as_bytes()).collect(),
            root: root.into_inner(),
            environment: environment
                .filter_map(|(name, value)| Some((variable(&name)?, value)))
                .collect(),
            mistakes: RefCell::default(),
        };
        for error in &errors {
            let line = error.span().map(|span| file.line(span.start));
            file.note(Mistake {
                key: "syntax".into(),
                line,
                what: error.message().to_owned(),
                suggestion: None,
            });
        }
        file.check_names();
        let resolved = resolve(&file);
        let mut mistakes = file.mistakes.into_inner();
        mistakes.sort_by_key(|mistake| mistake.line.unwrap_or(usize::MAX));
        match resolved {
            Some(resolved) if mistakes.is_empty() => Ok(resolved),
            Some(_) | None => Err(Mistakes(mistakes)),
        }
    }

    /// One table; several where one is expected is a mistake.
    pub fn section(&self, name: &'static str) -> Section<'_> {
        let found = self
            .root
            .iter()
            .find(|(key, _)| key.get_ref() == name)
            .map(|(_, value)| value);
        let table = found.and_then(|value| match value.get_ref() {
            DeValue::Table(table) => Some(table),
            // Of several listeners the first; `others` has the rest.
            DeValue::Array(list) if list.len() == 1 || name == "listen" => {
                list.first().and_then(|one| one.get_ref().as_table())
            }
            DeValue::String(_)
            | DeValue::Integer(_)
            | DeValue::Float(_)
            | DeValue::Boolean(_)
            | DeValue::Datetime(_)
            | DeValue::Array(_) => {
                let line = Some(self.line(value.span().start));
                let what = format!("expected a table, found {}", value.get_ref().type_str());
                self.note(Mistake {
                    key: name.into(),
                    line,
                    what,
                    suggestion: None,
                });
                None
            }
        });
        Section {
            file: self,
            name,
            path: name,
            table,
        }
    }

    /// Whether a table was written.
    pub fn has(&self, name: &str) -> bool {
        self.root.iter().any(|(key, _)| key.get_ref() == name)
            || self.environment.keys().any(|(section, _)| section == name)
    }

    /// The `[[listen]]` tables behind the first. The environment speaks of the first alone.
    pub fn other_listeners(&self, mut read: impl FnMut(Section<'_>)) {
        let written = self.root.iter().find(|(key, _)| key.get_ref() == "listen");
        let list = written.and_then(|(_, value)| value.get_ref().as_array());
        for (index, table) in list.into_iter().flatten().enumerate().skip(1) {
            let path = format!("listen[{index}]");
            let table = table.get_ref().as_table();
            read(Section {
                file: self,
                name: "listen",
                path: &path,
                table,
            });
        }
    }

    /// Every `[[apps]]` table.
    pub fn each_app(&self, mut read: impl FnMut(Section<'_>)) {
        let Some((_, value)) = self.root.iter().find(|(key, _)| key.get_ref() == "apps") else {
            return;
        };
        let Some(list) = value.get_ref().as_array() else {
            let line = Some(self.line(value.span().start));
            let what = format!(
                "expected [[apps]] tables, found {}",
                value.get_ref().type_str()
            );
            self.note(Mistake {
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
                    self.check_keys("apps", &path, table);
                    read(Section {
                        file: self,
                        name: "apps",
                        path: &path,
                        table: Some(table),
                    });
                }
                None => {
                    let line = Some(self.line(app.span().start));
                    self.note(Mistake {
                        key: path,
                        line,
                        what: "expected a table".into(),
                        suggestion: None,
                    });
                }
            }
        }
    }

    /// Adds a mistake.
    pub fn note(&self, mistake: Mistake) {
        self.mistakes.borrow_mut().push(mistake);
    }

    fn line(&self, offset: usize) -> usize {
        1 + self.line_ends.partition_point(|end| *end < offset)
    }

    /// Unknown tables, keys and variables.
    fn check_names(&self) {
        for (key, value) in self.root.iter() {
            let name: &str = key.get_ref();
            if SECTIONS.iter().any(|section| section.name == name) {
                if let (DeValue::Table(table), false) = (value.get_ref(), name == "apps") {
                    self.check_keys(name, name, table);
                } else if let (DeValue::Array(list), "listen") = (value.get_ref(), name) {
                    for table in list.iter().filter_map(|item| item.get_ref().as_table()) {
                        self.check_keys(name, name, table);
                    }
                }
                continue;
            }
            let names = SECTIONS.iter().map(|section| section.name);
            self.unknown(
                "",
                name,
                name.to_owned(),
                self.line(key.span().start),
                names,
            );
        }
        for (section, name) in self.environment.keys() {
            let what = match keys::find(section, name) {
                None => "names no key",
                // A variable cannot say which app it means.
                Some(_) if section == "apps" => "only the file can set this",
                Some(_) => continue,
            };
            {
                let key = format!(
                    "{ENVIRONMENT_PREFIX}{}__{}",
                    section.to_ascii_uppercase(),
                    name.to_ascii_uppercase()
                );
                self.note(Mistake {
                    key,
                    line: None,
                    what: what.into(),
                    suggestion: None,
                });
            }
        }
    }

    fn check_keys(&self, section: &str, path: &str, table: &DeTable<'_>) {
        for (key, _) in table.iter() {
            let name: &str = key.get_ref();
            if keys::find(section, name).is_none() {
                let all = keys::all().chain(keys::PORT_KEYS);
                let names = all.filter(|key| key.section == section).map(|key| key.name);
                let line = self.line(key.span().start);
                self.unknown(section, name, format!("{path}.{name}"), line, names);
            }
        }
    }

    fn unknown<'n>(
        &self,
        section: &str,
        name: &str,
        key: String,
        line: usize,
        names: impl Iterator<Item = &'n str>,
    ) {
        let (what, suggestion) = if NOT_YET.contains(&(section, name)) {
            ("is not served by this version yet".to_owned(), None)
        } else {
            let near = names
                .map(|known| (strsim::damerau_levenshtein(known, name), known))
                .min()
                .filter(|(distance, known)| *distance <= 2.max(known.len() / 3));
            (
                "unknown key".to_owned(),
                near.map(|(_, known)| format!("did you mean {known}?")),
            )
        };
        self.note(Mistake {
            key,
            line: Some(line),
            what,
            suggestion,
        });
    }
}

/// `LUDGATE_SESSION__IDLE` names `session.idle`; variables without `__` are not ours.
fn variable(name: &str) -> Option<(String, String)> {
    let (section, key) = name.strip_prefix(ENVIRONMENT_PREFIX)?.split_once("__")?;
    Some((section.to_ascii_lowercase(), key.to_ascii_lowercase()))
}

impl Section<'_> {
    /// Whether the key was written, whatever its value is.
    pub fn has(&self, name: &str) -> bool {
        self.value(name).is_some()
    }

    /// A text.
    pub fn text(&self, name: &'static str) -> Option<String> {
        self.scalar(
            name,
            |value| value.as_str().map(str::to_owned),
            |text| Some(text.to_owned()),
        )
    }

    /// `true` or `false`.
    pub fn switch(&self, name: &'static str) -> Option<bool> {
        self.scalar(name, |value| value.as_bool(), |text| text.parse().ok())
    }

    /// A whole number.
    pub fn number(&self, name: &'static str) -> Option<u64> {
        self.scalar(
            name,
            |value| value.as_integer()?.as_str().replace('_', "").parse().ok(),
            |t| t.parse().ok(),
        )
    }

    /// A duration.
    pub fn duration(&self, name: &'static str) -> Option<Duration> {
        self.scalar(
            name,
            |value| units::duration(value.as_str()?),
            units::duration,
        )
    }

    /// A size, in bytes.
    pub fn size(&self, name: &'static str) -> Option<u64> {
        self.scalar(name, |value| units::size(value.as_str()?), units::size)
    }

    /// A list of texts.
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

    /// Two texts of an inline table, both required when the table is there.
    pub fn pair(&self, name: &'static str, first: &str, second: &str) -> Option<(String, String)> {
        self.scalar(name, |value| two_texts(value, first, second), |_| None)
    }

    /// One such table, or a list of some.
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

    /// Every table of `published_ports`, with its key.
    pub fn each_port(&self, mut read: impl FnMut(&str, Section<'_>)) {
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
                    self.file.check_keys(PUBLISHED_PORT.name, &path, table);
                    let section = Section {
                        file: self.file,
                        name: PUBLISHED_PORT.name,
                        path: &path,
                        table: Some(table),
                    };
                    read(key.get_ref(), section);
                }
                None => {
                    let line = Some(self.file.line(value.span().start));
                    let what = "expected a table such as { access = \"public\" }".to_owned();
                    self.file.note(Mistake {
                        key: path,
                        line,
                        what,
                        suggestion: None,
                    });
                }
            }
        }
    }

    /// A duration longer than nothing.
    pub fn positive(&self, name: &'static str, default: Duration) -> Duration {
        let value = self.duration(name).unwrap_or(default);
        if value.is_zero() {
            self.wrong(name, "must be longer than nothing", None);
        }
        value
    }

    /// A text that must be there and mean something.
    pub fn required<T>(
        &self,
        name: &'static str,
        read: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<T> {
        let Some(text) = self.text(name) else {
            // A value of a wrong kind was noted already.
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

    /// A text that means something, where it is written.
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

    /// Notes that a value is not acceptable.
    pub fn wrong(&self, name: &str, what: impl Into<String>, suggestion: Option<String>) {
        let line = self.value(name).map(|(line, _)| line);
        self.file.note(Mistake {
            key: format!("{}.{name}", self.path),
            line,
            what: what.into(),
            suggestion,
        });
    }

    /// Notes that a value must be given.
    pub fn missing(&self, name: &str) {
        let example =
            keys::find(self.name, name).map(|key| format!("for example {name} = {}", key.example));
        self.file.note(Mistake {
            key: format!("{}.{name}", self.path),
            line: None,
            what: "is required".into(),
            suggestion: example,
        });
    }

    fn value(&self, name: &str) -> Option<(usize, &DeValue<'_>)> {
        let value = self.table?.get(name)?;
        Some((self.file.line(value.span().start), value.get_ref()))
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
        // Tables of tables come from the file only: a variable cannot say which app it means.
        let may = !self.name.starts_with("apps") && !self.path.starts_with("listen[");
        let variable = may.then(|| (self.name.to_owned(), name.to_owned()));
        let found = variable.and_then(|variable| self.file.environment.get_key_value(&variable));
        if let Some((variable, text)) = found {
            let read = from_environment(text);
            if read.is_none() {
                let key = format!("{ENVIRONMENT_PREFIX}{}__{}", variable.0, variable.1)
                    .to_ascii_uppercase();
                let what = match kind() {
                    Kind::Texts | Kind::Table => "only the file can set this".to_owned(),
                    Kind::Text | Kind::Switch | Kind::Number | Kind::Duration | Kind::Size => {
                        format!("expected {}, found {text:?}", kind().words())
                    }
                };
                self.file.note(Mistake {
                    key,
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
            let found = value
                .as_str()
                .map_or_else(|| value.type_str().to_owned(), |text| format!("{text:?}"));
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

/// The two texts of an inline table that has nothing else.
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
