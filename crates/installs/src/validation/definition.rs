//! The rules of an ApplicationDefinition.

use std::collections::BTreeSet;

use ludgate_cluster::crd::definition::{
    ApplicationDefinition, ApplicationDefinitionSpec, ApplicationVersion, ExposeSpec, HELM_METHOD,
};
use ludgate_model::access::Access;

use super::{
    field_error::FieldError,
    options::validate_options,
    source::{SourceRules, validate_helm_credentials, validate_source},
};
use crate::{
    values::{ValuesError, default_values},
    version,
};

/// Checks a new definition.
pub fn validate_new(definition: &ApplicationDefinition, rules: SourceRules) -> Vec<FieldError> {
    let mut errors = validate_stored(&definition.spec, rules);
    for (at, entry) in definition.spec.versions.iter().enumerate() {
        errors.extend(validate_version(entry, at));
    }
    errors
}

/// Checks a definition that replaces another one. Versions that the other one has may be no
/// semantic versions, since the Kubermatic Kubernetes Platform accepts such texts.
pub fn validate_update(
    definition: &ApplicationDefinition,
    before: &ApplicationDefinition,
    rules: SourceRules,
) -> Vec<FieldError> {
    let mut errors = validate_stored(&definition.spec, rules);
    if definition.spec.method != before.spec.method {
        errors.push(FieldError::immutable("spec.method"));
    }
    for (at, entry) in definition.spec.versions.iter().enumerate() {
        let is_known = |known: &ApplicationVersion| known.version == entry.version;
        if !before.spec.versions.iter().any(is_known) {
            errors.extend(validate_version(entry, at));
        }
    }
    errors
}

/// What a stored definition has that a new one may not have.
pub fn warnings(spec: &ApplicationDefinitionSpec) -> Vec<String> {
    let versions = spec.versions.iter().enumerate();
    let errors = versions.filter_map(|(at, entry)| validate_version(entry, at));
    errors.map(|error| error.to_string()).collect()
}

fn validate_version(entry: &ApplicationVersion, at: usize) -> Option<FieldError> {
    let is_version = version::parse(&entry.version).is_some();
    let text = format!(
        "Invalid value: \"{}\": must be a semantic version",
        entry.version
    );
    (!is_version).then(|| FieldError::new(format!("spec.versions[{at}].version"), text))
}

/// The rules for all definitions, stored ones among them.
pub fn validate_stored(spec: &ApplicationDefinitionSpec, rules: SourceRules) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if spec.method != HELM_METHOD {
        errors.push(FieldError::unsupported(
            "spec.method",
            &spec.method,
            &[HELM_METHOD],
        ));
    }
    errors.extend(validate_enums(spec));
    errors.extend(validate_values(spec));
    let options = spec.default_deploy_options.as_ref();
    errors.extend(validate_options(options, "spec.defaultDeployOptions"));
    if let Some(expose) = &spec.expose {
        errors.extend(validate_expose(expose));
    }
    let mut known = BTreeSet::new();
    for (at, entry) in spec.versions.iter().enumerate() {
        let field = format!("spec.versions[{at}]");
        let template = &entry.template;
        let source = format!("{field}.template.source");
        errors.extend(validate_source(&template.source, &source, rules));
        let credentials = template.template_credentials.as_ref();
        errors.extend(validate_helm_credentials(
            credentials.and_then(|credentials| credentials.helm_credentials.as_ref()),
            &format!("{field}.template.templateCredentials.helmCredentials"),
        ));
        if !known.insert(entry.version.as_str()) {
            let text = format!("Duplicate value: \"{}\"", entry.version);
            errors.push(FieldError::new(format!("{field}.version"), text));
        }
    }
    errors
}

fn validate_enums(spec: &ApplicationDefinitionSpec) -> Vec<FieldError> {
    let policies = ["keep", "uninstall"];
    let formats = ["svg+xml", "png"];
    let mut errors = Vec::new();
    for (field, value, supported) in [
        ("spec.onVersionRemoved", &spec.on_version_removed, policies),
        ("spec.logoFormat", &spec.logo_format, formats),
    ] {
        if let Some(value) = value.as_deref().filter(|value| !supported.contains(value)) {
            errors.push(FieldError::unsupported(field, value, &supported));
        }
    }
    errors
}

fn validate_values(spec: &ApplicationDefinitionSpec) -> Vec<FieldError> {
    let Err(error) = default_values(spec) else {
        return Vec::new();
    };
    let text = error.to_string();
    let block = FieldError::new("spec.defaultValuesBlock", text.clone());
    match error {
        ValuesError::Both { .. } => vec![FieldError::new("spec.defaultValues", text), block],
        ValuesError::InvalidYaml { .. } | ValuesError::NoObject => vec![block],
    }
}

