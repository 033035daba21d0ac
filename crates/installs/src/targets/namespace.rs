//! The namespace that a chart is installed in.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Namespace;
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
        let manager = format!("{MANAGER}-{owner}");
        writer
            .apply_as(&manager, &kind, name, &self.object())
            .await?;
        Ok(())
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
