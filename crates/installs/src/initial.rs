//! The apps that a new target begins with, as an annotation lists them.

use std::collections::{BTreeMap, BTreeSet};

use kube::ResourceExt;
use ludgate_cluster::crd::{
    definition::{ApplicationDefinition, ENFORCED_ANNOTATION},
    installation::{ApplicationInstallation, ApplicationInstallationSpec},
};
use serde::Deserialize;

use crate::{defaulting, placement::lists_namespace};

/// Annotation of a target with the apps to install, as JSON. An empty list means that its author
/// wants none, so that default apps are not installed either.
pub const INITIAL_ANNOTATION: &str = "kubermatic.io/initial-application-installations-request";
/// Annotation with a text of [`INITIAL_ANNOTATION`] that could not be read.
pub const REJECTED_ANNOTATION: &str =
    "kubermatic.io/initial-application-installations-request-rejected";
/// Annotation of a target whose initial apps were created: default apps are not installed later.
pub const INITIAL_DONE_ANNOTATION: &str = "ludgate.dev/initial-applications";

/// One app of the annotation.
#[derive(Clone, Debug, Deserialize, PartialEq)]
struct InitialApp {
    #[serde(default)]
    name: String,
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
    spec: ApplicationInstallationSpec,
}

/// Where the listed installations may be.
#[derive(Clone, Copy, Debug)]
pub enum InitialScope<'a> {
    /// In the annotated namespace only: its annotation must not reach other ones.
    Namespace(&'a str),
    /// In the namespaces that the Secret of a target permits.
    Target {
        /// The list of the Secret; `None`: it permits none.
        installs_from: Option<&'a str>,
        /// The namespace of entries that name none; `None`: that of the app.
        default: Option<&'a str>,
    },
}

/// What to do with the annotation.
#[derive(Clone, Debug, PartialEq)]
pub enum InitialStep {
    /// There is none.
    Nothing,
    /// The target cannot have apps yet; the annotation stays.
    Wait,
    /// Create these, and their namespaces. Those that exist are not among them.
    Create(Vec<ApplicationInstallation>),
    /// All exist: remove the annotation, and set [`INITIAL_DONE_ANNOTATION`].
    Finish,
    /// Move the text to [`REJECTED_ANNOTATION`], and publish an Event.
    Reject {
        /// The text.
        text: String,
        /// What is wrong with it.
        reason: String,
    },
}

/// The next step for a target with these annotations. `existing` has the namespaces and names of
/// its installations, and `scope` says where listed ones may be.
pub fn next_step(
    annotations: &BTreeMap<String, String>,
    is_ready: bool,
    definitions: &[ApplicationDefinition],
    existing: &BTreeSet<(String, String)>,
    scope: InitialScope<'_>,
) -> InitialStep {
    let Some(text) = annotations.get(INITIAL_ANNOTATION) else {
        return InitialStep::Nothing;
    };
    let reject = |reason| InitialStep::Reject {
        text: text.clone(),
        reason,
    };
    let apps = match parse(text, scope) {
        Ok(apps) => apps,
        Err(reason) => return reject(reason),
    };
    if !is_ready {
        return InitialStep::Wait;
    }
    let mut wanted = Vec::new();
    for app in apps {
        let name = &app.spec.application_ref.name;
        let definition = definitions
            .iter()
            .find(|definition| &definition.name_any() == name);
        let installation = app.into_installation(definition);
        if let Err(reason) = scope.check(&installation) {
            return reject(reason);
        }
        wanted.push(installation);
    }
    let is_absent = |installation: &ApplicationInstallation| {
        let namespace = installation.namespace().unwrap_or_default();
        !existing.contains(&(namespace, installation.name_any()))
    };
    let absent: Vec<_> = wanted.into_iter().filter(is_absent).collect();
    match absent.is_empty() {
        true => InitialStep::Finish,
        false => InitialStep::Create(absent),
    }
}

