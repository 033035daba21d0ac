//! Which objects may be deleted.

use kube::ResourceExt;
use ludgate_cluster::crd::{
    definition::{
        ApplicationDefinition, CATALOG_LABEL, DefaultingSelector, ENFORCED_ANNOTATION,
        MANAGED_BY_LABEL, MANAGED_BY_PLATFORM,
    },
    installation::ApplicationInstallation,
};

/// Whether a default or enforced app is for a target. Without names in the selector it is for all.
pub fn selects(selector: Option<&DefaultingSelector>, target: &str) -> bool {
    let lists = selector.map(|selector| [&selector.datacenters, &selector.targets]);
    let names: Vec<&String> = lists.into_iter().flatten().flatten().flatten().collect();
    names.is_empty() || names.iter().any(|name| name.as_str() == target)
}

/// Checks the deletion of an installation on a target. `definition` is the one that it names.
///
/// The guard is bound to the annotation and to the name, not to the namespace: enforced apps may
/// be in any namespace.
///
/// # Errors
/// The app is enforced on this target.
pub fn check_installation(
    installation: &ApplicationInstallation,
    definition: Option<&ApplicationDefinition>,
    target: &str,
) -> Result<(), String> {
    let Some(definition) = definition else {
        return Ok(());
    };
    let annotation = installation.annotations().get(ENFORCED_ANNOTATION);
    let name = definition.name_any();
    let is_guarded =
        annotation.is_some_and(|value| value == "true") || installation.name_any() == name;
    let is_enforced =
        definition.spec.enforced && selects(definition.spec.selector.as_ref(), target);
    match is_guarded && is_enforced {
        true => Err(format!(
            "application \"{}\" is enforced and cannot be deleted. Please contact your \
             administrator.",
            installation.name_any()
        )),
        false => Ok(()),
    }
}

/// Checks the deletion of a definition.
///
/// # Errors
/// The definition belongs to another controller, which would make it again.
pub fn check_definition(definition: &ApplicationDefinition) -> Result<(), String> {
    let labels = definition.labels();
    let managed_by = labels.get(MANAGED_BY_LABEL).map(String::as_str);
    if managed_by == Some(MANAGED_BY_PLATFORM) {
        return Err(format!(
            "metadata.labels: the platform manages this ApplicationDefinition, and clusters may \
             have installations of it. To delete it, remove the label \"{MANAGED_BY_LABEL}\" first."
        ));
    }
    if labels.contains_key(CATALOG_LABEL) {
        return Err(format!(
            "metadata.labels: an ApplicationCatalog has this ApplicationDefinition. To delete it, \
             remove it from the catalog, or remove the label \"{CATALOG_LABEL}\" first."
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::samples;

    #[test]
    fn enforced_apps_of_this_target_cannot_be_deleted() {
        let enforced = |selector: Value| json!({ "enforced": true, "selector": selector });
        let annotated = json!({ "annotations": { ENFORCED_ANNOTATION: "true" } });
        let own = json!({ "name": "example", "namespace": "example" });
        let cases = [
            (Some(json!({})), own.clone(), true),
            (None, own.clone(), true),
            (Some(json!({ "default": true })), own.clone(), true),
            (Some(enforced(json!(null))), own.clone(), false),
            (
                Some(enforced(json!({ "datacenters": ["here"] }))),
                own.clone(),
                false,
            ),
            (
                Some(enforced(json!({ "targets": ["x", "here"] }))),
                own.clone(),
                false,
            ),
            (
                Some(enforced(json!({ "datacenters": ["there"] }))),
                own,
                true,
            ),
            // A configured namespace, where the Kubermatic platform lets it be deleted.
            (
                Some(enforced(json!(null))),
                json!({ "name": "example", "namespace": "system" }),
                false,
            ),
            (Some(enforced(json!(null))), annotated, false),
            // An installation of a person beside the enforced one.
            (Some(enforced(json!(null))), json!({}), true),
        ];
        for (spec, metadata, is_allowed) in cases {
            let installation = samples::installation(json!({ "metadata": metadata }));
            let definition = spec
                .as_ref()
                .map(|spec| samples::definition(json!({ "spec": spec })));
            let checked = check_installation(&installation, definition.as_ref(), "here");
            assert_eq!(checked.is_ok(), is_allowed, "{spec:?} {metadata}");
        }
        let installation = samples::installation(json!({ "metadata": { "name": "example" } }));
        let definition = samples::definition(json!({ "spec": { "enforced": true } }));
        let refused = check_installation(&installation, Some(&definition), "here");
        let wanted = "application \"example\" is enforced and cannot be deleted. Please contact \
                      your administrator.";
        assert_eq!(refused, Err(wanted.to_owned()));
    }

    #[test]
    fn definitions_of_other_controllers_cannot_be_deleted() {
        for (labels, named) in [
            (json!({}), None),
            (json!({ MANAGED_BY_LABEL: "kkp" }), Some(MANAGED_BY_LABEL)),
            (json!({ CATALOG_LABEL: "true" }), Some(CATALOG_LABEL)),
            (json!({ MANAGED_BY_LABEL: "team" }), None),
        ] {
            let definition = samples::definition(json!({ "metadata": { "labels": labels } }));
            let error = check_definition(&definition).err();
            assert_eq!(error.is_some(), named.is_some(), "{labels}");
            assert!(error.is_none_or(|error| error.contains(named.unwrap_or_default())));
        }
    }
}
