//! Definitions: everyone reads them, administrators write them.

use serde_json::{Value, json};

use super::rig::{DEFINITIONS, Rig, definition_body, version};

fn path(name: &str) -> String {
    format!("{DEFINITIONS}/{name}")
}

fn entry<'l>(list: &'l Value, name: &str) -> Option<&'l Value> {
    let all = list.as_array().expect("a list");
    all.iter().find(|entry| entry["name"] == name)
}

#[tokio::test(flavor = "multi_thread")]
async fn everyone_who_is_signed_in_lists_and_reads_them() {
    let mut rig = Rig::new().await;
    let one = rig.define("one", json!({ "default": true })).await;
    let two = rig.define("two", json!({})).await;
    for person in ["alice", "carol"] {
        let (status, list) = rig.call(person, "GET", DEFINITIONS, Value::Null).await;
        assert_eq!(status, 200);
        let wanted = json!({
            "name": one, "labels": { "team": "a" },
            "spec": { "description": "An example", "displayName": "Example", "default": true },
        });
        assert_eq!(entry(&list, &one), Some(&wanted), "{person}");
        assert!(entry(&list, &two).is_some(), "{person}");
        let (status, detail) = rig.call(person, "GET", &path(&one), Value::Null).await;
        assert_eq!(status, 200);
        assert_eq!(detail["name"], one);
        assert!(detail["creationTimestamp"].is_string(), "{detail}");
        assert_eq!(
            detail["spec"]["versions"],
            json!([version("1.0.0"), version("2.0.0")])
        );
    }
    let missing = rig.unique("missing");
    let error = rig
        .error("alice", "GET", &path(&missing), Value::Null)
        .await;
    let wanted = format!("applicationdefinitions.apps.kubermatic.k8c.io \"{missing}\" not found");
    assert_eq!(error, (404, wanted));
    let answer = rig.api.send(&format!("GET {DEFINITIONS}"), "", "").await;
    assert_eq!(answer.status(), 401);
    assert_eq!(answer.json()["error"]["code"], 401);
}

