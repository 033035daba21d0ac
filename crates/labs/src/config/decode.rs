//! Reads sections of the configuration. All problems are found at once, each with its path.

use std::{collections::BTreeMap, fmt};

use super::value::ConfigValue;

/// A problem of the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabsConfigProblem {
    /// Path of the key, such as `lab.sizes[0].size`.
    pub path: String,
    /// What is wrong.
    pub problem: String,
}

impl fmt::Display for LabsConfigProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.path.as_str() {
            "" => f.write_str(&self.problem),
            path => write!(f, "{path}: {}", self.problem),
        }
    }
}

/// Where a value stands, and all problems so far.
pub(super) struct Place<'p> {
    pub(super) path: String,
    pub(super) problems: &'p mut Vec<LabsConfigProblem>,
}

impl Place<'_> {
    pub(super) fn complain(&mut self, problem: impl Into<String>) {
        self.problems.push(LabsConfigProblem {
            path: self.path.clone(),
            problem: problem.into(),
        });
    }

    fn expected(&mut self, what: &str, found: &ConfigValue) {
        let found = found.describe();
        self.complain(format!("expected {what}, found {found}"));
    }

    pub(super) fn at(&mut self, part: &str) -> Place<'_> {
        let path = match self.path.as_str() {
            "" => part.to_owned(),
            path => format!("{path}.{part}"),
        };
        Place {
            path,
            problems: self.problems,
        }
    }

    fn at_index(&mut self, index: usize) -> Place<'_> {
        Place {
            path: format!("{}[{index}]", self.path),
            problems: self.problems,
        }
    }
}

/// A type that a value of the configuration can have. `None` after a problem was recorded.
pub(super) trait Decode: Sized {
    fn decode(value: &ConfigValue, place: Place<'_>) -> Option<Self>;
}

impl Decode for String {
    fn decode(value: &ConfigValue, mut place: Place<'_>) -> Option<String> {
        if let Some(text) = value.as_text() {
            return Some(text.to_owned());
        }
        if matches!(value, ConfigValue::Number(_) | ConfigValue::Bool(_)) {
            let found = value.describe();
            place.complain(format!("expected a text, found {found}; put it in quotes"));
            return None;
        }
        place.expected("a text", value);
        None
    }
}

impl Decode for bool {
    fn decode(value: &ConfigValue, mut place: Place<'_>) -> Option<bool> {
        if let ConfigValue::Bool(value) = value {
            return Some(*value);
        }
        place.expected("true or false", value);
        None
    }
}

impl Decode for u64 {
    fn decode(value: &ConfigValue, mut place: Place<'_>) -> Option<u64> {
        let number = value.as_number().and_then(serde_json::Number::as_u64);
        if number.is_none() {
            place.expected("a whole number", value);
        }
        number
    }
}

impl<T: Decode> Decode for Vec<T> {
    fn decode(value: &ConfigValue, mut place: Place<'_>) -> Option<Vec<T>> {
        let ConfigValue::List(list) = value else {
            place.expected("a list", value);
            return None;
        };
        let values = list.iter().enumerate();
        let values = values.map(|(index, value)| T::decode(value, place.at_index(index)));
        // Also after the first problem, the others are looked for.
        let values: Vec<Option<T>> = values.collect();
        values.into_iter().collect()
    }
}

/// Texts by name, in the order of the document.
pub(super) type TextList = Vec<(String, String)>;

impl Decode for TextList {
    fn decode(value: &ConfigValue, mut place: Place<'_>) -> Option<TextList> {
        let ConfigValue::Map(map) = value else {
            place.expected("a section", value);
            return None;
        };
        let entry = |(key, value): &(String, ConfigValue)| {
            Some((key.clone(), String::decode(value, place.at(key))?))
        };
        let entries: Vec<Option<(String, String)>> = map.iter().map(entry).collect();
        entries.into_iter().collect()
    }
}

/// Texts of Kubernetes by key, such as labels.
pub(crate) type Labels = BTreeMap<String, String>;

impl Decode for Labels {
    fn decode(value: &ConfigValue, place: Place<'_>) -> Option<Labels> {
        Some(TextList::decode(value, place)?.into_iter().collect())
    }
}

/// One of several words.
pub(super) fn decode_word<T: Copy>(
    value: &ConfigValue,
    mut place: Place<'_>,
    words: &[(&str, T)],
) -> Option<T> {
    let text = value.as_text();
    let found = words.iter().find(|(word, _)| text == Some(word));
    if found.is_none() {
        let words: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        place.expected(&format!("one of {}", words.join(", ")), value);
    }
    found.map(|(_, meaning)| *meaning)
}

/// A section: reads its keys and names those that are left over.
pub(super) struct Section<'v, 'p> {
    entries: &'v [(String, ConfigValue)],
    place: Place<'p>,
    known: Vec<&'static str>,
}

impl<'v, 'p> Section<'v, 'p> {
    pub(super) fn open(value: &'v ConfigValue, mut place: Place<'p>) -> Option<Section<'v, 'p>> {
        let entries: &[(String, ConfigValue)] = if let ConfigValue::Map(entries) = value {
            entries
        } else {
            // `lab:` without anything below it is an empty section.
            if *value != ConfigValue::Null {
                place.expected("a section", value);
                return None;
            }
            &[]
        };
        Some(Section {
            entries,
            place,
            known: Vec::new(),
        })
    }

