//! Whether an object already is as it was applied, so that nothing has to be written.

use serde_json::Value;

/// Whether the live object has every value of the desired one. The API server adds fields to
/// objects, but no entries to lists.
///
/// The texts of amounts must be canonical (`quantity`): `1024Mi` is stored as `1Gi`.
pub fn covers(live: &Value, desired: &Value) -> bool {
    match (live, desired) {
        (Value::Object(live), Value::Object(desired)) => desired
            .iter()
            .all(|(key, value)| covers(live.get(key).unwrap_or(&Value::Null), value)),
        (Value::Array(live), Value::Array(desired)) => {
            live.len() == desired.len()
                && live
                    .iter()
                    .zip(desired)
                    .all(|(live, desired)| covers(live, desired))
        }
        // An empty object or list is not stored.
        (Value::Null, Value::Object(desired)) => desired.is_empty(),
        (Value::Null, Value::Array(desired)) => desired.is_empty(),
        _ => live == desired,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn defaults_are_ignored_and_differences_are_not() {
        let live = json!({
            "spec": {
                "replicas": 1,
                "progressDeadlineSeconds": 600,
                "containers": [{ "name": "app", "image": "a:1", "terminationMessagePath": "/dev/termination-log" }],
            },
        });
        for (desired, wanted) in [
            (json!({ "spec": { "replicas": 1 } }), true),
            (json!({ "spec": { "replicas": 0 } }), false),
            (
                json!({ "spec": { "containers": [{ "name": "app", "image": "a:1" }] } }),
                true,
            ),
            (
                json!({ "spec": { "containers": [{ "name": "app", "image": "a:2" }] } }),
                false,
            ),
            (json!({ "spec": { "containers": [] } }), false),
            (
                json!({ "spec": { "nodeSelector": {}, "volumes": [] } }),
                true,
            ),
            (
                json!({ "spec": { "nodeSelector": { "disk": "ssd" } } }),
                false,
            ),
            (json!({ "spec": { "rollingUpdate": null } }), true),
        ] {
            assert_eq!(covers(&live, &desired), wanted, "{desired}");
        }
    }
}