#[tokio::test(flavor = "multi_thread")]
async fn administrators_make_them_and_others_do_not() {
    let mut rig = Rig::new().await;
    let name = rig.unique("made");
    rig.leaves("applicationdefinition", &name);
    let body = definition_body(&name);
    let refused = rig.error("alice", "POST", DEFINITIONS, body.clone()).await;
    let wanted = "forbidden: \"alice@example.com\" doesn't have admin rights".to_owned();
    assert_eq!(refused, (403, wanted));
    assert!(rig.stored_definition(&name).await.is_none());
    let (status, made) = rig.call("carol", "POST", DEFINITIONS, body.clone()).await;
    assert_eq!(status, 201, "{made}");
    assert_eq!(made["kind"], "ApplicationDefinition");
    assert_eq!(made["metadata"]["name"], name);
    assert_eq!(made["metadata"]["labels"], json!({ "team": "a" }));
    let (status, _) = rig.error("carol", "POST", DEFINITIONS, body).await;
    assert_eq!(status, 409);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_definition_is_refused_before_it_is_written() {
    let rig = Rig::new().await;
    let name = rig.unique("bad");
    let mut twice = definition_body(&name);
    twice["Spec"]["versions"] = json!([version("1.0.0"), version("1.0.0")]);
    let mut no_source = definition_body(&name);
    no_source["Spec"]["versions"][0]["template"]["source"] = json!({});
    let mut kind = definition_body(&name);
    kind["Spec"]["description"] = json!(7);
    let mut no_name = definition_body(&name);
    no_name["name"] = json!("");
    for (body, code, words) in [
        (
            twice,
            422,
            "spec.versions[1].version: Duplicate value: \"1.0.0\"",
        ),
        (no_source, 422, "no source provided"),
        (kind, 400, "spec: "),
        (no_name, 400, "name must be set"),
        (json!({ "name": name }), 400, "spec: "),
    ] {
        let (status, message) = rig.error("carol", "POST", DEFINITIONS, body).await;
        assert_eq!(status, code, "{message}");
        assert!(message.contains(words), "{message}");
    }
    for (body, code) in [("{", 400), ("[]", 400), ("", 400)] {
        let answer = rig.send("carol", "POST", DEFINITIONS, body).await;
        assert_eq!(answer.status(), code, "{body:?}");
        assert_eq!(answer.json()["error"]["code"], code);
    }
    let large = format!("{{\"name\":\"{}\"}}", "a".repeat(2 << 20));
    let answer = rig.send("carol", "POST", DEFINITIONS, &large).await;
    assert_eq!(answer.status(), 413);
    assert!(rig.stored_definition(&name).await.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_put_replaces_the_spec_and_keeps_what_clients_leave_out() {
    let mut rig = Rig::new().await;
    let more = json!({
        "enforced": true, "defaultVersion": "1.0.0",
        "defaultNamespace": { "name": "n", "create": true },
    });
    let name = rig.define("replaced", more).await;
    let body = json!({ "name": name, "spec": {
        "description": "New", "method": "helm", "versions": [version("2.0.0")],
    } });
    let refused = rig.error("alice", "PUT", &path(&name), body.clone()).await;
    assert_eq!(refused.0, 403);
    let (status, changed) = rig.call("carol", "PUT", &path(&name), body.clone()).await;
    assert_eq!(status, 200, "{changed}");
    let spec = &changed["spec"];
    for (field, wanted) in [
        ("description", json!("New")),
        ("enforced", json!(true)),
        ("defaultVersion", json!("1.0.0")),
        ("defaultNamespace", json!({ "name": "n", "create": true })),
        ("versions", json!([version("2.0.0")])),
        ("displayName", Value::Null),
    ] {
        assert_eq!(spec[field], wanted, "{field}");
    }
    assert_eq!(changed["labels"], json!({ "team": "a" }));
    let stored = rig.stored_definition(&name).await.expect("stored");
    assert_eq!(stored.data["spec"]["enforced"], true);
    let missing = rig.unique("missing");
    let mut other = body.clone();
    other["name"] = missing.as_str().into();
    let (status, _) = rig
        .error("carol", "PUT", &path(&missing), other.clone())
        .await;
    assert_eq!(status, 404);
    let (status, message) = rig.error("carol", "PUT", &path(&name), other).await;
    assert_eq!(status, 400);
    assert!(
        message.starts_with("Changing application definition name"),
        "{message}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_patch_changes_annotations_labels_and_spec_and_no_name() {
    let mut rig = Rig::new().await;
    let name = rig.define("patched", json!({})).await;
    let patch = json!({
        "labels": { "team": null, "tier": "b" }, "annotations": { "x": "y" },
        "spec": { "enforced": true, "displayName": null },
    });
    let refused = rig
        .error("alice", "PATCH", &path(&name), patch.clone())
        .await;
    assert_eq!(refused.0, 403);
    let (status, changed) = rig.call("carol", "PATCH", &path(&name), patch).await;
    assert_eq!(status, 200, "{changed}");
    assert_eq!(changed["labels"], json!({ "tier": "b" }));
    assert_eq!(changed["annotations"], json!({ "x": "y" }));
    assert_eq!(changed["spec"]["enforced"], true);
    assert_eq!(changed["spec"].get("displayName"), None);
    let renamed = json!({ "name": "b" });
    let (status, message) = rig.error("carol", "PATCH", &path(&name), renamed).await;
    let wanted =
        format!("Changing application definition name is not allowed: \"{name}\" to \"b\"");
    assert_eq!((status, message), (400, wanted));
    let answer = rig.send("carol", "PATCH", &path(&name), "{").await;
    assert_eq!(answer.status(), 400);
    let method = json!({ "spec": { "method": "other" } });
    let (status, message) = rig.error("carol", "PATCH", &path(&name), method).await;
    assert_eq!(status, 422);
    assert!(message.contains("field is immutable"), "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn administrators_delete_them_unless_another_controller_has_them() {
    let mut rig = Rig::new().await;
    let name = rig.define("deleted", json!({})).await;
    let refused = rig
        .error("alice", "DELETE", &path(&name), Value::Null)
        .await;
    assert_eq!(refused.0, 403);
    let managed = json!({ "labels": { "apps.kubermatic.k8c.io/managed-by": "kkp" } });
    let (status, _) = rig.call("carol", "PATCH", &path(&name), managed).await;
    assert_eq!(status, 200);
    let refused = rig
        .error("carol", "DELETE", &path(&name), Value::Null)
        .await;
    assert_eq!(refused.0, 403);
    let free = json!({ "labels": { "apps.kubermatic.k8c.io/managed-by": null } });
    let (status, _) = rig.call("carol", "PATCH", &path(&name), free).await;
    assert_eq!(status, 200);
    let deleted = rig.call("carol", "DELETE", &path(&name), Value::Null).await;
    assert_eq!(deleted, (200, json!({})));
    assert!(rig.stored_definition(&name).await.is_none());
    let missing = rig
        .error("carol", "DELETE", &path(&name), Value::Null)
        .await;
    assert_eq!(missing.0, 404);
}
