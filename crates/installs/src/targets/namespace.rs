//! The namespace that a chart is installed in.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::core::v1::Namespace,
    apimachinery::pkg::apis::meta::v1::{ManagedFieldsEntry, ObjectMeta},
};
use kube::api::ApiResource;
use ludgate_cluster::{
    deadline::ApiCallError,
    writer::{NamespacedName, Writer},
};
use serde_json::{Value, json};

/// The field manager of the objects that this program writes.
pub const MANAGER: &str = "ludgate-installs";

/// What an installation says about its namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamespaceMeta {
    /// Its name.
    pub name: String,
    /// Labels that it gets.
    pub labels: BTreeMap<String, String>,
    /// Annotations that it gets.
    pub annotations: BTreeMap<String, String>,
}

impl NamespaceMeta {
    /// A namespace that gets no label and no annotation.
    pub fn unlabelled(name: &str) -> NamespaceMeta {
        NamespaceMeta {
            name: name.to_owned(),
            ..NamespaceMeta::default()
        }
    }

    /// Whether the namespace gets no label and no annotation.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.annotations.is_empty()
    }

    /// Makes the namespace, or gives it the labels and annotations. Those of other writers and of
    /// other owners stay; earlier ones of this owner that are no longer here are removed. `owner`
    /// is the release that asks for them.
    ///
    /// # Errors
    /// See [`ApiCallError`], and [`field_conflict`] for labels that differ from those of others.
    pub async fn apply(&self, writer: &Writer, owner: &str) -> Result<(), ApiCallError> {
        let kind = ApiResource::erase::<Namespace>(&());
        let name = NamespacedName {
            namespace: "",
            name: &self.name,
        };
        writer
            .apply_as(&manager_of(owner), &kind, name, &self.object())
            .await?;
        Ok(())
    }

    /// Whether a namespace has the labels and annotations, and no other ones that this owner has
    /// set before. Its managed fields tell which those are.
    pub fn is_applied(&self, live: &ObjectMeta, owner: &str) -> bool {
        let manager = manager_of(owner);
        let entries = live.managed_fields.iter().flatten();
        let own = entries.filter(|entry| entry.manager.as_ref() == Some(&manager));
        let own: Vec<&Value> = own
            .filter_map(|entry| Some(&entry.fields_v1.as_ref()?.0))
            .collect();
        let are_kept = |kind: &str, wanted: &BTreeMap<String, String>| {
            own.iter()
                .all(|fields| owned_keys(fields, kind).all(|key| wanted.contains_key(key)))
        };
        has_all(live.labels.as_ref(), &self.labels)
            && has_all(live.annotations.as_ref(), &self.annotations)
            && are_kept("f:labels", &self.labels)
            && are_kept("f:annotations", &self.annotations)
    }

    fn object(&self) -> Value {
        let mut metadata = json!({ "name": self.name });
        for (key, texts) in [("labels", &self.labels), ("annotations", &self.annotations)] {
            if !texts.is_empty() {
                metadata[key] = json!(texts);
            }
        }
        json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": metadata })
    }
}

/// Removes the managed fields of other writers, which are not needed in memory.
pub fn keep_own_fields(metadata: &mut ObjectMeta) {
    if let Some(entries) = &mut metadata.managed_fields {
        entries.retain(is_of_owner);
    }
}

/// The field manager of the labels and annotations that a release asks for.
fn manager_of(owner: &str) -> String {
    format!("{MANAGER}-{owner}")
}

fn is_of_owner(entry: &ManagedFieldsEntry) -> bool {
    let manager = entry.manager.as_deref().unwrap_or_default();
    manager.starts_with(&manager_of(""))
}

/// The labels or annotations among the fields of a manager.
fn owned_keys<'f>(fields: &'f Value, kind: &str) -> impl Iterator<Item = &'f str> {
    let keys = fields["f:metadata"][kind].as_object();
    let keys = keys.into_iter().flat_map(serde_json::Map::keys);
    keys.filter_map(|key| key.strip_prefix("f:"))
}

/// Whether all wanted entries were found.
fn has_all(found: Option<&BTreeMap<String, String>>, wanted: &BTreeMap<String, String>) -> bool {
    wanted
        .iter()
        .all(|(key, value)| found.and_then(|found| found.get(key)) == Some(value))
}

