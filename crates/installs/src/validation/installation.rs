//! The rules of an ApplicationInstallation.

use kube::ResourceExt;
use ludgate_cluster::crd::{
    definition::{
        ApplicationDefinition, ApplicationDefinitionSpec, MANAGED_BY_LABEL, MANAGED_BY_PLATFORM,
        TYPE_LABEL,
    },
    installation::{ApplicationInstallation, ApplicationInstallationSpec},
};
use ludgate_model::{
    dns::{MAX_LABEL, is_label},
    go_duration,
};

use super::{
    field_error::FieldError, namespace_keys::validate_namespace_keys, options::validate_options,
};
use crate::values::{ValuesError, installation_values};

/// Checks an installation against the definition that it names. An installation that is being
/// deleted needs no definition.
pub fn validate_new(
    installation: &ApplicationInstallation,
    definition: Option<&ApplicationDefinition>,
) -> Vec<FieldError> {
    let spec = &installation.spec;
    let mut errors: Vec<_> = validate_interval(spec).into_iter().collect();
    if installation.metadata.deletion_timestamp.is_none() {
        let reference = &spec.application_ref;
        let Some(definition) = definition else {
            let field = "spec.applicationRef.name";
            errors.push(FieldError::not_found(field, &reference.name));
            return errors;
        };
        let mut versions = definition.spec.versions.iter();
        if !versions.any(|entry| entry.version == reference.version) {
            let field = "spec.applicationRef.version";
            errors.push(FieldError::not_found(field, &reference.version));
        }
        errors.extend(validate_keys(spec, Some(&definition.spec)));
    }
    errors.extend(validate_parts(spec));
    errors
}

/// Checks an installation that replaces another one.
pub fn validate_update(
    installation: &ApplicationInstallation,
    before: &ApplicationInstallation,
    definition: Option<&ApplicationDefinition>,
) -> Vec<FieldError> {
    let mut errors = validate_new(installation, definition);
    let (new, old) = (&installation.spec, &before.spec);
    if let Some(old) = &old.namespace {
        let new = new.namespace.as_ref();
        if new.is_none_or(|new| new.create != old.create) {
            errors.push(FieldError::immutable("spec.namespace.create"));
        }
        if new.is_none_or(|new| new.name != old.name) {
            errors.push(FieldError::immutable("spec.namespace.name"));
        }
    }
    if new.application_ref.name != old.application_ref.name {
        errors.push(FieldError::immutable("spec.applicationRef.name"));
    }
    errors.extend(validate_labels(installation, before));
    errors
}

/// Checks the labels of an installation that replaces another one.
pub fn validate_labels(
    installation: &impl ResourceExt,
    before: &impl ResourceExt,
) -> Vec<FieldError> {
    let managed = validate_label(installation, before, MANAGED_BY_LABEL);
    let mut errors: Vec<_> = managed.into_iter().collect();
    let managed_by = before.labels().get(MANAGED_BY_LABEL).map(String::as_str);
    if managed_by == Some(MANAGED_BY_PLATFORM) {
        errors.extend(validate_label(installation, before, TYPE_LABEL));
    }
    errors
}

/// Checks a stored installation: what the controller cannot apply. `definition` is the one that it
/// names.
pub fn validate_stored(
    spec: &ApplicationInstallationSpec,
    definition: Option<&ApplicationDefinitionSpec>,
) -> Vec<FieldError> {
    let mut errors: Vec<_> = validate_interval(spec).into_iter().collect();
    errors.extend(validate_keys(spec, definition));
    errors.extend(validate_parts(spec));
    errors
}

fn validate_keys(
    spec: &ApplicationInstallationSpec,
    definition: Option<&ApplicationDefinitionSpec>,
) -> Vec<FieldError> {
    let default = definition.and_then(|definition| definition.default_namespace.as_ref());
    match &spec.namespace {
        Some(namespace) => validate_namespace_keys(namespace, default),
        None => Vec::new(),
    }
}

fn validate_label(
    installation: &impl ResourceExt,
    before: &impl ResourceExt,
    label: &str,
) -> Option<FieldError> {
    let is_changed = installation.labels().get(label) != before.labels().get(label);
    let text = format!("label \"{label}\" is immutable");
    is_changed.then(|| FieldError::new("metadata.labels", text))
}

