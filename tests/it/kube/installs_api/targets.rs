//! Installations on targets: their objects are in this cluster, and a label names the target.

use serde_json::{Value, json};

use super::rig::{EDITOR, Rig, installation, installation_body, installations};
use crate::support::{message::PATIENCE, until::holds_within};

const EDGE: &str = "/api/v2/clusters/edge/applicationinstallations";

#[tokio::test(flavor = "multi_thread")]
async fn the_installations_of_a_target_are_stored_here_with_its_label() {
    let mut rig = Rig::new().await;
    let app = rig.define("app", json!({})).await;
    let namespace = rig.namespace.name.clone();
    rig.allow("alice", EDITOR, &namespace).await;
    let body = installation_body(&app, &namespace, "there");
    assert_eq!(rig.error("bob", "POST", EDGE, body.clone()).await.0, 403);
    let (status, made) = rig.call("alice", "POST", EDGE, body).await;
    assert_eq!(status, 201, "{made}");
    let stored = rig.stored(&namespace, "there").await.expect("stored");
    let labels = json!({ "env": "dev", "ludgate.dev/target": "edge" });
    assert_eq!(json!(stored.metadata.labels), labels);
    rig.install("alice", &app, &namespace, "here").await;

    let there = format!("{EDGE}/{namespace}/there");
    for (list, name) in [(EDGE, "there"), (&*installations(), "here")] {
        let path = format!("{list}?namespace={namespace}");
        let (_, listed) = rig.call("alice", "GET", &path, Value::Null).await;
        let names: Vec<&Value> = listed
            .as_array()
            .expect("a list")
            .iter()
            .map(|entry| &entry["name"])
            .collect();
        assert_eq!(names, [name], "{list}");
    }
    assert_eq!(rig.call("alice", "GET", &there, Value::Null).await.0, 200);
    assert_eq!(rig.error("bob", "GET", &there, Value::Null).await.0, 403);
    // Each is at the path of its target only.
    for method in ["GET", "PATCH", "DELETE"] {
        for path in [
            installation(&namespace, "there"),
            format!("{EDGE}/{namespace}/here"),
        ] {
            let (status, _) = rig.error("alice", method, &path, json!({})).await;
            assert_eq!(status, 404, "{method} {path}");
        }
    }
    let deleted = rig.call("alice", "DELETE", &there, Value::Null).await;
    assert_eq!(deleted, (200, json!({})));
    assert!(rig.stored(&namespace, "there").await.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_counts_no_namespaces_of_other_targets() {
    // No other test gives rights to this user.
    let keys = "installations = true\nusername_prefix = \"lists:\"\n";
    let mut rig = Rig::with(keys, "https://hub.example.com").await;
    let app = rig.define("app", json!({})).await;
    let resource = "--resource=applicationinstallations.apps.kubermatic.k8c.io";
    let role = ["create", "role", "lister", "--verb=list", resource];
    rig.namespace.kubectl(&role, "").await;
    let user = "--user=lists:bob";
    let binding = ["create", "rolebinding", "lister", "--role=lister", user];
    rig.namespace.kubectl(&binding, "").await;
    let install = async |name: &str, labels: Value| {
        let object = json!({
            "apiVersion": "apps.kubermatic.k8c.io/v1", "kind": "ApplicationInstallation",
            "metadata": { "name": name, "labels": labels },
            "spec": { "applicationRef": { "name": app, "version": "1.0.0" } },
        });
        let apply = ["apply", "-f", "-"];
        rig.namespace.kubectl(&apply, &object.to_string()).await;
    };
    let list = async |path: &str| rig.call("bob", "GET", path, Value::Null).await;
    let here = installations();
    install("there", json!({ "ludgate.dev/target": "edge" })).await;
    let is_listed = holds_within(PATIENCE, async || list(EDGE).await.0 == 200);
    assert!(is_listed.await, "bob has no rights");
    let (_, listed) = list(EDGE).await;
    assert_eq!(listed.as_array().map(Vec::len), Some(1), "{listed}");
    assert_eq!(listed[0]["name"], "there");
    // The namespace has nothing on this cluster, so it is none that bob may list here.
    let (status, refusal) = list(&here).await;
    assert_eq!(status, 403, "{refusal}");
    install("here", json!({})).await;
    let (status, listed) = list(&here).await;
    assert_eq!(status, 200, "{listed}");
    assert_eq!(listed.as_array().map(Vec::len), Some(1), "{listed}");
    assert_eq!(listed[0]["name"], "here");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_body_moves_an_installation_to_another_target() {
    let mut rig = Rig::new().await;
    let app = rig.define("app", json!({})).await;
    let namespace = rig.namespace.name.clone();
    rig.allow("alice", EDITOR, &namespace).await;
    let moved = [
        json!({ "labels": { "ludgate.dev/target": "other" } }),
        json!({ "annotations": { "ludgate.dev/bound-target": "other" } }),
    ];
    for more in &moved {
        let mut body = installation_body(&app, &namespace, "a");
        for (field, value) in more.as_object().expect("an object") {
            body[field] = value.clone();
        }
        let (status, message) = rig.error("alice", "POST", EDGE, body).await;
        assert_eq!(status, 400, "{message}");
    }
    let body = installation_body(&app, &namespace, "a");
    assert_eq!(rig.call("alice", "POST", EDGE, body).await.0, 201);
    let path = format!("{EDGE}/{namespace}/a");
    for more in moved {
        let refused = rig.error("alice", "PATCH", &path, more).await;
        assert_eq!(refused.0, 400, "{}", refused.1);
    }
    let all = json!({ "labels": null, "annotations": null });
    assert_eq!(rig.call("alice", "PATCH", &path, all).await.0, 200);
    let (_, read) = rig.call("alice", "GET", &path, Value::Null).await;
    assert_eq!(read["labels"], json!({ "ludgate.dev/target": "edge" }));
    // What GET shows can be sent back.
    let (status, put) = rig.call("alice", "PUT", &path, read).await;
    assert_eq!(status, 200, "{put}");
}
