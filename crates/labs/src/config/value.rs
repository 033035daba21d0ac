//! A YAML document in memory. The order of keys is kept, since files and volumes are mounted in it.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Number, Value};

/// One value of a document.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ConfigValue {
    Null,
    Bool(bool),
    Number(Number),
    Text(String),
    List(Vec<ConfigValue>),
    Map(Vec<(String, ConfigValue)>),
}

impl ConfigValue {
    /// What was found, for an error.
    pub(crate) fn describe(&self) -> String {
        match self {
            ConfigValue::Null => "nothing".to_owned(),
            ConfigValue::Bool(value) => value.to_string(),
            ConfigValue::Number(value) => value.to_string(),
            ConfigValue::Text(value) => format!("\"{value}\""),
            ConfigValue::List(_) => "a list".to_owned(),
            ConfigValue::Map(_) => "a section".to_owned(),
        }
    }

    pub(crate) fn as_text(&self) -> Option<&str> {
        if let ConfigValue::Text(text) = self {
            return Some(text);
        }
        None
    }

    pub(crate) fn as_number(&self) -> Option<&Number> {
        if let ConfigValue::Number(number) = self {
            return Some(number);
        }
        None
    }

    pub(crate) fn to_json(&self) -> Value {
        match self {
            ConfigValue::Null => Value::Null,
            ConfigValue::Bool(value) => Value::Bool(*value),
            ConfigValue::Number(value) => Value::Number(value.clone()),
            ConfigValue::Text(value) => Value::String(value.clone()),
            ConfigValue::List(list) => list.iter().map(ConfigValue::to_json).collect(),
            ConfigValue::Map(map) => {
                let entries = map
                    .iter()
                    .map(|(key, value)| (key.clone(), value.to_json()));
                Value::Object(entries.collect())
            }
        }
    }
}

impl<'de> Deserialize<'de> for ConfigValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<ConfigValue, D::Error> {
        deserializer.deserialize_any(ValueVisitor)
    }
}

struct ValueVisitor;

impl<'de> Visitor<'de> for ValueVisitor {
    type Value = ConfigValue;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a YAML value")
    }

    fn visit_unit<E>(self) -> Result<ConfigValue, E> {
        Ok(ConfigValue::Null)
    }

    fn visit_none<E>(self) -> Result<ConfigValue, E> {
        Ok(ConfigValue::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<ConfigValue, D::Error> {
        deserializer.deserialize_any(ValueVisitor)
    }

    fn visit_bool<E>(self, value: bool) -> Result<ConfigValue, E> {
        Ok(ConfigValue::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<ConfigValue, E> {
        Ok(ConfigValue::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<ConfigValue, E> {
        Ok(ConfigValue::Number(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<ConfigValue, E> {
        // Infinity and NaN are no numbers of JSON.
        Ok(Number::from_f64(value)
            .map_or_else(|| ConfigValue::Text(value.to_string()), ConfigValue::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<ConfigValue, E> {
        Ok(ConfigValue::Text(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<ConfigValue, E> {
        Ok(ConfigValue::Text(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<ConfigValue, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = list.next_element()? {
            values.push(value);
        }
        Ok(ConfigValue::List(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ConfigValue, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = map.next_entry()? {
            entries.push(entry);
        }
        Ok(ConfigValue::Map(entries))
    }
}