fn validate_interval(spec: &ApplicationInstallationSpec) -> Option<FieldError> {
    let written = spec.reconciliation_interval.as_deref()?;
    let field = "spec.reconciliationInterval";
    match go_duration::parse(written) {
        Some(interval) if interval >= 0 => None,
        Some(_) => {
            let text = "should be a positive value, or zero to disable";
            Some(FieldError::new(field, text))
        }
        None => {
            let text = format!("Invalid value: \"{written}\": must be a duration such as 1h");
            Some(FieldError::new(field, text))
        }
    }
}

fn validate_parts(spec: &ApplicationInstallationSpec) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let name = spec
        .namespace
        .as_ref()
        .map(|namespace| namespace.name.as_str());
    // An empty name is that of the defaults.
    if name.is_some_and(|name| !name.is_empty() && !is_label(name.as_bytes(), MAX_LABEL)) {
        let text = "must be a DNS label (RFC 1123)";
        errors.push(FieldError::new("spec.namespace.name", text));
    }
    if let Some(policy) = spec.delete_policy.as_deref() {
        let supported = ["keep", "deleteNamespace"];
        if !supported.contains(&policy) {
            errors.push(FieldError::unsupported(
                "spec.deletePolicy",
                policy,
                &supported,
            ));
        }
    }
    if let Err(error) = installation_values(spec) {
        let text = error.to_string();
        let block = FieldError::new("spec.valuesBlock", text.clone());
        match error {
            ValuesError::Both { .. } => {
                errors.push(FieldError::new("spec.values", text));
                errors.push(block);
            }
            ValuesError::InvalidYaml { .. } | ValuesError::NoObject => errors.push(block),
        }
    }
    errors.extend(validate_options(
        spec.deploy_options.as_ref(),
        "spec.deployOptions",
    ));
    errors
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::samples;

    fn texts(errors: Vec<FieldError>) -> Vec<String> {
        errors.iter().map(FieldError::to_string).collect()
    }

    fn created(patch: Value) -> Vec<String> {
        let definition = samples::definition(json!({}));
        texts(validate_new(
            &samples::installation(patch),
            Some(&definition),
        ))
    }

    #[test]
    fn valid_installations_are_accepted() {
        let options = |helm: Value| json!({ "spec": { "deployOptions": { "helm": helm } } });
        for patch in [
            json!({}),
            json!({ "spec": { "deployOptions": {} } }),
            options(json!({ "wait": true, "timeout": "5ns", "atomic": true })),
            options(json!({ "wait": true, "timeout": "5ns" })),
            json!({ "spec": { "reconciliationInterval": "0" } }),
            json!({ "spec": { "reconciliationInterval": "10m" } }),
            json!({ "spec": { "valuesBlock": "a: b", "values": {} } }),
            json!({ "spec": { "namespace": null } }),
            json!({ "spec": { "deletePolicy": "deleteNamespace" } }),
        ] {
            assert_eq!(created(patch.clone()), Vec::<String>::new(), "{patch}");
        }
    }

    #[test]
    fn each_mistake_has_its_field_and_text() {
        let both = "Only values or valuesBlock can be set, but not both simultaneously";
        let values = [
            format!("spec.values: {both}"),
            format!("spec.valuesBlock: {both}"),
        ];
        let options = |helm: Value| json!({ "spec": { "deployOptions": { "helm": helm } } });
        let one = |text: &str| vec![text.to_owned()];
        for (patch, wanted) in [
            (
                json!({ "spec": { "applicationRef": { "name": "x" }, "values": [] } }),
                one("spec.applicationRef.name: Not found: \"x\""),
            ),
            (
                json!({ "spec": { "applicationRef": { "version": "9" } } }),
                one("spec.applicationRef.version: Not found: \"9\""),
            ),
            (
                json!({ "spec": { "reconciliationInterval": "-1m" } }),
                one("spec.reconciliationInterval: should be a positive value, or zero to disable"),
            ),
            (
                json!({ "spec": { "values": { "a": 1 }, "valuesBlock": "a: 1" } }),
                values.to_vec(),
            ),
            (
                options(json!({ "atomic": true })),
                one("spec.deployOptions.helm: if atomic=true then wait must also be true"),
            ),
            (
                options(json!({ "wait": true })),
                one("spec.deployOptions.helm: if wait = true then timeout must be greater than 0"),
            ),
            (
                options(json!({ "timeout": "5m" })),
                one("spec.deployOptions.helm: if timeout is defined then wait must be true"),
            ),
            (
                json!({ "spec": { "namespace": { "name": "-x" } } }),
                one("spec.namespace.name: must be a DNS label (RFC 1123)"),
            ),
        ] {
            let installation = samples::installation(patch.clone());
            let definition = samples::definition(json!({}));
            let known = installation.spec.application_ref.name == "example";
            let errors = validate_new(&installation, known.then_some(&definition));
            assert_eq!(texts(errors), wanted, "{patch}");
        }
    }

    #[test]
    fn reserved_keys_of_the_namespace_come_from_the_definition_only() {
        let annotations =
            json!({ "kubermatic.io/initial-application-installations-request": "[]" });
        let patch = json!({ "spec": { "namespace": { "annotations": annotations } } });
        let installation = samples::installation(patch);
        let default = json!({ "name": "mon", "annotations": annotations });
        let definition = samples::definition(json!({ "spec": { "defaultNamespace": default } }));
        assert_eq!(validate_new(&installation, Some(&definition)), []);
        assert_eq!(
            validate_stored(&installation.spec, Some(&definition.spec)),
            []
        );
        let plain = samples::definition(json!({}));
        let wanted = "spec.namespace.annotations: Forbidden: the key \
                      \"kubermatic.io/initial-application-installations-request\" is reserved for \
                      administrators";
        for errors in [
            validate_new(&installation, Some(&plain)),
            validate_stored(&installation.spec, Some(&plain.spec)),
            validate_stored(&installation.spec, None),
        ] {
            assert_eq!(texts(errors), [wanted]);
        }
    }

    #[test]
    fn the_definition_is_not_needed_while_the_installation_is_deleted() {
        let deleted = json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" } });
        assert_eq!(validate_new(&samples::installation(deleted), None), []);
    }

    #[test]
    fn names_and_labels_stay_and_the_version_changes() {
        let managed = json!({ "metadata": { "labels": {
            MANAGED_BY_LABEL: "kkp", TYPE_LABEL: "cni",
        } } });
        let label = |label: &str| format!("metadata.labels: label \"{label}\" is immutable");
        let immutable = |field: &str| format!("{field}: field is immutable");
        let two = [samples::version("1.0.0"), samples::version("2.0.0")];
        let two = json!({ "spec": { "versions": two } });
        let definition = samples::definition(two);
        for (before, patch, wanted) in [
            (json!({}), json!({}), vec![]),
            (
                json!({}),
                json!({ "spec": { "applicationRef": { "version": "2.0.0" } } }),
                vec![],
            ),
            (
                json!({}),
                json!({ "spec": { "namespace": { "name": "other" } } }),
                vec![immutable("spec.namespace.name")],
            ),
            (
                json!({}),
                json!({ "spec": { "namespace": { "create": false } } }),
                vec![immutable("spec.namespace.create")],
            ),
            (
                json!({}),
                json!({ "spec": { "namespace": null } }),
                vec![
                    immutable("spec.namespace.create"),
                    immutable("spec.namespace.name"),
                ],
            ),
            (json!({ "spec": { "namespace": null } }), json!({}), vec![]),
            (
                json!({}),
                json!({ "spec": { "applicationRef": { "name": "other" } } }),
                vec![immutable("spec.applicationRef.name")],
            ),
            (
                json!({}),
                json!({ "metadata": { "labels": { MANAGED_BY_LABEL: "x" } } }),
                vec![label(MANAGED_BY_LABEL)],
            ),
            (
                managed.clone(),
                json!({}),
                vec![label(MANAGED_BY_LABEL), label(TYPE_LABEL)],
            ),
            (managed.clone(), managed, vec![]),
            (
                json!({}),
                json!({ "metadata": { "labels": { TYPE_LABEL: "x" } } }),
                vec![],
            ),
        ] {
            let errors = validate_update(
                &samples::installation(patch.clone()),
                &samples::installation(before.clone()),
                Some(&definition),
            );
            assert_eq!(texts(errors), wanted, "{before} {patch}");
        }
    }
}
