//! Values of charts. An installation has them as an object or as YAML, never as both.
//!
//! The values of an installation are whole: the defaults of the definition are what a new
//! installation begins with, and are not merged later. Helm merges the values over those of the
//! chart.

use ludgate_cluster::crd::{
    definition::ApplicationDefinitionSpec, installation::ApplicationInstallationSpec,
};
use serde_json::{Map, Value};
use serde_saphyr::DuplicateKeyPolicy;

/// Values by their keys.
pub type ChartValues = Map<String, Value>;

/// Why values cannot be read. No message has a value, since values may be secrets.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ValuesError {
    /// The YAML cannot be read.
    #[error("invalid yaml{}", at_line(.line))]
    InvalidYaml {
        /// The line of the mistake, from 1, if it is known.
        line: Option<u64>,
    },
    /// The values are a list or a scalar.
    #[error("values must be an object")]
    NoObject,
    /// Both forms are set.
    #[error("Only {object} or {block} can be set, but not both simultaneously")]
    Both {
        /// The name of the field with the object.
        object: &'static str,
        /// The name of the field with the YAML.
        block: &'static str,
    },
}

fn at_line(line: &Option<u64>) -> String {
    line.map_or_else(String::new, |line| format!(" at line {line}"))
}

/// The values of an installation; none are an empty object.
///
/// # Errors
/// See [`ValuesError`].
pub fn installation_values(spec: &ApplicationInstallationSpec) -> Result<ChartValues, ValuesError> {
    let block = spec.values_block.as_deref();
    one_of(spec.values.as_ref(), block, "values", "valuesBlock")
}

/// The values that a new installation begins with.
///
/// # Errors
/// See [`ValuesError`].
pub fn default_values(spec: &ApplicationDefinitionSpec) -> Result<ChartValues, ValuesError> {
    let block = spec.default_values_block.as_deref();
    let object = spec.default_values.as_ref();
    one_of(object, block, "defaultValues", "defaultValuesBlock")
}

/// Whether an object has values. Clients write an empty object where there are none.
pub fn has_values(object: Option<&Value>) -> bool {
    match object {
        None | Some(Value::Null) => false,
        Some(Value::Object(object)) => !object.is_empty(),
        Some(Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_)) => true,
    }
}

fn one_of(
    object: Option<&Value>,
    block: Option<&str>,
    object_name: &'static str,
    block_name: &'static str,
) -> Result<ChartValues, ValuesError> {
    let block = block.unwrap_or_default();
    if !has_values(object) {
        return parse_block(block);
    }
    if !block.is_empty() {
        return Err(ValuesError::Both {
            object: object_name,
            block: block_name,
        });
    }
    match object {
        Some(Value::Object(values)) => Ok(values.clone()),
        _ => Err(ValuesError::NoObject),
    }
}

/// Parses YAML as Helm does: booleans and octal numbers are those of YAML 1.1, and of two equal
/// keys the last one counts. A text without values is an empty object.
///
/// # Errors
/// The text is no YAML, or no object.
pub fn parse_block(text: &str) -> Result<ChartValues, ValuesError> {
    let options = serde_saphyr::options! {
        duplicate_keys: DuplicateKeyPolicy::LastWins,
        legacy_octal_numbers: true,
        with_snippet: false,
    };
    let parsed: Result<Value, _> = serde_saphyr::from_str_with_options(text, options);
    match parsed {
        Ok(Value::Object(values)) => Ok(values),
        Ok(Value::Null) => Ok(Map::new()),
        Ok(_) => Err(ValuesError::NoObject),
        Err(error) => Err(ValuesError::InvalidYaml {
            line: error.location().map(|location| location.line()),
        }),
    }
}

/// The values as YAML.
///
/// # Errors
/// They cannot be written, such as with a key that no YAML has.
pub fn to_block(values: &ChartValues) -> Result<String, serde_saphyr::SerializeError> {
    match values.is_empty() {
        true => Ok(String::new()),
        false => serde_saphyr::to_string(values),
    }
}

