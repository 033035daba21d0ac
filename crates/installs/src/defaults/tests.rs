//! Scenarios of default and enforced apps.

use ludgate_cluster::merge_patch;
use serde_json::json;

use super::*;
use crate::samples;

/// A definition of this name, with the spec changed by a patch.
fn definition(name: &str, spec: Value) -> ApplicationDefinition {
    samples::definition(json!({ "metadata": { "name": name }, "spec": spec }))
}

fn here() -> DefaultsTarget<'static> {
    DefaultsTarget {
        name: "here",
        ..DefaultsTarget::default()
    }
}

/// The actions as JSON, with the objects that are created or replaced.
fn found(
    definitions: &[ApplicationDefinition],
    existing: &[ApplicationInstallation],
    target: DefaultsTarget<'_>,
) -> Vec<Value> {
    let actions = actions(definitions, existing, target);
    let json = actions.into_iter().map(|action| match action {
        DefaultsAction::Create(object) => json!({ "create": object }),
        DefaultsAction::Replace(object) => json!({ "replace": object }),
        DefaultsAction::Release { namespace, name } => json!({ "release": [namespace, name] }),
    });
    json.collect()
}

/// The names of the installations that are created.
fn created(definitions: &[ApplicationDefinition], target: DefaultsTarget<'_>) -> Vec<String> {
    let found = found(definitions, &[], target);
    let names = found.iter().map(|action| {
        let name = action["create"]["metadata"]["name"].as_str();
        name.expect("a created object").to_owned()
    });
    names.collect()
}

/// The object that is created for one definition.
fn one(definition: ApplicationDefinition, target: DefaultsTarget<'_>) -> Value {
    let mut found = found(&[definition], &[], target);
    assert_eq!(found.len(), 1);
    found[0]["create"].take()
}

fn stored(definition: ApplicationDefinition, patch: Value) -> ApplicationInstallation {
    let mut object = one(definition, here());
    merge_patch::apply(&mut object, &patch);
    serde_json::from_value(object).expect("an object")
}

fn enforced(more: Value) -> ApplicationDefinition {
    let mut spec = json!({ "enforced": true, "default": true });
    merge_patch::apply(&mut spec, &more);
    definition("a", spec)
}

#[test]
fn only_default_and_enforced_apps_are_installed() {
    let plain = definition("p", json!({}));
    let default = definition("d", json!({ "default": true }));
    let enforced = definition("e", json!({ "enforced": true }));
    let both = definition("b", json!({ "default": true, "enforced": true }));
    assert_eq!(
        created(std::slice::from_ref(&plain), here()),
        Vec::<String>::new()
    );
    assert_eq!(created(std::slice::from_ref(&default), here()), ["d"]);
    let second = definition("d2", json!({ "default": true }));
    assert_eq!(created(&[default.clone(), second], here()), ["d", "d2"]);
    assert_eq!(created(std::slice::from_ref(&enforced), here()), ["e"]);
    assert_eq!(
        created(&[plain, default, enforced, both], here()),
        ["d", "e", "b"]
    );
}

#[test]
fn default_apps_are_for_new_targets_and_enforced_ones_for_all() {
    let definitions = [
        definition("d", json!({ "default": true })),
        definition("e", json!({ "enforced": true })),
    ];
    let cases: [(bool, bool, &[&str]); 3] = [
        (false, false, &["d", "e"]),
        (true, false, &["e"]),
        (false, true, &["e"]),
    ];
    for (has_initial_apps, has_default_apps, wanted) in cases {
        let target = DefaultsTarget {
            has_initial_apps,
            has_default_apps,
            ..here()
        };
        assert_eq!(created(&definitions, target), wanted);
    }
}

#[test]
fn the_selector_names_targets_or_datacenters() {
    for (selector, is_selected) in [
        (json!({ "datacenters": ["here"] }), true),
        (json!({ "targets": ["there", "here"] }), true),
        (json!({ "datacenters": ["there"] }), false),
        (json!({ "datacenters": [] }), true),
    ] {
        let spec = json!({ "enforced": true, "selector": selector });
        let names = created(&[definition("e", spec)], here());
        assert_eq!(!names.is_empty(), is_selected, "{selector}");
    }
    let deleted = json!({
        "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" }, "spec": { "enforced": true },
    });
    assert_eq!(
        created(&[samples::definition(deleted)], here()),
        Vec::<String>::new()
    );
}

#[test]
fn the_version_is_the_default_one_or_the_highest() {
    let versions = json!(["1.0.0", "v1.10.0", "1.9.0"].map(samples::version));
    for (spec, wanted) in [
        (
            json!({ "versions": versions, "defaultVersion": "1.9.0" }),
            Some("1.9.0"),
        ),
        (
            json!({ "versions": versions, "defaultVersion": "" }),
            Some("v1.10.0"),
        ),
        (json!({ "versions": versions }), Some("v1.10.0")),
        (json!({ "versions": [] }), None),
    ] {
        let found = found(&[enforced(spec.clone())], &[], here());
        let version = found
            .first()
            .map(|it| &it["create"]["spec"]["applicationRef"]["version"]);
        assert_eq!(version.and_then(Value::as_str), wanted, "{spec}");
    }
}

