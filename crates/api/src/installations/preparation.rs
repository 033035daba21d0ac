//! Objects to write, from the bodies of requests: with their defaults, and checked by the rules of
//! the controller.

use kube::ResourceExt;
use ludgate_cluster::crd::{
    definition::ApplicationDefinition, installation::ApplicationInstallation,
};
use ludgate_installs::{
    defaulting, deploy_options,
    resource_json::{definition, error::ResourceError, installation},
    validation::{
        definition as definition_rules, field_error::FieldError,
        installation as installation_rules, source::SourceRules,
    },
};
use ludgate_model::dns::{MAX_LABEL, is_label, is_subdomain};
use serde_json::Value;

use super::{answer::invalid, reserved_keys};

/// The kinds in messages, as Kubernetes has them in its own.
const DEFINITION_KIND: &str = "ApplicationDefinition.apps.kubermatic.k8c.io";
const INSTALLATION_KIND: &str = "ApplicationInstallation.apps.kubermatic.k8c.io";

/// The new form of an object, as a request has it.
#[derive(Clone, Copy, Debug)]
pub(super) enum NewForm<'a> {
    /// A body that replaces the spec.
    Whole(&'a Value),
    /// The text of a merge patch (RFC 7396).
    Patch(&'a str),
}

/// A definition that is to be made.
///
/// # Errors
/// The body has another form, or breaks rules.
pub(super) fn new_definition(body: &Value) -> Result<ApplicationDefinition, ResourceError> {
    let mut new = definition::from_body(body)?;
    let name = new.name_any();
    let mut errors = Vec::new();
    // Installations name it, and their field has this length.
    if name.len() > MAX_LABEL || !is_subdomain(&name) {
        errors.push(bad_name("metadata.name", &name));
    }
    set_definition_defaults(&mut new);
    let rules = SourceRules::default();
    errors.extend(definition_rules::validate_new(&new, rules));
    checked(DEFINITION_KIND, new, &errors)
}

/// A stored definition in a new form.
///
/// # Errors
/// The new form cannot be read, or breaks rules.
pub(super) fn changed_definition(
    stored: &ApplicationDefinition,
    form: NewForm<'_>,
) -> Result<ApplicationDefinition, ResourceError> {
    let mut changed = match form {
        NewForm::Whole(body) => definition::replaced(stored, body)?,
        NewForm::Patch(patch) => definition::with_patch(stored, patch)?,
    };
    set_definition_defaults(&mut changed);
    let rules = SourceRules::default();
    let errors = definition_rules::validate_update(&changed, stored, rules);
    checked(DEFINITION_KIND, changed, &errors)
}

/// An installation that is to be made, not yet with its defaults.
///
/// # Errors
/// The body has another form, or its names cannot be those of objects.
pub(super) fn read_installation(body: &Value) -> Result<ApplicationInstallation, ResourceError> {
    reserved_keys::check(body, None)?;
    let new = installation::from_body(body)?;
    let (name, namespace) = names(&new);
    let mut errors = Vec::new();
    if !is_subdomain(&name) {
        errors.push(bad_name("metadata.name", &name));
    }
    if !is_label(namespace.as_bytes(), MAX_LABEL) {
        errors.push(bad_name("metadata.namespace", &namespace));
    }
    checked(INSTALLATION_KIND, new, &errors)
}

/// A new installation with its defaults. `named` is the definition that it names.
///
/// # Errors
/// It breaks rules.
pub(super) fn new_installation(
    mut new: ApplicationInstallation,
    named: Option<&ApplicationDefinition>,
) -> Result<ApplicationInstallation, ResourceError> {
    let (_, namespace) = names(&new);
    let definition = named.map(|definition| &definition.spec);
    defaulting::set_new(&mut new.spec, &namespace, definition);
    let errors = installation_rules::validate_new(&new, named);
    checked(INSTALLATION_KIND, new, &errors)
}

/// A stored installation in a new form, not yet with its defaults.
///
/// # Errors
/// The new form cannot be read.
pub(super) fn changed_installation(
    stored: &ApplicationInstallation,
    form: NewForm<'_>,
) -> Result<ApplicationInstallation, ResourceError> {
    let mut changed = match form {
        NewForm::Whole(body) => {
            reserved_keys::check(body, Some(stored))?;
            installation::replaced(stored, body)?
        }
        NewForm::Patch(patch) => {
            // One that is no JSON is an error below.
            let parsed: Value = serde_json::from_str(patch).unwrap_or_default();
            reserved_keys::check(&parsed, Some(stored))?;
            installation::with_patch(stored, patch)?
        }
    };
    reserved_keys::keep(stored, &mut changed);
    Ok(changed)
}

/// A changed installation with its defaults. `named` is the definition that it names.
///
/// # Errors
/// It breaks rules.
pub(super) fn updated_installation(
    mut changed: ApplicationInstallation,
    stored: &ApplicationInstallation,
    named: Option<&ApplicationDefinition>,
) -> Result<ApplicationInstallation, ResourceError> {
    defaulting::set_update(&mut changed.spec);
    let errors = installation_rules::validate_update(&changed, stored, named);
    checked(INSTALLATION_KIND, changed, &errors)
}

fn set_definition_defaults(definition: &mut ApplicationDefinition) {
    if let Some(options) = &mut definition.spec.default_deploy_options {
        deploy_options::set_defaults(options);
    }
}

fn names(installation: &ApplicationInstallation) -> (String, String) {
    let namespace = installation.namespace().unwrap_or_default();
    (installation.name_any(), namespace)
}

fn bad_name(field: &str, name: &str) -> FieldError {
    let text = format!("Invalid value: \"{name}\": must be a name of objects (RFC 1123)");
    FieldError::new(field, text)
}

fn checked<K: kube::Resource>(
    kind: &str,
    object: K,
    errors: &[FieldError],
) -> Result<K, ResourceError> {
    match errors.is_empty() {
        true => Ok(object),
        false => Err(invalid(kind, &object.name_any(), errors)),
    }
}

#[cfg(test)]
mod tests {
    use ludgate_installs::values::parse_block;
    use serde_json::json;

    use super::*;

    fn version(version: &str) -> Value {
        let helm = json!({
            "url": "https://charts.example", "chartName": "example", "chartVersion": version,
        });
        json!({ "version": version, "template": { "source": { "helm": helm } } })
    }

    fn definition_body(name: &str) -> Value {
        json!({ "name": name, "Spec": {
            "description": "An example", "method": "helm", "versions": [version("1.0.0")],
            "enforced": true,
            "defaultDeployOptions": { "helm": { "atomic": true } },
        } })
    }

    fn installation_body(app: &str, version: &str) -> Value {
        json!({ "name": "app-1", "namespace": "apps", "spec": {
            "applicationRef": { "name": app, "version": version },
            "values": { "a": { "b": 1 } },
        } })
    }

    #[test]
    fn a_new_definition_has_defaults_and_follows_the_rules() {
        let new = new_definition(&definition_body("example")).expect("valid");
        let options = json!(new.spec.default_deploy_options);
        let whole = json!({ "helm": { "atomic": true, "wait": true, "timeout": "5m0s" } });
        assert_eq!(options, whole);
        let mut twice = definition_body("example");
        twice["Spec"]["versions"] = json!([version("1.0.0"), version("1.0.0")]);
        let error = new_definition(&twice).expect_err("refused");
        assert_eq!(error.code, 422);
        assert_eq!(
            error.message,
            "ApplicationDefinition.apps.kubermatic.k8c.io \"example\" is invalid: \
             spec.versions[1].version: Duplicate value: \"1.0.0\""
        );
        for name in ["A", "a/b", "..", "a".repeat(64).as_str()] {
            let error = new_definition(&definition_body(name)).expect_err("refused");
            assert!(error.message.contains("metadata.name: "), "{error}");
        }
    }

    #[test]
    fn a_changed_definition_keeps_what_clients_leave_out_and_its_method() {
        let stored = new_definition(&definition_body("example")).expect("valid");
        let body = json!({ "name": "example", "spec": {
            "description": "New", "method": "helm", "versions": [version("2.0.0")],
        } });
        let changed = changed_definition(&stored, NewForm::Whole(&body)).expect("valid");
        assert!(changed.spec.enforced);
        assert_eq!(changed.spec.versions.len(), 1);
        let patch = r#"{"spec":{"method":"x"}}"#;
        let error = changed_definition(&stored, NewForm::Patch(patch)).expect_err("refused");
        assert_eq!((error.code, error.details.len()), (422, 2), "{error}");
    }

    #[test]
    fn an_installation_is_checked_against_its_definition() {
        let definition = new_definition(&definition_body("example")).expect("valid");
        let read = |app: &str, version: &str| {
            let new = read_installation(&installation_body(app, version)).expect("readable");
            new_installation(new, Some(&definition).filter(|_| app == "example"))
        };
        let new = read("example", "1.0.0").expect("valid");
        let values = parse_block(new.spec.values_block.as_deref().expect("YAML"));
        assert_eq!(values.map(Value::Object), Ok(json!({ "a": { "b": 1 } })));
        assert_eq!(new.spec.values, Some(json!({})));
        let namespace = new.spec.namespace.clone().expect("a namespace");
        assert_eq!((namespace.name.as_str(), namespace.create), ("apps", true));
        for (app, version, wanted) in [
            (
                "other",
                "1.0.0",
                "spec.applicationRef.name: Not found: \"other\"",
            ),
            (
                "example",
                "3.0.0",
                "spec.applicationRef.version: Not found: \"3.0.0\"",
            ),
        ] {
            let error = read(app, version).expect_err("refused");
            assert!(error.message.ends_with(wanted), "{error}");
            assert_eq!(error.code, 422);
        }
        let patch = NewForm::Patch(r#"{"spec":{"namespace":{"name":"other"}}}"#);
        let changed = changed_installation(&new, patch).expect("readable");
        let error = updated_installation(changed, &new, Some(&definition)).expect_err("refused");
        assert!(
            error
                .message
                .ends_with("spec.namespace.name: field is immutable")
        );
    }

    #[test]
    fn names_that_no_object_can_have_are_refused() {
        for (field, value) in [
            ("name", "A"),
            ("name", "a/b"),
            ("namespace", "a.b"),
            ("namespace", ".."),
        ] {
            let mut body = installation_body("example", "1.0.0");
            body[field] = value.into();
            let error = read_installation(&body).expect_err("refused");
            assert_eq!(error.code, 422, "{field} {value}");
        }
    }
}
