//! Installations: changes, history and deletion.

use serde_json::{Value, json};

use super::rig::{EDITOR, Rig, installation, installation_body, installations};

/// An installation of alice's, and its path.
async fn installed(rig: &mut Rig) -> (String, String) {
    let app = rig.define("app", json!({})).await;
    let namespace = rig.namespace.name.clone();
    rig.allow("alice", EDITOR, &namespace).await;
    rig.install("alice", &app, &namespace, "app-1").await;
    (app, installation(&namespace, "app-1"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_put_replaces_the_spec_and_nothing_else() {
    let mut rig = Rig::new().await;
    let (app, path) = installed(&mut rig).await;
    let namespace = rig.namespace.name.clone();
    let mut body = installation_body(&app, &namespace, "app-1");
    body["labels"] = json!({ "other": "label" });
    body["spec"]["applicationRef"]["version"] = json!("2.0.0");
    body["spec"]["valuesBlock"] = Value::Null;
    body["spec"]["values"] = json!({ "b": 2 });
    let (status, changed) = rig.call("alice", "PUT", &path, body.clone()).await;
    assert_eq!(status, 200, "{changed}");
    assert_eq!(changed["spec"]["applicationRef"]["version"], "2.0.0");
    assert_eq!(changed["spec"]["valuesBlock"], "b: 2\n");
    assert_eq!(changed["labels"], json!({ "env": "dev" }));
    assert_eq!(changed.get("annotations"), None, "{changed}");
    let missing = installation(&namespace, "missing");
    let (status, _) = rig.error("alice", "PUT", &missing, body.clone()).await;
    assert_eq!(status, 404);
    body["spec"]["namespace"]["name"] = json!("elsewhere");
    let (status, message) = rig.error("alice", "PUT", &path, body).await;
    assert_eq!(status, 422);
    assert!(
        message.ends_with("spec.namespace.name: field is immutable"),
        "{message}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_patch_changes_what_it_names() {
    let mut rig = Rig::new().await;
    let (_, path) = installed(&mut rig).await;
    let patch = json!({
        "labels": { "env": null, "tier": "b" }, "annotations": { "x": "y" },
        "spec": { "applicationRef": { "version": "2.0.0" } },
    });
    let (status, changed) = rig.call("alice", "PATCH", &path, patch).await;
    assert_eq!(status, 200, "{changed}");
    assert_eq!(changed["labels"], json!({ "tier": "b" }));
    assert_eq!(changed["annotations"], json!({ "x": "y" }));
    assert_eq!(changed["spec"]["applicationRef"]["version"], "2.0.0");
    assert_eq!(changed["spec"]["valuesBlock"], "# a comment\na: 1\n");
    for (patch, code) in [
        (json!({ "name": "b" }), 400),
        (json!({ "namespace": "b" }), 400),
        (
            json!({ "spec": { "applicationRef": { "version": "9.0.0" } } }),
            422,
        ),
        (
            json!({ "spec": { "applicationRef": { "name": "other" } } }),
            422,
        ),
        (json!({ "spec": { "namespace": { "create": false } } }), 422),
        (json!({ "spec": { "values": { "b": 1 } } }), 400),
        (json!({ "labels": { "a": 1 } }), 400),
    ] {
        let (status, message) = rig.error("alice", "PATCH", &path, patch.clone()).await;
        assert_eq!(status, code, "{patch}: {message}");
    }
    for bad in ["", "{", "[]"] {
        let answer = rig.send("alice", "PATCH", &path, bad).await;
        assert_eq!(answer.status(), 400, "{bad:?}");
    }
    let missing = installation(&rig.namespace.name, "missing");
    let (status, _) = rig.error("alice", "PATCH", &missing, json!({})).await;
    assert_eq!(status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_at_the_same_time_all_take_effect() {
    let mut rig = Rig::new().await;
    let (_, path) = installed(&mut rig).await;
    let patches = (0..4).map(|at| {
        let patch = json!({ "labels": { format!("l{at}"): "x" } });
        rig.call("alice", "PATCH", &path, patch)
    });
    for (status, answer) in futures_util::future::join_all(patches).await {
        assert_eq!(status, 200, "{answer}");
    }
    let (_, read) = rig.call("alice", "GET", &path, Value::Null).await;
    let labels = json!({ "env": "dev", "l0": "x", "l1": "x", "l2": "x", "l3": "x" });
    assert_eq!(read["labels"], labels);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_history_has_earlier_versions_with_their_values() {
    let mut rig = Rig::new().await;
    let (_, path) = installed(&mut rig).await;
    for patch in [
        json!({ "spec": { "applicationRef": { "version": "2.0.0" } } }),
        json!({ "labels": { "a": "b" } }),
        json!({ "spec": { "valuesBlock": "a: 2\n" } }),
        json!({ "annotations": null }),
    ] {
        let (status, answer) = rig.call("alice", "PATCH", &path, patch).await;
        assert_eq!(status, 200, "{answer}");
    }
    let history = format!("{path}/history");
    let (status, revisions) = rig.call("alice", "GET", &history, Value::Null).await;
    assert_eq!(status, 200);
    let shown: Vec<_> = revisions
        .as_array()
        .expect("a list")
        .iter()
        .map(|it| (&it["number"], &it["version"], &it["valuesBlock"]))
        .collect();
    let first = "# a comment\na: 1\n";
    assert_eq!(
        shown,
        [
            (&json!(1), &json!("1.0.0"), &json!(first)),
            (&json!(2), &json!("2.0.0"), &json!(first)),
            (&json!(3), &json!("2.0.0"), &json!("a: 2\n")),
        ]
    );
    let refused = rig.error("bob", "GET", &history, Value::Null).await;
    assert_eq!(refused.0, 403);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_installation_is_gone_and_an_enforced_one_stays() {
    let mut rig = Rig::new().await;
    let (_, path) = installed(&mut rig).await;
    let namespace = rig.namespace.name.clone();
    let deleted = rig.call("alice", "DELETE", &path, Value::Null).await;
    assert_eq!(deleted, (200, json!({})));
    assert!(rig.stored(&namespace, "app-1").await.is_none());
    let missing = rig.error("alice", "DELETE", &path, Value::Null).await;
    assert_eq!(missing.0, 404);
    let enforced = rig.define("enforced", json!({ "enforced": true })).await;
    rig.install("alice", &enforced, &namespace, &enforced).await;
    let path = installation(&namespace, &enforced);
    let refused = rig.error("alice", "DELETE", &path, Value::Null).await;
    let wanted = format!(
        "application \"{enforced}\" is enforced and cannot be deleted. Please contact your \
         administrator."
    );
    assert_eq!(refused, (403, wanted));
    assert!(rig.stored(&namespace, &enforced).await.is_some());
    let (_, list) = rig
        .call(
            "alice",
            "GET",
            &format!("{}?namespace={namespace}", installations()),
            Value::Null,
        )
        .await;
    assert_eq!(list.as_array().map(Vec::len), Some(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_enforced_installation_stays_on_the_cluster_that_the_controller_names() {
    let keys = "installations = true\n[controller.installations]\ncluster_name = \"hub\"\n";
    let mut rig = Rig::with(keys, "https://hub.example.com").await;
    let namespace = rig.namespace.name.clone();
    rig.allow("alice", EDITOR, &namespace).await;
    for (target, wanted) in [("hub", 403), ("self", 200), ("other", 200)] {
        let selector = json!({ "targets": [target] });
        let more = json!({ "enforced": true, "selector": selector });
        let app = rig.define(target, more).await;
        rig.install("alice", &app, &namespace, &app).await;
        let path = installation(&namespace, &app);
        let (status, answer) = rig.call("alice", "DELETE", &path, Value::Null).await;
        assert_eq!(status, wanted, "{target}: {answer}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bundle_makes_elsewhere_what_it_was_exported_from() {
    let mut rig = Rig::new().await;
    let (app, path) = installed(&mut rig).await;
    let namespace = rig.namespace.name.clone();
    let annotated = json!({ "annotations": { "x": "y" } });
    assert_eq!(rig.call("alice", "PATCH", &path, annotated).await.0, 200);
    rig.install("alice", &app, &namespace, "app-2").await;
    let bundles = "/api/v2/clusters/self/applicationbundle";
    let export = format!("{bundles}?namespace={namespace}");
    let (status, bundle) = rig.call("alice", "GET", &export, Value::Null).await;
    assert_eq!(status, 200);
    assert_eq!(bundle["applications"].as_array().map(Vec::len), Some(2));
    for name in ["app-1", "app-2"] {
        let path = installation(&namespace, name);
        assert_eq!(rig.call("alice", "DELETE", &path, Value::Null).await.0, 200);
    }
    let mut bad = bundle.clone();
    bad["applications"][1]["spec"]["applicationRef"]["version"] = json!("9.0.0");
    assert_eq!(rig.error("alice", "POST", bundles, bad).await.0, 422);
    assert_eq!(
        rig.error("bob", "POST", bundles, bundle.clone()).await.0,
        403
    );
    assert!(
        rig.stored(&namespace, "app-1").await.is_none(),
        "all or none"
    );
    for count in [2, 0] {
        let (status, made) = rig.call("alice", "POST", bundles, bundle.clone()).await;
        assert_eq!((status, made.as_array().map(Vec::len)), (200, Some(count)));
    }
    let (_, again) = rig.call("alice", "GET", &export, Value::Null).await;
    assert_eq!(again, bundle);
}