/// JSON with the keys of all objects in order: equal values have equal texts.
pub fn canonical(value: &Value) -> String {
    match value {
        Value::Object(object) => {
            let mut entries: Vec<_> = object.iter().collect();
            entries.sort_unstable_by_key(|(key, _)| *key);
            let entries = entries.into_iter().map(|(key, value)| {
                let key = Value::String(key.clone());
                format!("{key}:{}", canonical(value))
            });
            format!("{{{}}}", entries.collect::<Vec<_>>().join(","))
        }
        Value::Array(list) => {
            let items: Vec<_> = list.iter().map(canonical).collect();
            format!("[{}]", items.join(","))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn values(object: Option<Value>, block: Option<&str>) -> Result<Value, String> {
        let spec = ApplicationInstallationSpec {
            values: object,
            values_block: block.map(str::to_owned),
            ..Default::default()
        };
        let values = installation_values(&spec).map_err(|error| error.to_string())?;
        Ok(Value::Object(values))
    }

    #[test]
    fn an_object_or_yaml_gives_the_values() {
        let both = "Only values or valuesBlock can be set, but not both simultaneously";
        let block = "# a comment\na: \"x & y\"\nb: {c: [1, null]}\n";
        for (object, block, wanted) in [
            (None, None, Ok(json!({}))),
            (Some(json!({})), None, Ok(json!({}))),
            (Some(json!({ "a": 1 })), None, Ok(json!({ "a": 1 }))),
            (Some(json!({ "a": 1 })), Some(""), Ok(json!({ "a": 1 }))),
            (
                Some(json!({})),
                Some(block),
                Ok(json!({ "a": "x & y", "b": { "c": [1, null] } })),
            ),
            (None, Some("# only a comment\n"), Ok(json!({}))),
            (Some(json!({ "a": 1 })), Some("a: 1"), Err(both)),
            (Some(json!([1])), None, Err("values must be an object")),
            (None, Some("[1]"), Err("values must be an object")),
        ] {
            let found = values(object.clone(), block);
            assert_eq!(found, wanted.map_err(str::to_owned), "{object:?} {block:?}");
        }
    }

    #[test]
    fn the_defaults_of_a_definition_follow_the_same_rules() {
        let mut spec = ApplicationDefinitionSpec {
            default_values_block: Some("a: 1".into()),
            ..Default::default()
        };
        assert_eq!(
            default_values(&spec).map(Value::Object),
            Ok(json!({ "a": 1 }))
        );
        spec.default_values = Some(json!({ "a": 2 }));
        let error = default_values(&spec).expect_err("both").to_string();
        let wanted =
            "Only defaultValues or defaultValuesBlock can be set, but not both simultaneously";
        assert_eq!(error, wanted);
    }

    #[test]
    fn yaml_means_what_it_means_to_helm() {
        for (text, wanted) in [
            ("a: yes\nb: off", json!({ "a": true, "b": false })),
            ("a: \"yes\"", json!({ "a": "yes" })),
            ("mode: 0644", json!({ "mode": 420 })),
            ("a: 1\na: 2", json!({ "a": 2 })),
            ("1: a", json!({ "1": "a" })),
            (
                "x: &x {a: 1}\ny: {<<: *x, b: 2}",
                json!({ "x": { "a": 1 }, "y": { "a": 1, "b": 2 } }),
            ),
            (
                "rule: '{{ $labels.x }}'",
                json!({ "rule": "{{ $labels.x }}" }),
            ),
        ] {
            let parsed = parse_block(text).map(Value::Object);
            assert_eq!(parsed, Ok(wanted), "{text:?}");
        }
    }

    #[test]
    fn a_mistake_names_its_line_and_no_value() {
        let error = parse_block("a: 1\npassword: [secret\n")
            .expect_err("broken")
            .to_string();
        assert!(error.starts_with("invalid yaml"), "{error}");
        assert!(!error.contains("secret"), "{error}");
    }

    #[test]
    fn the_order_of_keys_does_not_change_the_canonical_text() {
        let one: Value =
            serde_json::from_str(r#"{"b":[{"y":1,"x":"\""}],"a":null}"#).expect("JSON");
        assert_eq!(canonical(&one), r#"{"a":null,"b":[{"x":"\"","y":1}]}"#);
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::Bool),
            any::<i64>().prop_map(|number| json!(number)),
            "\\PC{0,12}".prop_map(Value::String),
        ];
        leaf.prop_recursive(3, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
                prop::collection::btree_map("[a-z]{1,6}", inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn values_survive_as_yaml(
            values in prop::collection::btree_map("[a-z][a-z0-9]{1,6}", any_value(), 0..4)
        ) {
            let values: ChartValues = values.into_iter().collect();
            let block = to_block(&values).expect("YAML");
            prop_assert_eq!(parse_block(&block), Ok(values), "{}", block);
        }

        #[test]
        fn no_text_panics(text in "\\PC{0,40}|[a-z:\\[\\]{}&*\\- \\n]{0,40}") {
            let _ = parse_block(&text);
        }
    }
}
