//! Labels and annotations of objects.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// Label with the kind of thing that an object belongs to.
pub const CATEGORY_LABEL: &str = "nublado.lsst.io/category";
/// Label with the person whose object it is.
pub const USER_LABEL: &str = "nublado.lsst.io/user";
/// Annotation of a pod with the groups of the person, as JSON.
pub const GROUPS_ANNOTATION: &str = "nublado.lsst.io/user-groups";
/// Annotation of a pod with the name of the person.
pub const NAME_ANNOTATION: &str = "nublado.lsst.io/user-name";
/// Label with the Argo CD application that shows the object.
const APPLICATION_LABEL: &str = "argocd.argoproj.io/instance";

/// What the metadata of objects of one owner have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ObjectMetadata {
    pub(crate) category: &'static str,
    pub(crate) username: Option<String>,
    pub(crate) application: Option<String>,
}

impl ObjectMetadata {
    /// Labels that select the objects.
    pub(crate) fn selector(&self) -> BTreeMap<String, String> {
        let mut labels = BTreeMap::from([(CATEGORY_LABEL.to_owned(), self.category.to_owned())]);
        if let Some(username) = &self.username {
            labels.insert(USER_LABEL.to_owned(), username.clone());
        }
        labels
    }

    /// The metadata of an object. A cluster-wide one has no namespace.
    pub(crate) fn named(&self, name: &str, namespace: Option<&str>) -> Value {
        let mut labels = self.selector();
        if let Some(application) = &self.application {
            labels.insert(APPLICATION_LABEL.to_owned(), application.clone());
        }
        // Argo CD neither complains about the objects nor deletes them.
        let mut metadata = json!({
            "name": name,
            "labels": labels,
            "annotations": {
                "argocd.argoproj.io/compare-options": "IgnoreExtraneous",
                "argocd.argoproj.io/sync-options": "Prune=false",
            },
        });
        if let Some(namespace) = namespace {
            metadata["namespace"] = namespace.into();
        }
        metadata
    }
}

/// Adds annotations to the metadata of an object.
pub(crate) fn annotate(metadata: &mut Value, annotations: &BTreeMap<String, String>) {
    for (name, value) in annotations {
        metadata["annotations"][name] = value.as_str().into();
    }
}