    /// The value of a key, which is also found with underscores. Null is like absent.
    pub(super) fn value(&mut self, name: &'static str) -> Option<&'v ConfigValue> {
        self.known.push(name);
        let snake = snake_case(name);
        let is_it = |key: &str| key == name || key == snake;
        let mut found = self.entries.iter().filter(|(key, _)| is_it(key));
        let value = found.next().map(|(_, value)| value);
        if found.next().is_some() {
            self.place
                .at(name)
                .complain(format!("also written as {snake}"));
        }
        value.filter(|value| **value != ConfigValue::Null)
    }

    pub(super) fn optional<T: Decode>(&mut self, name: &'static str) -> Option<T> {
        let value = self.value(name)?;
        T::decode(value, self.place.at(name))
    }

    pub(super) fn or<T: Decode>(&mut self, name: &'static str, default: T) -> T {
        self.optional(name).unwrap_or(default)
    }

    pub(super) fn required<T: Decode>(&mut self, name: &'static str) -> Option<T> {
        match self.value(name) {
            Some(value) => T::decode(value, self.place.at(name)),
            None => {
                self.place.at(name).complain("is missing");
                None
            }
        }
    }

    /// Keys that other versions have and that mean nothing here.
    pub(super) fn ignore(&mut self, names: &[&'static str]) {
        self.known.extend(names);
    }

    pub(super) fn at(&mut self, name: &str) -> Place<'_> {
        self.place.at(name)
    }

    pub(super) fn place(&mut self) -> &mut Place<'p> {
        &mut self.place
    }

    /// Names all keys that were not asked for.
    pub(super) fn finish(mut self) {
        for (key, _) in self.entries {
            let is_it = |name: &&&'static str| **name == key || snake_case(name) == *key;
            if self.known.iter().any(|name| is_it(&name)) {
                continue;
            }
            let nearest = nearest(key, &self.known);
            let hint = nearest.map_or_else(String::new, |name| format!("; did you mean {name}?"));
            self.place.at(key).complain(format!("unknown key{hint}"));
        }
    }
}

fn nearest(key: &str, known: &[&'static str]) -> Option<&'static str> {
    let distance =
        |name: &str| strsim::damerau_levenshtein(&key.to_lowercase(), &name.to_lowercase());
    let best = known.iter().min_by_key(|name| distance(name))?;
    (distance(best) <= 3).then_some(best)
}

/// `numReleases` as `num_releases`.
fn snake_case(name: &str) -> String {
    let mut snake = String::new();
    for letter in name.chars() {
        if letter.is_ascii_uppercase() {
            snake.push('_');
        }
        snake.push(letter.to_ascii_lowercase());
    }
    snake
}
