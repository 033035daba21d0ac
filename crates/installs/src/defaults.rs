//! Default and enforced apps: each selected target has the enforced ones, and a new one gets the
//! default ones.

use std::collections::BTreeMap;

use kube::ResourceExt;
use ludgate_cluster::crd::{
    app_target::AppNamespaceSpec,
    definition::{
        ApplicationDefinition, ApplicationDefinitionSpec, DEFAULTED_ANNOTATION,
        ENFORCED_ANNOTATION, INTERVAL_ANNOTATION,
    },
    installation::{ApplicationInstallation, ApplicationInstallationSpec, ApplicationRef},
};
use ludgate_model::go_duration;
use serde_json::{Map, Value};

use crate::{
    validation::deletion::selects,
    values::{self, default_values},
    version,
};

/// `kubectl apply` keeps the whole object in it.
pub const LAST_APPLIED_ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// A target, as far as default apps are concerned.
#[derive(Clone, Copy, Debug, Default)]
pub struct DefaultsTarget<'a> {
    /// The name of the target.
    pub name: &'a str,
    /// The namespace of the installations; `None`: one for each app, with its name.
    pub namespace: Option<&'a str>,
    /// Its author listed initial apps, or chose none: now or earlier.
    pub has_initial_apps: bool,
    /// Default apps were created before. People may have deleted them.
    pub has_default_apps: bool,
}