/// The fields that other writers own with other values, if this is why a call failed.
pub fn field_conflict(error: &ApiCallError) -> Option<String> {
    let ApiCallError::Api(kube::Error::Api(status)) = error else {
        return None;
    };
    let causes = status.details.iter().flat_map(|details| &details.causes);
    let conflicts = causes.filter(|cause| cause.reason == "FieldManagerConflict");
    let conflicts: Vec<String> = conflicts
        .map(|cause| format!("{} ({})", cause.field, cause.message))
        .collect();
    match status.code == 409 && !conflicts.is_empty() {
        true => Some(format!(
            "another writer set other values: {}",
            conflicts.join(", ")
        )),
        false => None,
    }
}

#[cfg(test)]
mod tests {
    use kube::core::{
        Status,
        response::{StatusCause, StatusDetails},
    };

    use super::*;

    #[test]
    fn a_conflict_names_its_fields() {
        let failed = |code, reason: &str| {
            let cause = StatusCause {
                reason: reason.to_owned(),
                message: "conflict with \"kubectl\"".to_owned(),
                field: ".metadata.labels.env".to_owned(),
            };
            let details = StatusDetails {
                name: "n".to_owned(),
                group: String::new(),
                kind: "namespaces".to_owned(),
                uid: String::new(),
                causes: vec![cause],
                retry_after_seconds: 0,
            };
            let status = Status::failure("m", "Conflict").with_code(code);
            ApiCallError::Api(kube::Error::Api(status.with_details(details).boxed()))
        };
        let wanted = "another writer set other values: .metadata.labels.env (conflict with \
                      \"kubectl\")";
        let found = field_conflict(&failed(409, "FieldManagerConflict"));
        assert_eq!(found.as_deref(), Some(wanted));
        assert_eq!(
            field_conflict(&failed(409, "UnexpectedServerResponse")),
            None
        );
        assert_eq!(field_conflict(&failed(422, "FieldManagerConflict")), None);
    }

    #[test]
    fn a_namespace_with_an_earlier_label_of_the_owner_is_not_applied() {
        let live = json!({
            "labels": { "env": "dev", "team": "a", "foreign": "yes" },
            "annotations": { "note": "n" },
            "managedFields": [
                { "manager": "kubectl", "operation": "Update", "fieldsV1": {
                    "f:metadata": { "f:labels": { ".": {}, "f:foreign": {} } },
                } },
                { "manager": "ludgate-installs-one", "operation": "Apply", "fieldsV1": {
                    "f:metadata": {
                        "f:annotations": { "f:note": {} }, "f:labels": { "f:env": {} },
                    },
                } },
                { "manager": "ludgate-installs-two", "operation": "Apply", "fieldsV1": {
                    "f:metadata": { "f:labels": { "f:team": {} } },
                } },
            ],
        });
        let mut live: ObjectMeta = serde_json::from_value(live).expect("metadata");
        let texts = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            let pairs = pairs.iter();
            let owned = pairs.map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
            owned.collect()
        };
        keep_own_fields(&mut live);
        assert_eq!(live.managed_fields.as_ref().map(Vec::len), Some(2));
        for (owner, labels, annotations, wanted) in [
            (
                "one",
                texts(&[("env", "dev")]),
                texts(&[("note", "n")]),
                true,
            ),
            // Others may set the same.
            (
                "one",
                texts(&[("env", "dev"), ("foreign", "yes")]),
                texts(&[("note", "n")]),
                true,
            ),
            ("one", texts(&[("env", "dev")]), texts(&[]), false),
            ("one", texts(&[]), texts(&[("note", "n")]), false),
            (
                "one",
                texts(&[("env", "prod")]),
                texts(&[("note", "n")]),
                false,
            ),
            ("two", texts(&[("team", "a")]), texts(&[]), true),
            ("two", texts(&[]), texts(&[]), false),
            ("three", texts(&[]), texts(&[]), true),
            ("three", texts(&[("new", "x")]), texts(&[]), false),
        ] {
            let meta = NamespaceMeta {
                name: "n".to_owned(),
                labels,
                annotations,
            };
            assert_eq!(meta.is_applied(&live, owner), wanted, "{owner} {meta:?}");
        }
    }

    #[test]
    fn the_object_has_only_what_the_installation_says() {
        let mut namespace = NamespaceMeta {
            name: "target".to_owned(),
            ..NamespaceMeta::default()
        };
        assert_eq!(
            namespace.object(),
            json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "target" } })
        );
        namespace.labels.insert("env".to_owned(), "dev".to_owned());
        namespace.annotations.insert("a".to_owned(), "b".to_owned());
        assert_eq!(
            namespace.object()["metadata"],
            json!({ "name": "target", "labels": { "env": "dev" }, "annotations": { "a": "b" } })
        );
    }
}