fn validate_expose(expose: &ExposeSpec) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if expose.service.is_empty() {
        errors.push(FieldError::new("spec.expose.service", "Required value"));
    }
    if !(1..=65535).contains(&expose.port) {
        let text = "must be between 1 and 65535, inclusive";
        errors.push(FieldError::new("spec.expose.port", text));
    }
    if let Access::Unknown(written) = Access::parse(&expose.access) {
        let text = format!("Invalid value: \"{written}\": must be an access rule such as user");
        errors.push(FieldError::new("spec.expose.access", text));
    }
    errors
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::samples;

    /// The texts of the errors of a new definition.
    fn errors(patch: Value) -> Vec<String> {
        let errors = validate_new(&samples::definition(patch), SourceRules::default());
        errors.into_iter().map(|error| error.text).collect()
    }

    fn git_version(version: &str) -> Value {
        let git = json!({ "remote": "https://git.example/a.git", "ref": { "tag": "v1" } });
        json!({ "version": version, "template": { "source": { "git": git } } })
    }

    #[test]
    fn valid_definitions_are_accepted() {
        let options = |helm: Value| json!({ "spec": { "defaultDeployOptions": { "helm": helm } } });
        for patch in [
            json!({}),
            json!({ "spec": { "versions": [samples::version("v1.0.0"), git_version("v1.0.1")] } }),
            json!({ "spec": { "defaultDeployOptions": {} } }),
            options(json!({ "wait": true, "timeout": "5ns", "atomic": true })),
            options(json!({ "wait": true, "timeout": "5ns" })),
            json!({ "spec": { "method": "helm" } }),
            json!({ "spec": { "defaultValuesBlock": "# a comment\na: b\n" } }),
            json!({ "spec": { "expose": { "service": "web", "port": 80, "access": "user" } } }),
            json!({ "spec": { "onVersionRemoved": "uninstall" } }),
        ] {
            assert_eq!(errors(patch.clone()), Vec::<String>::new(), "{patch}");
        }
    }

    #[test]
    fn each_mistake_has_its_text() {
        let both =
            "Only defaultValues or defaultValuesBlock can be set, but not both simultaneously";
        let options = |helm: Value| json!({ "spec": { "defaultDeployOptions": { "helm": helm } } });
        let same = [samples::version("1.0.0"), samples::version("1.0.0")];
        let without_source = json!({ "version": "1.0.0", "template": { "source": {} } });
        let cases: [(Value, &[&str]); 11] = [
            (
                options(json!({ "atomic": true })),
                &["if atomic=true then wait must also be true"],
            ),
            (
                options(json!({ "wait": true })),
                &["if wait = true then timeout must be greater than 0"],
            ),
            (
                options(json!({ "timeout": "5m" })),
                &["if timeout is defined then wait must be true"],
            ),
            (
                json!({ "spec": { "method": "invalid" } }),
                &["Unsupported value: \"invalid\": supported values: \"helm\""],
            ),
            (
                json!({ "spec": { "versions": [without_source] } }),
                &["no source provided"],
            ),
            (
                json!({ "spec": { "defaultValues": { "a": 1 }, "defaultValuesBlock": "a: 1" } }),
                &[both, both],
            ),
            (
                json!({ "spec": { "versions": same } }),
                &["Duplicate value: \"1.0.0\""],
            ),
            (
                json!({ "spec": { "versions": [git_version("x1")] } }),
                &["Invalid value: \"x1\": must be a semantic version"],
            ),
            (
                json!({ "spec": { "expose": { "service": "", "port": 0, "access": "" } } }),
                &[
                    "Required value",
                    "must be between 1 and 65535, inclusive",
                    "Invalid value: \"\": must be an access rule such as user",
                ],
            ),
            (
                json!({ "spec": { "onVersionRemoved": "stop" } }),
                &["Unsupported value: \"stop\": supported values: \"keep\", \"uninstall\""],
            ),
            (
                json!({ "spec": { "defaultValuesBlock": "[1]" } }),
                &["values must be an object"],
            ),
        ];
        for (patch, wanted) in cases {
            assert_eq!(errors(patch.clone()), wanted, "{patch}");
        }
        let broken = errors(json!({ "spec": { "defaultValuesBlock": "a: [1\n" } }));
        assert!(
            broken.len() == 1 && broken[0].starts_with("invalid yaml"),
            "{broken:?}"
        );
    }

    #[test]
    fn the_method_stays_and_stored_versions_may_be_any_text() {
        let rules = SourceRules::default();
        let before = samples::definition(json!({ "spec": { "versions": [git_version("x1")] } }));
        let changed = samples::definition(json!({ "spec": { "method": "foo" } }));
        let errors = validate_update(&changed, &samples::definition(json!({})), rules);
        let texts: Vec<_> = errors.iter().map(|error| error.text.as_str()).collect();
        let unsupported = "Unsupported value: \"foo\": supported values: \"helm\"";
        assert_eq!(texts, [unsupported, "field is immutable"]);

        assert_eq!(validate_update(&before, &before, rules), []);
        assert_eq!(warnings(&before.spec).len(), 1);
        let versions = json!({ "spec": { "versions": [git_version("x1"), git_version("x2")] } });
        let more = samples::definition(versions);
        let errors = validate_update(&more, &before, rules);
        assert_eq!(errors.len(), 1, "{errors:?}");
        assert_eq!(errors[0].field, "spec.versions[1].version");
    }
}