#[test]
fn an_installation_has_the_namespaces_values_and_annotations_of_its_definition() {
    let plain = one(enforced(json!({})), here());
    assert_eq!(plain["metadata"]["namespace"], "a");
    assert_eq!(
        plain["spec"]["namespace"],
        json!({ "name": "a", "create": true })
    );
    assert_eq!(plain["spec"]["values"], json!({}));
    let namespace = json!({ "name": "mon", "create": false });
    let whole = samples::definition(json!({
        "metadata": {
            "name": "a", "labels": { "team": "a" },
            "annotations": { INTERVAL_ANNOTATION: "10m", "x": "y", LAST_APPLIED_ANNOTATION: "{}" },
        },
        "spec": {
            "enforced": true, "defaultNamespace": namespace, "defaultValuesBlock": "# c\na: 1\n",
        },
    }));
    let target = DefaultsTarget {
        namespace: Some("system"),
        ..here()
    };
    let found = one(whole, target);
    let metadata = &found["metadata"];
    assert_eq!(metadata["namespace"], "system");
    assert_eq!(metadata["labels"], json!({ "team": "a" }));
    let annotations = json!({ INTERVAL_ANNOTATION: "10m", "x": "y", ENFORCED_ANNOTATION: "true" });
    assert_eq!(metadata["annotations"], annotations);
    let spec = &found["spec"];
    assert_eq!(spec["namespace"], namespace);
    assert_eq!(spec["valuesBlock"], "# c\na: 1\n");
    assert_eq!(spec["reconciliationInterval"], "10m");
    let object = one(
        enforced(json!({ "defaultValues": { "a": { "b": "c" } } })),
        here(),
    );
    let block = object["spec"]["valuesBlock"].as_str().expect("YAML");
    let values = values::parse_block(block).map(Value::Object);
    assert_eq!(values, Ok(json!({ "a": { "b": "c" } })));
    assert_eq!(object["spec"]["values"], json!({}));
}

#[test]
fn an_enforced_app_is_restored_and_a_default_one_belongs_to_people() {
    let definition_a = || enforced(json!({}));
    let unchanged = stored(definition_a(), json!({}));
    assert_eq!(
        found(&[definition_a()], &[unchanged], here()),
        Vec::<Value>::new()
    );
    for patch in [
        json!({ "spec": { "valuesBlock": "mine: 1" } }),
        json!({ "spec": { "applicationRef": { "version": "0.9.0" } } }),
        json!({ "metadata": { "annotations": { ENFORCED_ANNOTATION: "false" } } }),
    ] {
        let edited = stored(definition_a(), patch.clone());
        let found = found(&[definition_a()], &[edited], here());
        assert_eq!(found.len(), 1, "{patch}");
        let mut wanted = one(definition_a(), here());
        assert_eq!(found[0]["replace"], wanted.take(), "{patch}");
    }
    let default = || definition("a", json!({ "default": true }));
    let edited = stored(default(), json!({ "spec": { "valuesBlock": "mine: 1" } }));
    assert_eq!(found(&[default()], &[edited], here()), Vec::<Value>::new());
}

#[test]
fn what_others_wrote_and_what_cannot_change_stays() {
    let noted = json!({ "metadata": { "resourceVersion": "7", "annotations": { "x": "y" } } });
    let noted = stored(enforced(json!({})), noted);
    assert_eq!(
        found(&[enforced(json!({}))], &[noted], here()),
        Vec::<Value>::new()
    );
    let moved = json!({ "defaultNamespace": { "name": "n" }, "defaultValuesBlock": "a: 1" });
    let before = stored(
        enforced(json!({})),
        json!({ "metadata": { "resourceVersion": "7" } }),
    );
    let found_moved = found(&[enforced(moved)], &[before], here());
    let replaced = &found_moved[0]["replace"];
    assert_eq!(replaced["metadata"]["resourceVersion"], "7");
    assert_eq!(replaced["spec"]["namespace"]["name"], "a");
    assert_eq!(replaced["spec"]["valuesBlock"], "a: 1");
    // The configured namespace changed: the app is not installed twice.
    let elsewhere = stored(
        enforced(json!({})),
        json!({ "metadata": { "namespace": "old" } }),
    );
    assert_eq!(
        found(&[enforced(json!({}))], &[elsewhere], here()),
        Vec::<Value>::new()
    );
}

#[test]
fn an_app_that_is_no_longer_enforced_is_released() {
    let app = || stored(enforced(json!({})), json!({}));
    let release = json!({ "release": ["a", "a"] });
    for definitions in [
        vec![],
        vec![definition("a", json!({}))],
        vec![enforced(json!({ "selector": { "targets": ["there"] } }))],
    ] {
        assert_eq!(
            found(&definitions, &[app()], here()),
            std::slice::from_ref(&release)
        );
    }
    // An installation of a person was never enforced.
    let own = samples::installation(json!({}));
    assert_eq!(found(&[], &[own], here()), Vec::<Value>::new());
}
