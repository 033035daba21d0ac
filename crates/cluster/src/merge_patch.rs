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

/// Changes a document by a patch: fields that are null in the patch are removed, and lists are
/// replaced as a whole (RFC 7396 section 2).
pub fn apply(document: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *document = patch.clone();
        return;
    };
    if !document.is_object() {
        *document = Value::Object(Map::new());
    }
    let Value::Object(document) = document else {
        return;
    };
    for (key, value) in patch {
        if value.is_null() {
            document.remove(key);
        } else {
            apply(document.entry(key.clone()).or_insert(Value::Null), value);
        }
    }
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

    #[test]
    fn fields_are_replaced_removed_and_added() {
        for (document, patch, wanted) in [
            (
                json!({ "a": "b" }),
                json!({ "a": "c" }),
                json!({ "a": "c" }),
            ),
            (
                json!({ "a": "b" }),
                json!({ "b": "c" }),
                json!({ "a": "b", "b": "c" }),
            ),
            (json!({ "a": "b" }), json!({ "a": null }), json!({})),
            (
                json!({ "a": ["b"] }),
                json!({ "a": "c" }),
                json!({ "a": "c" }),
            ),
            (
                json!({ "a": [1] }),
                json!({ "a": [2, null] }),
                json!({ "a": [2, null] }),
            ),
            (
                json!({ "a": { "b": "c" } }),
                json!({ "a": { "b": "d", "c": null } }),
                json!({ "a": { "b": "d" } }),
            ),
            (
                json!(["a"]),
                json!({ "a": { "b": null } }),
                json!({ "a": {} }),
            ),
            (json!({ "a": 1 }), json!(["c"]), json!(["c"])),
        ] {
            let mut patched = document.clone();
            apply(&mut patched, &patch);
            assert_eq!(patched, wanted, "{document} {patch}");
            let mut back = document.clone();
            apply(&mut back, &between(&document, &wanted));
            assert_eq!(back, wanted, "the difference of {document} and {wanted}");
        }
    }
}
