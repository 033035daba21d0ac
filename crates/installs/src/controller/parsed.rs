//! Objects of the stores as their types. Another program may have written a status in another form.

use kube::{Resource, ResourceExt};
use ludgate_cluster::{
    crd::{definition::ApplicationDefinition, installation::ApplicationInstallation},
    object::DeepObject,
};

/// An installation.
///
/// # Errors
/// What cannot be read in its spec.
pub(super) fn installation(object: &DeepObject) -> Result<ApplicationInstallation, String> {
    let spec = serde_json::from_value(object.spec.clone());
    let spec = spec.map_err(|error| format!("spec: {error}"))?;
    let mut installation = ApplicationInstallation::new(&object.name_any(), spec);
    installation.metadata = object.meta().clone();
    installation.status = serde_json::from_value(object.status.clone()).unwrap_or_default();
    Ok(installation)
}

/// A definition.
///
/// # Errors
/// What cannot be read in its spec.
pub(super) fn definition(object: &DeepObject) -> Result<ApplicationDefinition, String> {
    let spec = serde_json::from_value(object.spec.clone());
    let spec = spec.map_err(|error| format!("spec: {error}"))?;
    let mut definition = ApplicationDefinition::new(&object.name_any(), spec);
    definition.metadata = object.meta().clone();
    Ok(definition)
}

/// The name of the definition that an installation names.
pub(super) fn definition_name(object: &DeepObject) -> Option<&str> {
    object.spec["applicationRef"]["name"].as_str()
}

/// Namespace and name: the key of an installation in what the controller remembers.
pub(super) fn key(object: &impl Resource) -> String {
    let namespace = object.meta().namespace.as_deref().unwrap_or_default();
    let name = object.meta().name.as_deref().unwrap_or_default();
    format!("{namespace}/{name}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_status_of_another_form_does_not_hide_the_installation() {
        let object = |status: serde_json::Value| -> DeepObject {
            let object = json!({
                "metadata": { "name": "a", "namespace": "n", "finalizers": ["f"] },
                "spec": { "applicationRef": { "name": "example", "version": "1" } },
                "status": status,
            });
            serde_json::from_value(object).expect("an object")
        };
        let read = installation(&object(json!({ "failures": 2 }))).expect("readable");
        assert_eq!(read.status.map(|status| status.failures), Some(2));
        assert_eq!(read.metadata.finalizers, Some(vec!["f".to_owned()]));
        let read = installation(&object(json!({ "failures": "x" }))).expect("readable");
        assert_eq!(read.status, None);
        assert_eq!(definition_name(&object(json!(null))), Some("example"));
        assert_eq!(key(&object(json!(null))), "n/a");
        let broken = json!({ "metadata": { "name": "a" }, "spec": { "applicationRef": 1 } });
        let broken: DeepObject = serde_json::from_value(broken).expect("an object");
        let error = installation(&broken).expect_err("unreadable");
        assert!(error.starts_with("spec: "), "{error}");
    }
}
