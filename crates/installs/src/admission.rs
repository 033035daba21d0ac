//! Decisions on definitions and installations for an admission webhook. Objects come as the
//! webhook reads them; each function is without IO.
//!
//! Invariant: an update that leaves the spec as it is passes, so that annotations and finalizers of
//! an invalid object can be changed.

use kube::{Resource, ResourceExt};
use ludgate_cluster::{
    crd::{
        app_target::DeployOptions,
        definition::{ApplicationDefinition, ApplicationDefinitionSpec},
        installation::{ApplicationInstallation, ApplicationInstallationSpec},
    },
    object::DeepObject,
};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{
    defaulting, deploy_options,
    validation::{
        definition, deletion,
        field_error::{FieldError, message},
        installation,
        source::SourceRules,
    },
};

/// Checks a definition. `before` is the one that it replaces.
///
/// # Errors
/// The message for its author.
pub fn validate_definition(
    object: &DeepObject,
    before: Option<&DeepObject>,
    rules: SourceRules,
) -> Result<(), String> {
    let is_same = |before: &DeepObject| {
        object.spec == before.spec || object.spec == with_definition_defaults(&before.spec)
    };
    if before.is_some_and(is_same) {
        return Ok(());
    }
    let new = read_definition(object)?;
    // An unreadable older object cannot keep its author from a better one.
    let errors = match before.and_then(|before| read_definition(before).ok()) {
        Some(before) => definition::validate_update(&new, &before, rules),
        None => definition::validate_new(&new, rules),
    };
    verdict(&errors)
}

/// What a definition has that new ones may not have, for `kubectl` to show.
pub fn definition_warnings(object: &DeepObject) -> Vec<String> {
    let definition = read_definition(object);
    definition.map_or_else(|_| Vec::new(), |read| definition::warnings(&read.spec))
}

/// Checks the deletion of a definition.
///
/// # Errors
/// The message for the person who deletes it.
pub fn validate_definition_deletion(object: &DeepObject) -> Result<(), String> {
    match read_definition(object) {
        Ok(definition) => deletion::check_definition(&definition),
        // An unreadable object can be deleted.
        Err(_) => Ok(()),
    }
}

/// Checks an installation. `before` is the one that it replaces, and `named` the definition that it
/// names.
///
/// # Errors
/// The message for its author.
pub fn validate_installation(
    object: &DeepObject,
    before: Option<&DeepObject>,
    named: Option<&ApplicationDefinition>,
) -> Result<(), String> {
    let is_same = |before: &&DeepObject| {
        let defaulted = || with_installation_defaults(before, false, None);
        object.spec == before.spec || object.spec == defaulted()
    };
    if let Some(before) = before.filter(is_same) {
        return verdict(&installation::validate_labels(object, before));
    }
    let new = read_installation(object)?;
    let errors = match before.and_then(|before| read_installation(before).ok()) {
        Some(before) => installation::validate_update(&new, &before, named),
        None => installation::validate_new(&new, named),
    };
    verdict(&errors)
}

/// Checks the deletion of an installation on a target.
///
/// # Errors
/// The message for the person who deletes it.
pub fn validate_installation_deletion(
    object: &DeepObject,
    named: Option<&ApplicationDefinition>,
    target: &str,
) -> Result<(), String> {
    match read_installation(object) {
        Ok(installation) => deletion::check_installation(&installation, named, target),
        Err(_) => Ok(()),
    }
}

/// A definition's spec with the defaults of its options. One that cannot be read stays as it is.
pub fn with_definition_defaults(spec: &Value) -> Value {
    let mut spec = spec.clone();
    let field = "defaultDeployOptions";
    let written: Option<DeployOptions> = serde_json::from_value(spec[field].clone()).ok();
    if let Some(written) = written {
        let mut options = written.clone();
        deploy_options::set_defaults(&mut options);
        if options != written {
            spec[field] = serde_json::to_value(options).unwrap_or_default();
        }
    }
    spec
}

/// An installation's spec with its defaults. `is_new`: no other one is replaced. Fields without a
/// default stay as they are written, and so does a spec that cannot be read.
pub fn with_installation_defaults(
    object: &DeepObject,
    is_new: bool,
    named: Option<&ApplicationDefinitionSpec>,
) -> Value {
    let Ok(written) = read_spec::<ApplicationInstallationSpec>(&object.spec) else {
        return object.spec.clone();
    };
    let mut defaulted = written.clone();
    let namespace = object.namespace().unwrap_or_default();
    match is_new {
        true => defaulting::set_new(&mut defaulted, &namespace, named),
        false => defaulting::set_update(&mut defaulted),
    }
    let mut spec = object.spec.clone();
    if defaulted.namespace != written.namespace {
        spec["namespace"] = serde_json::to_value(defaulted.namespace).unwrap_or_default();
    }
    if defaulted.values != written.values {
        spec["values"] = defaulted.values.unwrap_or_default();
    }
    if defaulted.deploy_options != written.deploy_options {
        spec["deployOptions"] = serde_json::to_value(defaulted.deploy_options).unwrap_or_default();
    }
    spec
}

fn verdict(errors: &[FieldError]) -> Result<(), String> {
    match errors.is_empty() {
        true => Ok(()),
        false => Err(message(errors)),
    }
}

fn read_spec<T: DeserializeOwned>(spec: &Value) -> Result<T, String> {
    serde_json::from_value(spec.clone()).map_err(|error| format!("spec: {error}"))
}

fn read_definition(object: &DeepObject) -> Result<ApplicationDefinition, String> {
    let mut definition = ApplicationDefinition::new(&object.name_any(), read_spec(&object.spec)?);
    definition.metadata = object.meta().clone();
    Ok(definition)
}

