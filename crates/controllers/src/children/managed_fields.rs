//! Which manager owns which fields of an object, as the API server records it for server-side
//! apply.
//!
//! A field that an apply no longer has is removed only if no other manager owns it. So the fields
//! of the controller that wrote an object before must move to the entry of the one that applies it
//! now.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{FieldsV1, ManagedFieldsEntry};
use serde_json::{Map, Value, json};

const SPEC: &str = "f:spec";
/// The API server chose these addresses of a Service. Without an owner they stay as they are.
const ALLOCATED: [&str; 2] = ["f:clusterIP", "f:clusterIPs"];

/// The entries of an object whose spec one applying manager takes over from all managers that wrote
/// it by updates. `None`: no update wrote the spec.
///
/// Labels, annotations and finalizers stay with their managers: other programs may have added them.
/// So do fields of a subresource, and of another version of the API, whose paths may differ.
pub fn take_over(
    entries: &[ManagedFieldsEntry],
    manager: &str,
    api_version: &str,
) -> Option<Vec<ManagedFieldsEntry>> {
    let mut spec = Map::new();
    let mut time = None;
    let mut kept = Vec::new();
    for entry in entries {
        let mut entry = entry.clone();
        if is_update(&entry, api_version)
            && let Some(taken) = remove_spec(&mut entry)
        {
            unite(&mut spec, taken);
            time = time.or_else(|| entry.time.clone());
        }
        if !is_empty(&entry) {
            kept.push(entry);
        }
    }
    if spec.is_empty() {
        return None;
    }
    let own = kept.iter().position(|entry| is_apply(entry, manager));
    let mut own = match own {
        Some(at) => kept.remove(at),
        None => ManagedFieldsEntry {
            api_version: Some(api_version.to_owned()),
            fields_type: Some("FieldsV1".into()),
            manager: Some(manager.to_owned()),
            operation: Some("Apply".into()),
            time,
            ..ManagedFieldsEntry::default()
        },
    };
    let mut fields = match own.fields_v1.take() {
        Some(FieldsV1(Value::Object(fields))) => fields,
        Some(_) | None => Map::new(),
    };
    let taken = [(SPEC.to_owned(), Value::Object(spec))];
    unite(&mut fields, taken.into_iter().collect());
    own.fields_v1 = Some(FieldsV1(Value::Object(fields)));
    kept.push(own);
    Some(kept)
}

fn is_update(entry: &ManagedFieldsEntry, api_version: &str) -> bool {
    entry.operation.as_deref() == Some("Update")
        && entry.api_version.as_deref() == Some(api_version)
        && is_whole(entry)
}

fn is_apply(entry: &ManagedFieldsEntry, manager: &str) -> bool {
    entry.operation.as_deref() == Some("Apply")
        && entry.manager.as_deref() == Some(manager)
        && is_whole(entry)
}

/// Whether the object itself was written, and no subresource.
fn is_whole(entry: &ManagedFieldsEntry) -> bool {
    entry.subresource.as_deref().unwrap_or_default().is_empty()
}

fn is_empty(entry: &ManagedFieldsEntry) -> bool {
    let fields = entry.fields_v1.as_ref().and_then(|it| it.0.as_object());
    fields.is_none_or(Map::is_empty)
}

/// Removes the fields of the spec from an entry, and returns them.
fn remove_spec(entry: &mut ManagedFieldsEntry) -> Option<Map<String, Value>> {
    let fields = entry.fields_v1.as_mut()?.0.as_object_mut()?;
    let Value::Object(mut spec) = fields.remove(SPEC)? else {
        return None;
    };
    for field in ALLOCATED {
        spec.remove(field);
    }
    Some(spec)
}

