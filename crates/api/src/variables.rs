//! Environment variables that people set. They become part of a pod, so only a name and a text
//! pass: `valueFrom` could read any Secret of the namespace.

use ludgate_controllers::application::{environment::PRESET_NAMES, template::is_variable_name};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::error::OperationError;

/// Maximum number of variables of an app.
const MAX_VARIABLES: usize = 500;
/// What consoles send beside a name and a value. It is not part of the pod.
const OF_FORMS: [&str; 2] = ["required", "description"];

/// A variable.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub struct Variable {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: String,
}

/// Reads `env` of a request.
///
/// # Errors
/// [`OperationError::Invalid`] names the variable.
pub fn parse(env: &Value) -> Result<Vec<Variable>, OperationError> {
    let Some(entries) = env.as_array() else {
        let what = "env: must be a list of objects with name and value";
        return Err(OperationError::Invalid(what.to_owned()));
    };
    if entries.len() > MAX_VARIABLES {
        let what = format!("env: at most {MAX_VARIABLES} variables");
        return Err(OperationError::Invalid(what));
    }
    entries.iter().enumerate().map(variable).collect()
}

fn variable((at, entry): (usize, &Value)) -> Result<Variable, OperationError> {
    let wrong = |what: String| Err(OperationError::Invalid(format!("env[{at}]: {what}")));
    let Some(fields) = entry.as_object() else {
        return wrong("must be an object with name and value".to_owned());
    };
    let Some(name) = entry["name"].as_str() else {
        return wrong("name: must be a text".to_owned());
    };
    if !is_variable_name(name) || name.len() > 253 {
        return wrong(format!(
            "{name:?}: a name has letters, digits, and -._, and does not begin with a digit"
        ));
    }
    if PRESET_NAMES.contains(&name) || name.starts_with("PRIMEHUB_") {
        return wrong(format!(
            "{name}: names that begin with PRIMEHUB_ are reserved"
        ));
    }
    let is_known = |field: &&String| {
        let field = field.as_str();
        field == "name" || field == "value" || OF_FORMS.contains(&field)
    };
    if let Some(field) = fields.keys().find(|field| !is_known(field)) {
        return wrong(format!(
            "{name}: {field} is not allowed, only name and value"
        ));
    }
    let value = match &entry["value"] {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            return wrong(format!("{name}: value must be a text; put it in quotes"));
        }
    };
    if value.contains('\0') {
        return wrong(format!("{name}: value contains a NUL character"));
    }
    Ok(Variable {
        name: name.to_owned(),
        value,
    })
}

/// The variables of a stored list that have a text, or no value at all.
pub fn texts_of(env: &Value) -> Vec<Variable> {
    let entries = env.as_array().map(Vec::as_slice).unwrap_or_default();
    let variable = |entry: &Value| {
        let is_empty = entry["value"].is_null() && entry["valueFrom"].is_null();
        let value = match is_empty {
            true => "",
            false => entry["value"].as_str()?,
        };
        Some(Variable {
            name: entry["name"].as_str()?.to_owned(),
            value: value.to_owned(),
        })
    };
    entries.iter().filter_map(variable).collect()
}

/// The variables as a container has them, after those in `before`.
pub fn appended(before: &Value, variables: &[Variable]) -> Value {
    let mut all = before.as_array().cloned().unwrap_or_default();
    all.extend(variables.iter().map(|variable| json!(variable)));
    Value::Array(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_and_a_text_pass_and_what_forms_add_is_dropped() {
        let env = json!([
            { "name": "A", "value": "1", "required": true, "description": "x" },
            { "name": "b.c-d_e", "value": null },
        ]);
        let read = parse(&env).expect("valid");
        assert_eq!(
            json!(read),
            json!([{ "name": "A", "value": "1" }, { "name": "b.c-d_e", "value": "" }])
        );
    }

    #[test]
    fn everything_else_is_refused_by_name() {
        let secret = json!({ "secretKeyRef": { "name": "s", "key": "k" } });
        for (entry, wanted) in [
            (
                json!({ "name": "A", "valueFrom": secret }),
                "env[0]: A: valueFrom is not allowed, only name and value",
            ),
            (
                json!({ "name": "A", "value": 7 }),
                "env[0]: A: value must be a text; put it in quotes",
            ),
            (json!({ "value": "x" }), "env[0]: name: must be a text"),
            (
                json!("A=1"),
                "env[0]: must be an object with name and value",
            ),
            (
                json!({ "name": "1A", "value": "" }),
                "env[0]: \"1A\": a name has letters, digits, and -._, and does not begin with a digit",
            ),
            (
                json!({ "name": "PRIMEHUB_GROUP", "value": "x" }),
                "env[0]: PRIMEHUB_GROUP: names that begin with PRIMEHUB_ are reserved",
            ),
            (
                json!({ "name": "PRIMEHUB_NEW", "value": "x" }),
                "env[0]: PRIMEHUB_NEW: names that begin with PRIMEHUB_ are reserved",
            ),
            (
                json!({ "name": "A", "value": "a\0b" }),
                "env[0]: A: value contains a NUL character",
            ),
        ] {
            let refused = parse(&json!([entry])).expect_err("not valid");
            assert_eq!(refused, OperationError::Invalid(wanted.to_owned()));
        }
        assert!(parse(&json!({ "A": "1" })).is_err());
        assert!(parse(&json!(vec![json!({ "name": "A" }); 501])).is_err());
    }
}