/// The apps of the annotation. Enforced ones are left out: they come from their definitions.
fn parse(text: &str, scope: InitialScope<'_>) -> Result<Vec<InitialApp>, String> {
    let mut apps: Vec<InitialApp> =
        serde_json::from_str(text).map_err(|error| error.to_string())?;
    let is_enforced = |app: &InitialApp| {
        let value = app.annotations.get(ENFORCED_ANNOTATION);
        value.is_some_and(|value| value == "true")
    };
    apps.retain(|app| !is_enforced(app));
    for app in &mut apps {
        let reference = &app.spec.application_ref.name;
        if reference.is_empty() {
            return Err("an entry has no spec.applicationRef.name".to_owned());
        }
        if app.name.is_empty() {
            app.name = format!("{reference}-instance");
        }
        if app.namespace.is_empty() {
            app.namespace = scope.default_namespace().to_owned();
        }
    }
    Ok(apps)
}

impl InitialScope<'_> {
    /// The namespace of entries that name none; empty: that of the app.
    fn default_namespace(&self) -> &str {
        match self {
            InitialScope::Namespace(namespace) => namespace,
            InitialScope::Target { default, .. } => default.unwrap_or_default(),
        }
    }

    /// # Errors
    /// The installation may not be in its namespace.
    fn check(self, installation: &ApplicationInstallation) -> Result<(), String> {
        let namespace = installation.namespace().unwrap_or_default();
        let (is_permitted, place) = match self {
            InitialScope::Namespace(own) => (namespace == own, "this namespace"),
            InitialScope::Target { installs_from, .. } => {
                (lists_namespace(installs_from, &namespace), "this target")
            }
        };
        match is_permitted {
            true => Ok(()),
            false => Err(format!(
                "{place} permits no installations in namespace \"{namespace}\""
            )),
        }
    }
}

impl InitialApp {
    fn into_installation(
        self,
        definition: Option<&ApplicationDefinition>,
    ) -> ApplicationInstallation {
        let InitialApp {
            name,
            namespace,
            annotations,
            mut spec,
        } = self;
        // The namespace of the object is that of the app, unless the entry names one.
        let own = if namespace.is_empty() {
            &name
        } else {
            &namespace
        };
        let definition_spec = definition.map(|definition| &definition.spec);
        defaulting::set_new(&mut spec, own, definition_spec);
        let target = spec
            .namespace
            .as_ref()
            .map(|namespace| namespace.name.clone());
        let mut installation = ApplicationInstallation::new(&name, spec);
        let metadata = &mut installation.metadata;
        metadata.namespace = match namespace.is_empty() {
            true => target,
            false => Some(namespace),
        };
        metadata.annotations = (!annotations.is_empty()).then_some(annotations);
        metadata.labels = definition.and_then(|definition| definition.metadata.labels.clone());
        installation
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::samples;

    fn step(text: Option<&str>, is_ready: bool, existing: &[(&str, &str)]) -> InitialStep {
        let annotations = text.map(|text| (INITIAL_ANNOTATION.to_owned(), text.to_owned()));
        let annotations = annotations.into_iter().collect();
        let labels = json!({ "metadata": { "labels": { "team": "a" } } });
        let definitions = [samples::definition(labels)];
        let existing = existing.iter().map(|(namespace, name)| {
            let owned: (String, String) = ((*namespace).to_owned(), (*name).to_owned());
            owned
        });
        let existing = existing.collect();
        next_step(&annotations, is_ready, &definitions, &existing, ALL)
    }

    const ALL: InitialScope<'static> = InitialScope::Target {
        installs_from: Some("*"),
        default: None,
    };

    fn app(more: Value) -> Value {
        let mut app = json!({ "spec": {
            "namespace": { "name": "mon", "create": true },
            "applicationRef": { "name": "example", "version": "1.0.0" },
        } });
        ludgate_cluster::merge_patch::apply(&mut app, &more);
        app
    }

    /// The namespaces and names of the installations to create.
    fn created(step: &InitialStep) -> Vec<(String, String)> {
        let InitialStep::Create(installations) = step else {
            panic!("{step:?}")
        };
        let names = installations
            .iter()
            .map(|it| (it.namespace().unwrap_or_default(), it.name_any()));
        names.collect()
    }

    fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        let pairs = pairs
            .iter()
            .map(|(a, b)| ((*a).to_owned(), (*b).to_owned()));
        pairs.collect()
    }

    #[test]
    fn the_annotation_leads_to_installations_and_then_goes() {
        let one = json!([app(json!({ "name": "p" }))]).to_string();
        let several = json!([
            app(json!({ "name": "p" })),
            app(json!({ "name": "q", "namespace": "apps" })),
            app(json!({})),
        ]);
        let several = several.to_string();
        assert_eq!(step(None, true, &[]), InitialStep::Nothing);
        assert_eq!(step(Some(&one), false, &[]), InitialStep::Wait);
        assert_eq!(
            created(&step(Some(&one), true, &[])),
            pairs(&[("mon", "p")])
        );
        assert_eq!(step(Some(&one), true, &[("mon", "p")]), InitialStep::Finish);
        assert_eq!(
            created(&step(Some(&several), true, &[])),
            pairs(&[("mon", "p"), ("apps", "q"), ("mon", "example-instance")])
        );
        // After a crash behind the first one.
        assert_eq!(
            created(&step(Some(&several), true, &[("mon", "p")])),
            pairs(&[("apps", "q"), ("mon", "example-instance")])
        );
        assert_eq!(step(Some("[]"), true, &[]), InitialStep::Finish);
    }

    #[test]
    fn a_text_that_cannot_be_read_is_kept_aside() {
        for text in [
            "",
            "{",
            "{}",
            "[1]",
            "[{}]",
            r#"[{"spec":{"applicationRef":{"name":"","version":"1"}}}]"#,
        ] {
            for is_ready in [true, false] {
                let InitialStep::Reject { text: kept, reason } = step(Some(text), is_ready, &[])
                else {
                    panic!("{text}")
                };
                assert_eq!(kept, text);
                assert!(!reason.is_empty());
            }
        }
    }

    #[test]
    fn entries_stay_in_the_annotated_namespace_or_in_those_of_the_target() {
        let target = |installs_from, default| InitialScope::Target {
            installs_from,
            default,
        };
        let own = InitialScope::Namespace("own");
        for (entry, scope, wanted) in [
            (json!({}), own, Some("own")),
            (json!({ "namespace": "own" }), own, Some("own")),
            (json!({ "namespace": "other" }), own, None),
            (json!({}), target(Some("mon"), None), Some("mon")),
            (json!({}), target(Some("a, b"), None), None),
            (json!({}), target(Some("a, b"), Some("b")), Some("b")),
            (
                json!({ "namespace": "a" }),
                target(Some("a, b"), Some("b")),
                Some("a"),
            ),
            (
                json!({ "namespace": "c" }),
                target(Some("a, b"), Some("b")),
                None,
            ),
            (json!({}), target(None, None), None),
        ] {
            let text = json!([app(entry.clone())]).to_string();
            let annotations = [(INITIAL_ANNOTATION.to_owned(), text)].into();
            let step = next_step(&annotations, true, &[], &BTreeSet::new(), scope);
            let found = match &step {
                InitialStep::Create(_) => created(&step).pop().map(|(namespace, _)| namespace),
                InitialStep::Reject { .. } => None,
                InitialStep::Nothing | InitialStep::Wait | InitialStep::Finish => {
                    panic!("{step:?}")
                }
            };
            assert_eq!(found.as_deref(), wanted, "{entry} {scope:?}");
        }
    }

    #[test]
    fn an_installation_has_the_annotations_of_its_entry_and_the_labels_of_its_definition() {
        let enforced = app(json!({ "name": "e", "annotations": { ENFORCED_ANNOTATION: "true" } }));
        let own = app(json!({ "name": "p", "annotations": { "a": "b" }, "spec": {
            "namespace": null, "valuesBlock": "a: 1\n",
            "deployOptions": { "helm": { "atomic": true } },
        } }));
        let text = json!([enforced, own]).to_string();
        let InitialStep::Create(installations) = step(Some(&text), true, &[]) else {
            panic!("nothing is created")
        };
        let [installation] = installations.as_slice() else {
            panic!("{installations:?}")
        };
        let installation = serde_json::to_value(installation).expect("JSON");
        let metadata = &installation["metadata"];
        assert_eq!(metadata["annotations"], json!({ "a": "b" }));
        assert_eq!(metadata["labels"], json!({ "team": "a" }));
        assert_eq!(metadata["namespace"], "p");
        let spec = &installation["spec"];
        assert_eq!(spec["namespace"], json!({ "name": "p", "create": true }));
        assert_eq!(spec["valuesBlock"], "a: 1\n");
        assert_eq!(spec["deployOptions"]["helm"]["timeout"], "5m0s");
    }
}
