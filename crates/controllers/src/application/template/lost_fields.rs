//! Unknown fields, found by a round trip: serde ignores them when it parses an object as a type, so
//! they are absent when the object is serialised again.

use serde_json::Value;

/// The paths of fields in `written` that `kept` does not have, below `path`.
pub fn find(written: &Value, kept: &Value, path: &str) -> Vec<String> {
    let mut lost = Vec::new();
    collect(written, kept, path, &mut lost);
    lost
}

fn collect(written: &Value, kept: &Value, path: &str, lost: &mut Vec<String>) {
    match (written, kept) {
        (Value::Object(written), Value::Object(kept)) => {
            for (field, value) in written.iter().filter(|(_, value)| !value.is_null()) {
                let path = format!("{path}.{field}");
                match kept.get(field) {
                    Some(kept) => collect(value, kept, &path, lost),
                    None => lost.push(path),
                }
            }
        }
        (Value::Array(written), Value::Array(kept)) => {
            for (at, (value, kept)) in written.iter().zip(kept).enumerate() {
                collect(value, kept, &format!("{path}[{at}]"), lost);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_misspelled_field_is_found_at_any_depth() {
        let written = json!({
            "containers": [{ "name": "a" }, { "name": "b", "imag": "x", "tty": null }],
            "hostname": "kept",
            "replicas": 1,
        });
        let kept = json!({ "containers": [{ "name": "a" }, { "name": "b" }], "hostname": "kept" });
        assert_eq!(
            find(&written, &kept, "pod"),
            ["pod.containers[1].imag", "pod.replicas"]
        );
    }
}