/// Adds one set of fields to another. Below a field, an empty set stands for the field itself, and
/// so does the key `.` beside others.
fn unite(into: &mut Map<String, Value>, from: Map<String, Value>) {
    for (key, value) in from {
        let Value::Object(from) = value else {
            continue;
        };
        let known = into.entry(key).or_insert(Value::Null);
        if let Value::Object(into) = known {
            if into.is_empty() != from.is_empty() {
                into.insert(".".into(), json!({}));
            }
            unite(into, from);
        } else {
            *known = Value::Object(from);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const APPS: &str = "apps/v1";

    fn entry(manager: &str, operation: &str, fields: Value) -> Value {
        json!({
            "apiVersion": APPS, "fieldsType": "FieldsV1", "fieldsV1": fields,
            "manager": manager, "operation": operation,
        })
    }

    fn parsed(entries: &Value) -> Vec<ManagedFieldsEntry> {
        serde_json::from_value(entries.clone()).expect("entries")
    }

    #[test]
    fn the_spec_of_updates_moves_and_all_else_stays() {
        let metadata = json!({ "f:labels": { ".": {}, "f:app": {} } });
        let status = json!({
            "f:metadata": { "f:annotations": { "f:deployment.kubernetes.io/revision": {} } },
            "f:status": { "f:replicas": {} },
        });
        let kubernetes = entry("kube-controller-manager", "Update", status);
        let mut scale = entry(
            "kubectl",
            "Update",
            json!({ "f:spec": { "f:replicas": {} } }),
        );
        scale["subresource"] = "scale".into();
        let mut beta = entry("old", "Update", json!({ "f:spec": { "f:paused": {} } }));
        beta["apiVersion"] = "extensions/v1beta1".into();
        let argo = entry("argo", "Apply", json!({ "f:spec": { "f:replicas": {} } }));
        let written = json!({ "f:replicas": {}, "f:selector": {} });
        let by = |fields: Value| entry("ludgate", "Apply", fields);
        for (what, before, after) in [
            (
                "the labels stay with their manager",
                json!([entry(
                    "manager",
                    "Update",
                    json!({ "f:metadata": metadata, "f:spec": written })
                )]),
                json!([
                    entry("manager", "Update", json!({ "f:metadata": metadata })),
                    by(json!({ "f:spec": written })),
                ]),
            ),
            (
                "an entry without fields goes",
                json!([
                    entry("manager", "Update", json!({ "f:spec": written })),
                    kubernetes
                ]),
                json!([kubernetes, by(json!({ "f:spec": written }))]),
            ),
            (
                "several managers, this one by updates among them",
                json!([
                    entry("kubectl", "Update", json!({ "f:spec": { "f:paused": {} } })),
                    entry(
                        "ludgate",
                        "Update",
                        json!({ "f:spec": { "f:replicas": {} } })
                    ),
                ]),
                json!([by(
                    json!({ "f:spec": { "f:paused": {}, "f:replicas": {} } })
                )]),
            ),
            (
                "an entry of this manager grows",
                json!([
                    by(json!({ "f:metadata": metadata, "f:spec": { "f:replicas": {} } })),
                    entry(
                        "manager",
                        "Update",
                        json!({ "f:spec": { "f:selector": {} } })
                    ),
                ]),
                json!([by(json!({ "f:metadata": metadata, "f:spec": written }))]),
            ),
            (
                "addresses of a Service get no owner",
                json!([entry(
                    "velero",
                    "Update",
                    json!({
                        "f:spec": { "f:clusterIP": {}, "f:clusterIPs": { ".": {}, "v:\"10.0.0.1\"": {} }, "f:type": {} },
                    })
                )]),
                json!([by(json!({ "f:spec": { "f:type": {} } }))]),
            ),
            (
                "subresources, other versions and other applying managers stay",
                json!([
                    scale,
                    beta,
                    argo,
                    entry(
                        "manager",
                        "Update",
                        json!({ "f:spec": { "f:selector": {} } })
                    ),
                ]),
                json!([
                    scale,
                    beta,
                    argo,
                    by(json!({ "f:spec": { "f:selector": {} } }))
                ]),
            ),
        ] {
            let taken = take_over(&parsed(&before), "ludgate", APPS);
            assert_eq!(json!(taken), after, "{what}");
        }
        for (what, unchanged) in [
            ("no entries", json!([])),
            ("only ours", json!([by(json!({ "f:spec": written }))])),
            ("no spec", json!([kubernetes])),
            ("none of this object", json!([scale, beta, argo])),
        ] {
            assert_eq!(
                take_over(&parsed(&unchanged), "ludgate", APPS),
                None,
                "{what}"
            );
        }
    }

    #[test]
    fn the_time_of_the_first_update_is_kept() {
        let mut first = entry("manager", "Update", json!({ "f:spec": { "f:type": {} } }));
        first["time"] = "2024-05-01T10:00:00Z".into();
        let taken = take_over(&parsed(&json!([first])), "ludgate", APPS).expect("taken");
        assert_eq!(json!(taken)[0]["time"], "2024-05-01T10:00:00Z");
    }

    #[test]
    fn sets_are_united_and_a_field_stays_a_field() {
        let env = |names: &[&str]| -> Value {
            let items = names
                .iter()
                .map(|name| (format!("k:{{\"name\":\"{name}\"}}"), json!({})));
            Value::Object(items.collect())
        };
        for (one, other, united) in [
            (json!({}), json!({ "f:a": {} }), json!({ "f:a": {} })),
            (
                json!({ "f:a": {} }),
                json!({ "f:a": {} }),
                json!({ "f:a": {} }),
            ),
            (
                json!({ "f:a": {} }),
                json!({ "f:a": { "f:b": {} } }),
                json!({ "f:a": { ".": {}, "f:b": {} } }),
            ),
            (
                json!({ "f:a": { ".": {}, "f:b": {} } }),
                json!({ "f:a": {} }),
                json!({ "f:a": { ".": {}, "f:b": {} } }),
            ),
            (
                json!({ "f:a": { "f:b": {} } }),
                json!({ "f:a": { "f:c": {} } }),
                json!({ "f:a": { "f:b": {}, "f:c": {} } }),
            ),
            (
                json!({ "f:env": env(&["A", "B"]) }),
                json!({ "f:env": env(&["B", "C"]) }),
                json!({ "f:env": env(&["A", "B", "C"]) }),
            ),
        ] {
            for (into, from) in [(&one, &other), (&other, &one)] {
                let mut set = into.as_object().expect("a set").clone();
                unite(&mut set, from.as_object().expect("a set").clone());
                assert_eq!(Value::Object(set), united, "{one} and {other}");
            }
        }
    }
}
