//! JSON merge patches (RFC 7396).

use serde_json::{Map, Value};

/// The patch that makes `to` of `from`: fields that `to` does not have are null. Lists are replaced
/// as a whole.
pub fn between(from: &Value, to: &Value) -> Value {
    let (Value::Object(from), Value::Object(to)) = (from, to) else {
        return to.clone();
    };
    let removed = from.keys().filter(|key| !to.contains_key(*key));
    let mut patch: Map<String, Value> = removed.map(|key| (key.clone(), Value::Null)).collect();
    for (key, value) in to {
        let from = from.get(key).unwrap_or(&Value::Null);
        patch.insert(key.clone(), between(from, value));
    }
    Value::Object(patch)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_patch_removes_what_is_not_wanted_and_nothing_else() {
        for (stored, wanted, patch) in [
            (
                json!({ "a": 1, "b": { "c": 1, "d": 2 }, "e": [1, 2] }),
                json!({ "b": { "d": 3 }, "e": [2], "f": { "g": 1 } }),
                json!({ "a": null, "b": { "c": null, "d": 3 }, "e": [2], "f": { "g": 1 } }),
            ),
            (
                json!({ "a": { "b": 1 } }),
                json!({ "a": 1 }),
                json!({ "a": 1 }),
            ),
            (
                json!({ "a": 1 }),
                json!({ "a": { "b": 1 } }),
                json!({ "a": { "b": 1 } }),
            ),
            (json!({}), json!({}), json!({})),
        ] {
            assert_eq!(between(&stored, &wanted), patch, "{stored}");
        }
    }
}