/// What to do with an installation.
#[derive(Clone, Debug, PartialEq)]
pub enum DefaultsAction {
    /// Create it, and its namespace.
    Create(Box<ApplicationInstallation>),
    /// Write it over the one that exists.
    Replace(Box<ApplicationInstallation>),
    /// Set its annotation `enforced` to `false`, since its definition is no longer enforced here.
    Release {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
}

/// What to do on a target with these installations.
pub fn actions(
    definitions: &[ApplicationDefinition],
    existing: &[ApplicationInstallation],
    target: DefaultsTarget<'_>,
) -> Vec<DefaultsAction> {
    let gets_defaults = !target.has_initial_apps && !target.has_default_apps;
    let selected: Vec<_> = definitions
        .iter()
        .filter(|definition| definition.metadata.deletion_timestamp.is_none())
        .filter(|definition| selects(definition.spec.selector.as_ref(), target.name))
        .collect();
    let wanted = selected.iter().filter(|definition| {
        definition.spec.enforced || (definition.spec.default && gets_defaults)
    });
    let mut actions: Vec<_> = wanted
        .filter_map(|definition| action(definition, existing, target))
        .collect();
    let is_enforced = |name: &str| {
        let mut selected = selected
            .iter()
            .filter(|definition| definition.spec.enforced);
        selected.any(|definition| definition.name_any() == name)
    };
    for installation in existing {
        if is_annotated(installation, ENFORCED_ANNOTATION)
            && !is_enforced(&installation.spec.application_ref.name)
        {
            actions.push(DefaultsAction::Release {
                namespace: installation.namespace().unwrap_or_default(),
                name: installation.name_any(),
            });
        }
    }
    actions
}

fn is_annotated(installation: &ApplicationInstallation, annotation: &str) -> bool {
    let value = installation.annotations().get(annotation);
    value.is_some_and(|value| value == "true")
}

fn action(
    definition: &ApplicationDefinition,
    existing: &[ApplicationInstallation],
    target: DefaultsTarget<'_>,
) -> Option<DefaultsAction> {
    let wanted = wanted(definition, target)?;
    let name = definition.name_any();
    let is_same_app = |it: &&ApplicationInstallation| {
        it.name_any() == name && it.spec.application_ref.name == name
    };
    // An installation that was enforced before keeps its namespace.
    let own = existing.iter().filter(is_same_app).find(|it| {
        let is_ours =
            is_annotated(it, ENFORCED_ANNOTATION) && is_annotated(it, DEFAULTED_ANNOTATION);
        is_ours || it.namespace() == wanted.namespace()
    });
    match own {
        None => Some(DefaultsAction::Create(Box::new(wanted))),
        Some(_) if !definition.spec.enforced => None,
        Some(own) => {
            let replaced = replaced(own, wanted);
            let is_changed = replaced.spec != own.spec || replaced.metadata != own.metadata;
            is_changed.then(|| DefaultsAction::Replace(Box::new(replaced)))
        }
    }
}

/// The stored object with the spec, the labels and the annotations that are wanted. Others' labels
/// and annotations stay, and so does the namespace of the app, which cannot be changed.
fn replaced(
    own: &ApplicationInstallation,
    wanted: ApplicationInstallation,
) -> ApplicationInstallation {
    let mut replaced = own.clone();
    let namespace = own.spec.namespace.clone();
    replaced.spec = wanted.spec;
    if let (Some(stored), Some(namespace)) = (namespace, &mut replaced.spec.namespace) {
        namespace.name = stored.name;
        namespace.create = stored.create;
    }
    for (stored, wanted) in [
        (&mut replaced.metadata.labels, wanted.metadata.labels),
        (
            &mut replaced.metadata.annotations,
            wanted.metadata.annotations,
        ),
    ] {
        if let Some(wanted) = wanted.filter(|wanted| !wanted.is_empty()) {
            stored.get_or_insert_default().extend(wanted);
        }
    }
    replaced
}

/// The installation of a default or enforced app; `None`: the definition has no version.
fn wanted(
    definition: &ApplicationDefinition,
    target: DefaultsTarget<'_>,
) -> Option<ApplicationInstallation> {
    let name = definition.name_any();
    let spec = &definition.spec;
    let versions = spec.versions.iter().map(|entry| entry.version.as_str());
    let default = spec.default_version.as_deref().filter(|it| !it.is_empty());
    let version = default.or_else(|| version::highest(versions))?.to_owned();
    let mut annotations = definition.annotations().clone();
    annotations.remove(LAST_APPLIED_ANNOTATION);
    let interval = annotations
        .get(INTERVAL_ANNOTATION)
        .filter(|interval| go_duration::parse(interval).is_some())
        .cloned();
    let (object, block) = wanted_values(spec);
    for (annotation, is_set) in [
        (ENFORCED_ANNOTATION, spec.enforced),
        (DEFAULTED_ANNOTATION, spec.default),
    ] {
        if is_set {
            annotations.insert(annotation.to_owned(), "true".to_owned());
        }
    }
    let namespace = spec.default_namespace.clone();
    let installation = ApplicationInstallationSpec {
        namespace: Some(namespace.unwrap_or_else(|| AppNamespaceSpec {
            name: name.clone(),
            create: true,
            labels: None,
            annotations: None,
        })),
        application_ref: ApplicationRef {
            name: name.clone(),
            version,
        },
        values: Some(object),
        values_block: block,
        reconciliation_interval: interval,
        ..ApplicationInstallationSpec::default()
    };
    let mut wanted = ApplicationInstallation::new(&name, installation);
    wanted.metadata.namespace = Some(target.namespace.unwrap_or(&name).to_owned());
    wanted.metadata.labels = non_empty(definition.labels().clone());
    wanted.metadata.annotations = non_empty(annotations);
    Some(wanted)
}

fn non_empty(texts: BTreeMap<String, String>) -> Option<BTreeMap<String, String>> {
    (!texts.is_empty()).then_some(texts)
}

/// The values of the definition as an object and as YAML. A text keeps its comments; an object
/// becomes a text where it can.
fn wanted_values(spec: &ApplicationDefinitionSpec) -> (Value, Option<String>) {
    let none = Value::Object(Map::new());
    if let Some(block) = spec
        .default_values_block
        .clone()
        .filter(|it| !it.is_empty())
    {
        return (none, Some(block));
    }
    let object = default_values(spec).unwrap_or_default();
    if object.is_empty() {
        return (none, None);
    }
    match values::to_block(&object) {
        Ok(block) => (none, Some(block)),
        Err(_) => (Value::Object(object), None),
    }
}

#[cfg(test)]
mod tests;