fn read_installation(object: &DeepObject) -> Result<ApplicationInstallation, String> {
    let spec = read_spec(&object.spec)?;
    let mut installation = ApplicationInstallation::new(&object.name_any(), spec);
    installation.metadata = object.meta().clone();
    Ok(installation)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::samples;

    fn object(object: impl serde::Serialize) -> DeepObject {
        let object = serde_json::to_value(object).expect("JSON");
        serde_json::from_value(object).expect("an object")
    }

    #[test]
    fn a_definition_is_denied_with_the_texts_of_its_errors() {
        let rules = SourceRules::default();
        let before = object(samples::definition(json!({})));
        assert_eq!(validate_definition(&before, None, rules), Ok(()));
        let other = object(samples::definition(json!({ "spec": { "method": "x" } })));
        let error = validate_definition(&other, Some(&before), rules).expect_err("denied");
        assert!(
            error.ends_with(", spec.method: field is immutable]"),
            "{error}"
        );
        let unreadable = object(json!({ "metadata": { "name": "a" }, "spec": { "method": 1 } }));
        let error = validate_definition(&unreadable, None, rules).expect_err("denied");
        assert!(error.starts_with("spec: "), "{error}");
        assert_eq!(
            validate_definition(&before, Some(&unreadable), rules),
            Ok(())
        );
        assert_eq!(validate_definition_deletion(&unreadable), Ok(()));
        assert_eq!(definition_warnings(&before), Vec::<String>::new());
    }

    #[test]
    fn an_installation_is_checked_against_its_definition() {
        let definition = samples::definition(json!({ "spec": { "enforced": true } }));
        let valid = object(samples::installation(json!({})));
        assert_eq!(
            validate_installation(&valid, None, Some(&definition)),
            Ok(())
        );
        let wanted = "spec.applicationRef.name: Not found: \"example\"";
        assert_eq!(
            validate_installation(&valid, None, None),
            Err(wanted.into())
        );
        let moved = json!({ "spec": { "namespace": { "name": "x" } } });
        let moved = object(samples::installation(moved));
        let denied = validate_installation(&moved, Some(&valid), Some(&definition));
        assert_eq!(
            denied,
            Err("spec.namespace.name: field is immutable".into())
        );
        let allowed = validate_installation_deletion(&valid, Some(&definition), "self");
        assert_eq!(allowed, Ok(()));
        let enforced = json!({ "metadata": { "name": "example" } });
        let enforced = object(samples::installation(enforced));
        let denied = validate_installation_deletion(&enforced, Some(&definition), "self");
        assert!(denied.is_err());
    }

    #[test]
    fn metadata_of_an_invalid_object_can_change_but_for_fixed_labels() {
        let labelled = |labels: serde_json::Value| {
            object(json!({
                "metadata": { "name": "a", "namespace": "apps", "labels": labels },
                "spec": { "applicationRef": 1 },
            }))
        };
        let before = labelled(json!({}));
        let other = labelled(json!({ "a": "b" }));
        assert_eq!(validate_installation(&other, Some(&before), None), Ok(()));
        assert!(validate_installation(&other, None, None).is_err());
        let managed = labelled(json!({ "apps.kubermatic.k8c.io/managed-by": "x" }));
        let denied = validate_installation(&managed, Some(&before), None);
        let label = "label \"apps.kubermatic.k8c.io/managed-by\" is immutable";
        assert_eq!(denied, Err(format!("metadata.labels: {label}")));
        let unreadable =
            |name: &str| object(json!({ "metadata": { "name": name }, "spec": { "method": 1 } }));
        let rules = SourceRules::default();
        let same = validate_definition(&unreadable("b"), Some(&unreadable("a")), rules);
        assert_eq!(same, Ok(()));

        // The defaults of the old object are no change.
        let options = json!({ "spec": { "deployOptions": { "helm": { "atomic": true } } } });
        let old = object(samples::installation(options));
        let mut new = old.clone();
        new.spec = with_installation_defaults(&old, false, None);
        assert_ne!(new.spec, old.spec);
        assert_eq!(validate_installation(&new, Some(&old), None), Ok(()));
    }

    #[test]
    fn defaults_are_set_once_and_unreadable_specs_stay() {
        let options = json!({ "helm": { "atomic": true } });
        let whole = json!({ "helm": { "atomic": true, "wait": true, "timeout": "5m0s" } });
        let spec = json!({ "defaultDeployOptions": options, "x": 1 });
        let defaulted = with_definition_defaults(&spec);
        assert_eq!(defaulted, json!({ "defaultDeployOptions": whole, "x": 1 }));
        assert_eq!(
            with_definition_defaults(&json!({ "x": 1 })),
            json!({ "x": 1 })
        );

        let patch = json!({ "spec": { "namespace": null, "deployOptions": options } });
        let installation = object(samples::installation(patch));
        let new = with_installation_defaults(&installation, true, None);
        assert_eq!(new["namespace"], json!({ "name": "apps", "create": true }));
        assert_eq!(new["deployOptions"], whole);
        assert_eq!(new["values"], json!({}));
        let update = with_installation_defaults(&installation, false, None);
        assert!(update.get("namespace").is_none());
        assert_eq!(update["deployOptions"], whole);
        let mut written = installation.clone();
        written.spec["deployOptions"] = json!({ "helm": { "wait": false } });
        let kept = with_installation_defaults(&written, false, None);
        assert_eq!(kept["deployOptions"], json!({ "helm": { "wait": false } }));
        let unreadable = object(json!({ "spec": { "applicationRef": 1 } }));
        let same = with_installation_defaults(&unreadable, true, None);
        assert_eq!(same, unreadable.spec);
    }
}
