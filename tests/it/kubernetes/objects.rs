//! Objects that no API server should serve, or that it serves although they make no sense: each
//! harms itself alone, keeps its last good form, and is told of.

use serde_json::{Value, json};

use crate::support::{
    kubernetes_api::{APPS, HUB, KubernetesApi, application, decision, metric, problems},
    world::{APPS as OWN, World},
};

/// What is written, what is told of it, and the decision while it stands there for an app that was
/// public before.
type Malformed = (&'static str, Value, &'static str, &'static str);

fn with(change: impl FnOnce(&mut Value)) -> Value {
    let mut object = application("sick", "public", json!({}));
    change(&mut object);
    object
}

/// JSON so deep that readers which count levels give up.
fn deep() -> Value {
    (0..100).fold(json!("deep"), |inner, _| json!([[inner]]))
}

fn malformed() -> Vec<Malformed> {
    let long = "x".repeat(1024 * 1024);
    let port = |name: Value| {
        with(|object| {
            object["spec"]["svcTemplate"]["spec"]["ports"] = json!([{ "name": name, "port": 5000 }])
        })
    };
    let denied = "403 unknown_access";
    let kept = "503 starting";
    vec![
        (
            "no spec",
            with(|object| object["spec"] = Value::Null),
            "spec cannot be read",
            denied,
        ),
        (
            "a text as spec",
            with(|object| object["spec"] = "public".into()),
            "spec cannot be read",
            denied,
        ),
        (
            "a list as spec",
            with(|object| object["spec"] = json!([1, 2])),
            "spec cannot be read",
            denied,
        ),
        (
            "a number as scope",
            with(|object| object["spec"]["scope"] = 5.into()),
            "spec cannot be read",
            denied,
        ),
        (
            "no scope",
            with(|object| object["spec"]["scope"] = Value::Null),
            "spec cannot be read",
            denied,
        ),
        (
            "another scope",
            with(|object| object["spec"]["scope"] = "PUBLIC".into()),
            "everybody is denied",
            denied,
        ),
        (
            "a group without a name",
            application("sick", "group", json!({ "groupName": "" })),
            "everybody is denied",
            denied,
        ),
        (
            "a text as port",
            with(|object| object["spec"]["httpPort"] = "5000".into()),
            "spec cannot be read",
            kept,
        ),
        (
            "no port there is",
            with(|object| object["spec"]["httpPort"] = 70_000.into()),
            "httpPort",
            kept,
        ),
        (
            "no templates",
            with(|object| object["spec"]["svcTemplate"] = Value::Null),
            "spec cannot be read",
            kept,
        ),
        (
            "a long annotation",
            with(|object| object["metadata"]["annotations"] = json!({ "a": long })),
            "annotations are longer",
            kept,
        ),
        (
            "a port's name that is a path",
            port("../../etc".into()),
            "svcTemplate",
            kept,
        ),
        (
            "a port's name that is a header",
            port("a\r\nX-A: b".into()),
            "svcTemplate",
            kept,
        ),
        (
            "a port's name that is a number",
            port(5.into()),
            "svcTemplate",
            kept,
        ),
    ]
}

async fn until_told(world: &World, told: &str) {
    world
        .until(|snapshot| {
            snapshot
                .problems()
                .iter()
                .any(|problem| problem.what.contains(told))
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_malformed_object_harms_itself_alone_and_keeps_its_last_good_form_except_its_access() {
    let api = KubernetesApi::start().await;
    api.app("sick", "public", json!({}));
    api.app("well", "public", json!({}));
    let world = api.world("").await;
    for (what, object, told, expected) in malformed() {
        api.put(APPS, HUB, object);
        until_told(&world, told).await;
        let listed = problems(&world).await;
        assert_eq!(listed.len(), 1, "{what}: {listed:?}");
        let (object, text, still_published) = &listed[0];
        assert_eq!(object, "hub/sick", "{what}");
        assert!(
            text.contains(told) && text.len() < 1024 && *still_published,
            "{what}: {text}"
        );
        assert_eq!(
            metric(&world, "ludgate_catalog_problems").await,
            1.0,
            "{what}"
        );
        assert_eq!(decision(&world, "sick").await, expected, "{what}");
        assert_eq!(decision(&world, "well").await, "503 starting", "{what}");
        // Who may reach it is not kept: what is written now counts, in whatever company it is.
        if expected == "503 starting" {
            let mut narrowed = api.get(APPS, "sick");
            narrowed["spec"]["scope"] = "group".into();
            api.put(APPS, HUB, narrowed);
            world
                .until(|snapshot| {
                    snapshot
                        .find("sick")
                        .is_some_and(|app| app.spec.access.kind() == "group")
                })
                .await;
            assert_eq!(decision(&world, "sick").await, "401 anonymous", "{what}");
            assert_eq!(problems(&world).await.len(), 1, "{what}");
        }
        api.app("sick", "public", json!({}));
        world.until(|snapshot| snapshot.problems().is_empty()).await;
        assert_eq!(
            decision(&world, "sick").await,
            "503 starting",
            "{what}: mended"
        );
    }
    assert_eq!(metric(&world, "ludgate_catalog_problems").await, 0.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_malformed_from_the_beginning_is_no_app_until_it_is_mended() {
    for (what, object, told, expected) in malformed() {
        let api = KubernetesApi::start().await;
        api.put(APPS, HUB, object);
        api.app("well", "public", json!({}));
        let world = api.world("").await;
        // An app with an unknown access rule is published, and denies every request.
        let only_denied = told == "everybody is denied";
        let without = if only_denied {
            expected
        } else {
            "404 unknown_app"
        };
        assert_eq!(decision(&world, "sick").await, without, "{what}");
        assert_eq!(decision(&world, "well").await, "503 starting", "{what}");
        let listed = problems(&world).await;
        assert!(
            listed.len() == 1 && listed[0].1.contains(told) && listed[0].2 == only_denied,
            "{what}: {listed:?}"
        );
        api.app("sick", "public", json!({}));
        world.until(|snapshot| snapshot.problems().is_empty()).await;
        assert_eq!(
            decision(&world, "sick").await,
            "503 starting",
            "{what}: mended"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn deep_or_strange_unused_fields_hinder_no_object() {
    let api = KubernetesApi::start().await;
    api.app("well", "public", json!({}));
    let strange = || {
        let mut object = application("strange", "primehub", json!({}));
        object["spec"]["podTemplate"]["spec"] = json!({ "a": deep() });
        object["spec"]["svcTemplate"]["spec"]["b"] = deep();
        object["spec"]["unknown"] = deep();
        object["status"] = json!({ "phase": 5, "message": [deep()], "serviceName": {} });
        object["metadata"]["managedFields"] = json!([{ "fieldsV1": deep() }]);
        object["metadata"]["labels"] = json!({ "a": null, "b": 5, "c": "d" });
        object["metadata"]["annotations"] = json!([]);
        object
    };
    // In a list, and in an event.
    api.put(APPS, HUB, strange());
    let world = api.world("").await;
    assert_eq!(decision(&world, "strange").await, "401 anonymous");
    api.delete(APPS, HUB, "strange");
    world
        .until(|snapshot| snapshot.find("strange").is_none())
        .await;
    api.put(APPS, HUB, strange());
    world
        .until(|snapshot| snapshot.find("strange").is_some())
        .await;
    api.app("well", "group", json!({}));
    world
        .until(|snapshot| {
            snapshot
                .find("well")
                .is_some_and(|app| app.spec.access.kind() == "group")
        })
        .await;
    assert_eq!(problems(&world).await, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_is_no_label_is_no_app_and_is_told() {
    let names = [
        "UPPER",
        "a.b",
        "a_b",
        "-a",
        "a/../grp",
        "a b",
        "%61",
        "zzzzz-dz642-012345678901234",
        "apps",
    ];
    let api = KubernetesApi::start().await;
    for name in names {
        api.put(APPS, HUB, application(name, "public", json!({})));
    }
    api.put(APPS, HUB, application(&"x".repeat(64), "public", json!({})));
    api.app("well", "public", json!({}));
    let world = api.world("").await;
    let snapshot = world.running.internals().snapshot();
    let of_cluster = |name: &str| OWN.iter().all(|(own, _)| *own != name);
    let mut known: Vec<_> = snapshot
        .apps()
        .map(|app| app.id().to_string())
        .filter(|name| of_cluster(name))
        .collect();
    known.sort();
    assert_eq!(
        known,
        ["apps", "well"],
        "a name that is a label is an app, whatever else it means"
    );
    let told = problems(&world).await;
    assert_eq!(told.len(), names.len(), "{told:?}");
    assert!(
        told.iter()
            .all(|(_, text, kept)| text.contains("name") && !kept),
        "{told:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_apps_of_one_name_the_files_counts_and_then_that_of_the_first_namespace() {
    let api = KubernetesApi::start().await;
    for (namespace, scope) in [("first", "primehub"), ("second", "public")] {
        for name in ["twice", "grp", namespace] {
            api.put(APPS, namespace, application(name, scope, json!({})));
        }
    }
    let world = api.gateway("namespaces = [\"first\", \"second\"]").await;
    world.until(|snapshot| snapshot.is_complete()).await;
    let access = |name: &str| {
        let snapshot = world.running.internals().snapshot();
        snapshot.find(name).map(|app| app.spec.access.to_string())
    };
    assert_eq!(access("twice").as_deref(), Some("user"));
    assert_eq!(
        access("grp").as_deref(),
        Some("group:phusers"),
        "the file's own"
    );
    assert_eq!(decision(&world, "grp").await, "401 anonymous");
    assert_eq!(
        (access("first").as_deref(), access("second").as_deref()),
        (Some("user"), Some("public"))
    );
    let told = problems(&world).await;
    let texts: Vec<String> = told
        .iter()
        .map(|(object, text, _)| format!("{object}: {text}"))
        .collect();
    assert_eq!(
        texts,
        [
            "first/grp: its name is taken by the configuration file",
            "second/grp: its name is taken by the configuration file",
            "second/twice: its name is taken by first",
        ]
    );
    // The name is free as soon as the first lets go of it.
    api.delete(APPS, "first", "twice");
    world
        .until(|snapshot| {
            snapshot
                .find("twice")
                .is_some_and(|app| app.spec.access.kind() == "public")
        })
        .await;
    api.put(APPS, "first", application("twice", "group", json!({})));
    world
        .until(|snapshot| {
            snapshot
                .find("twice")
                .is_some_and(|app| app.spec.access.kind() == "group")
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_annotation_asks_for_signed_identities() {
    let api = KubernetesApi::start().await;
    let annotated = |value: &str| {
        let mut object = application("well", "primehub", json!({}));
        object["metadata"]["annotations"] = json!({ "ludgate/assertion": value });
        object
    };
    api.put(APPS, HUB, annotated("true"));
    let world = api.world("").await;
    let has_problem = async |what: &str| {
        let is_it = |text: &str| text.contains(what);
        world
            .until(|snapshot| snapshot.problems().iter().any(|it| is_it(&it.what)))
            .await;
        let listed = problems(&world).await;
        assert!(listed.iter().all(|(.., kept)| *kept), "{listed:?}");
    };
    let asserts = || {
        let snapshot = world.running.internals().snapshot();
        snapshot.find("well").expect("the app").spec.assertion
    };
    // This gateway has no keys.
    has_problem("no identity.assertion_keys").await;
    assert!(asserts());
    api.put(APPS, HUB, annotated("yes"));
    has_problem("is neither true nor false: \"yes\"").await;
    assert!(asserts(), "the last good form");
    api.put(APPS, HUB, annotated("false"));
    world.until(|snapshot| snapshot.problems().is_empty()).await;
    assert!(!asserts());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_annotation_takes_the_place_of_the_scope_and_denies_if_it_cannot_be_read() {
    let api = KubernetesApi::start().await;
    for (name, annotation) in [
        ("good", r#"{"any": ["group:a", "email:*@example.com"]}"#),
        ("bad", "group:a"),
    ] {
        let mut object = application(name, "public", json!({}));
        object["metadata"]["annotations"] = json!({ "ludgate/access": annotation });
        api.put(APPS, HUB, object);
    }
    let world = api.gateway("").await;
    world.until(|snapshot| snapshot.is_complete()).await;
    let access = |name: &str| {
        let snapshot = world.running.internals().snapshot();
        snapshot.find(name).map(|app| app.spec.access.to_string())
    };
    let good = access("good");
    assert_eq!(good.as_deref(), Some("any(group:a, email:*@example.com)"));
    assert_eq!(decision(&world, "good").await, "401 anonymous");
    assert_eq!(decision(&world, "bad").await, "403 unknown_access");
    let told = problems(&world).await;
    assert_eq!(told.len(), 1, "{told:?}");
    let (object, text, _) = &told[0];
    assert_eq!(object, "hub/bad");
    assert!(text.contains("ludgate/access is no JSON"), "{text}");
}
