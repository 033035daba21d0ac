//! Tests of where an installation may have its app.

use serde_json::{Value, json};

use super::*;
use crate::samples;

const EDGE: PlacementTarget<'static> = PlacementTarget::Secret {
    name: "edge",
    installs_from: Some("apps other"),
};

fn namespace(name: &str, create: bool) -> AppNamespaceSpec {
    serde_json::from_value(json!({ "name": name, "create": create })).expect("a namespace")
}

/// The result for an installation of the namespace `apps`.
fn check(
    target: PlacementTarget<'_>,
    wanted: &AppNamespaceSpec,
    existing: Option<ExistingNamespace<'_>>,
    definition: Value,
) -> Result<PermittedPlacement, PlacementRefused> {
    let protected = BTreeSet::from(["kube-system".to_owned()]);
    let rules = PlacementRules {
        home_namespace: "hub",
        protected_namespaces: &protected,
        new_namespaces: &[NamespacePattern::own_prefix()],
    };
    let definition = samples::definition(json!({ "spec": definition }));
    rules.check(WantedPlacement {
        own: "apps",
        target,
        namespace: wanted,
        existing,
        definition: Some(&definition),
    })
}

fn listed(list: &str) -> Option<ExistingNamespace<'_>> {
    Some(ExistingNamespace {
        installs_from: Some(list),
        is_created_here: false,
    })
}

#[test]
fn a_list_has_blanks_or_commas() {
    for (list, wanted) in [
        (None, false),
        (Some(""), false),
        (Some(" , "), false),
        (Some("b"), false),
        (Some("aa a-b"), false),
        (Some("a"), true),
        (Some("b, a"), true),
        (Some("b\n a"), true),
        (Some("*"), true),
        (Some("b,*"), true),
        (Some("a*"), false),
    ] {
        assert_eq!(lists_namespace(list, "a"), wanted, "{list:?}");
    }
    assert!(!lists_namespace(Some(","), ""));
}

#[test]
fn a_protected_namespace_is_never_permitted() {
    let default = json!({ "defaultNamespace": { "name": "kube-system" } });
    let created = Some(ExistingNamespace {
        installs_from: Some("*"),
        is_created_here: true,
    });
    for (name, target, existing, is_refused) in [
        ("kube-system", PlacementTarget::Home, created, true),
        ("kube-system", EDGE, created, true),
        ("kube-system", EDGE, None, true),
        ("hub", PlacementTarget::Home, created, true),
        // The home namespace of this cluster is like any other one elsewhere.
        ("hub", EDGE, created, false),
    ] {
        let found = check(target, &namespace(name, true), existing, default.clone());
        let refused = Err(PlacementRefused::Protected(name.to_owned()));
        assert_eq!(found == refused, is_refused, "{name} {target:?} {found:?}");
    }
}

#[test]
fn an_installation_in_the_home_namespace_has_its_app_elsewhere() {
    let protected = BTreeSet::new();
    let rules = PlacementRules {
        home_namespace: "hub",
        protected_namespaces: &protected,
        new_namespaces: &[NamespacePattern::own_prefix()],
    };
    for (name, is_permitted) in [("hub", false), ("hub-app", true)] {
        let found = rules.check(WantedPlacement {
            own: "hub",
            target: PlacementTarget::Home,
            namespace: &namespace(name, true),
            existing: None,
            definition: None,
        });
        assert_eq!(found.is_ok(), is_permitted, "{name}");
    }
}

#[test]
fn an_existing_namespace_is_its_own_or_permits_the_installation() {
    let none = Some(ExistingNamespace::default());
    let created = Some(ExistingNamespace {
        installs_from: None,
        is_created_here: true,
    });
    let mon = json!({ "defaultNamespace": { "name": "mon", "create": true } });
    let permitted = |may_label| {
        Ok(PermittedPlacement {
            may_label,
            is_new_for_all: false,
        })
    };
    let refused = |namespace: &str| {
        Err(PlacementRefused::Existing {
            namespace: namespace.to_owned(),
            own: "apps".to_owned(),
        })
    };
    for (name, existing, definition, wanted) in [
        ("apps", none, json!({}), permitted(false)),
        ("apps", listed("apps"), json!({}), permitted(true)),
        ("victim", none, json!({}), refused("victim")),
        ("victim", listed("other"), json!({}), refused("victim")),
        ("victim", listed("apps"), json!({}), permitted(true)),
        ("victim", listed("*"), json!({}), permitted(true)),
        // The prefix permits the creation only.
        ("apps-victim", none, json!({}), refused("apps-victim")),
        ("apps-x", created, json!({}), permitted(true)),
        ("mon", none, mon.clone(), permitted(true)),
        ("example", none, mon, refused("example")),
        ("example", none, json!({}), refused("example")),
        (
            "example",
            none,
            json!({ "enforced": true }),
            permitted(true),
        ),
        ("example", none, json!({ "default": true }), permitted(true)),
        ("other", none, json!({ "default": true }), refused("other")),
    ] {
        let wanted_namespace = namespace(name, true);
        let home = PlacementTarget::Home;
        let found = check(home, &wanted_namespace, existing, definition.clone());
        assert_eq!(found, wanted, "{name} {existing:?} {definition}");
        let on_edge = check(EDGE, &wanted_namespace, existing, definition);
        assert_eq!(on_edge, wanted, "{name} {existing:?} on a target");
    }
}

#[test]
fn a_new_namespace_has_a_permitted_name() {
    let mon = json!({ "defaultNamespace": { "name": "mon", "create": true } });
    for (name, create, definition, wanted) in [
        ("apps-x", true, json!({}), Some(true)),
        ("apps-x", false, json!({}), None),
        ("appsx", true, json!({}), None),
        ("other-x", true, json!({}), None),
        ("mon", true, mon.clone(), Some(false)),
        ("mon", false, mon, Some(false)),
        ("apps", true, json!({}), Some(false)),
    ] {
        for target in [PlacementTarget::Home, EDGE] {
            let found = check(target, &namespace(name, create), None, definition.clone());
            let is_new_for_all = found.ok().map(|found| found.is_new_for_all);
            assert_eq!(is_new_for_all, wanted, "{name} {create}");
        }
    }
}

#[test]
fn a_target_permits_nothing_without_its_list() {
    let own = namespace("apps", true);
    for (installs_from, is_permitted) in [
        (None, false),
        (Some("other"), false),
        (Some("apps"), true),
        (Some("*"), true),
    ] {
        let target = PlacementTarget::Secret {
            name: "edge",
            installs_from,
        };
        let found = check(target, &own, listed("*"), json!({}));
        assert_eq!(found.is_ok(), is_permitted, "{installs_from:?}");
    }
}

#[test]
fn refusals_name_the_annotation() {
    let closed = PlacementTarget::Secret {
        name: "edge",
        installs_from: None,
    };
    let home = PlacementTarget::Home;
    for (target, name, existing) in [
        (home, "victim", Some(ExistingNamespace::default())),
        (home, "victim", None),
        (closed, "apps", None),
    ] {
        let found = check(target, &namespace(name, true), existing, json!({}));
        let text = found.expect_err("refused").to_string();
        assert!(text.contains(INSTALLS_FROM_ANNOTATION), "{text}");
        assert!(text.contains("\"apps\""), "{text}");
    }
}
