//! Applies JSON merge patches (RFC 7396).

use serde_json::{Map, Value};

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
    use ludgate_cluster::merge_patch::between;
    use serde_json::json;

    use super::*;

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
