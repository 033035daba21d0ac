//! Installations: lists, reads and new ones.

use serde_json::{Value, json};

use super::rig::{EDITOR, Rig, VIEWER, installation, installation_body, installations};
use crate::support::{kube_namespace::kubectl, message::PATIENCE, until::holds_within};

/// The namespaces of a list, in its order, without those of other tests.
fn namespaces(list: &Value, own: &[String]) -> Vec<String> {
    let all = list.as_array().expect("a list").iter();
    all.map(|it| it["namespace"].as_str().expect("a namespace").to_owned())
        .filter(|name| own.contains(name))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_has_the_namespaces_that_a_person_may_see() {
    let mut rig = Rig::new().await;
    let app = rig.define("app", json!({})).await;
    let mut own = Vec::new();
    for name in ["a", "b", "c"] {
        let namespace = rig.other_namespace(name).await;
        rig.allow("alice", EDITOR, &namespace).await;
        rig.install("alice", &app, &namespace, "app-1").await;
        own.push(namespace);
    }
    rig.allow("bob", VIEWER, &own[1]).await;
    let (status, list) = rig
        .call("alice", "GET", &installations(), Value::Null)
        .await;
    assert_eq!((status, namespaces(&list, &own)), (200, own.clone()));
    let mut entries = list.as_array().expect("a list").iter();
    let entry = entries.find(|it| it["namespace"] == own[0].as_str());
    let entry = entry.expect("an installation");
    assert_eq!(entry["name"], "app-1");
    assert_eq!(entry["labels"], json!({ "env": "dev" }));
    let spec = json!({
        "namespace": { "name": "target", "create": true },
        "applicationRef": { "name": app, "version": "1.0.0" },
    });
    assert_eq!(entry["spec"], spec);
    assert_eq!(entry["status"]["conditions"], json!([]));
    let (_, list) = rig.call("bob", "GET", &installations(), Value::Null).await;
    assert_eq!(namespaces(&list, &own), own[1..2]);
    let of_one = |namespace: &str| format!("{}?namespace={namespace}", installations());
    let (_, list) = rig
        .call("alice", "GET", &of_one(&own[2]), Value::Null)
        .await;
    assert_eq!(namespaces(&list, &own), own[2..]);
    let refused = rig.error("bob", "GET", &of_one(&own[2]), Value::Null).await;
    assert_eq!(refused.0, 403);
    // Of a person without any rights.
    let refused = rig
        .error("carol", "GET", &installations(), Value::Null)
        .await;
    assert_eq!(refused.0, 403);
    let none = rig.other_namespace("none").await;
    rig.allow("bob", VIEWER, &none).await;
    let empty = rig.call("bob", "GET", &of_one(&none), Value::Null).await;
    assert_eq!(empty, (200, json!([])));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_installation_has_its_defaults_and_is_read_back() {
    let mut rig = Rig::new().await;
    let app = rig.define("app", json!({})).await;
    let namespace = rig.namespace.name.clone();
    rig.allow("alice", EDITOR, &namespace).await;
    let mut body = installation_body(&app, &namespace, "app-1");
    body["spec"]["deployOptions"] = json!({ "helm": { "atomic": true } });
    let (status, made) = rig
        .call("alice", "POST", &installations(), body.clone())
        .await;
    assert_eq!(status, 201, "{made}");
    let options = json!({ "helm": { "atomic": true, "wait": true, "timeout": "5m0s" } });
    assert_eq!(made["spec"]["deployOptions"], options);
    assert_eq!(made["spec"]["valuesBlock"], "# a comment\na: 1\n");
    let path = installation(&namespace, "app-1");
    let (status, read) = rig.call("alice", "GET", &path, Value::Null).await;
    assert_eq!(status, 200);
    assert_eq!(read["spec"], made["spec"]);
    assert_eq!(
        read["status"],
        json!({ "conditions": [], "current": false })
    );
    let project = path.replace("/clusters/", "/projects/any/clusters/");
    let (_, same) = rig.call("alice", "GET", &project, Value::Null).await;
    assert_eq!(same, read);
    let (status, _) = rig.error("alice", "POST", &installations(), body).await;
    assert_eq!(status, 409);
    let missing = installation(&namespace, "missing");
    let error = rig.error("alice", "GET", &missing, Value::Null).await;
    let wanted = "applicationinstallations.apps.kubermatic.k8c.io \"missing\" not found";
    assert_eq!(error, (404, wanted.to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn values_become_yaml() {
    let mut rig = Rig::new().await;
    let app = rig.define("app", json!({})).await;
    let namespace = rig.namespace.name.clone();
    rig.allow("alice", EDITOR, &namespace).await;
    let mut body = installation_body(&app, &namespace, "app-1");
    body["spec"]["valuesBlock"] = Value::Null;
    body["spec"]["values"] = json!({ "a": { "b": ["c"] } });
    let (status, made) = rig.call("alice", "POST", &installations(), body).await;
    assert_eq!(status, 201, "{made}");
    let block = made["spec"]["valuesBlock"].as_str().expect("YAML");
    let values: Value = serde_saphyr::from_str(block).expect("YAML");
    assert_eq!(values, json!({ "a": { "b": ["c"] } }));
    let stored = rig.stored(&namespace, "app-1").await.expect("stored");
    assert_eq!(stored.data["spec"]["values"], json!({}));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_installation_is_refused_before_it_is_written() {
    let mut rig = Rig::new().await;
    let app = rig.define("app", json!({})).await;
    let namespace = rig.namespace.name.clone();
    rig.allow("alice", EDITOR, &namespace).await;
    let body = || installation_body(&app, &namespace, "app-1");
    let with = |field: &str, value: Value| {
        let mut body = body();
        body["spec"][field] = value;
        body
    };
    let reference = |name: &str, version: &str| json!({ "name": name, "version": version });
    let mut bad_name = body();
    bad_name["name"] = json!("a/b");
    let mut no_namespace = body();
    no_namespace["namespace"] = json!("");
    for (body, code, words) in [
        (
            with("applicationRef", reference("none", "1.0.0")),
            422,
            "spec.applicationRef.name: Not found: \"none\"",
        ),
        (
            with("applicationRef", reference(&app, "9.0.0")),
            422,
            "spec.applicationRef.version: Not found: \"9.0.0\"",
        ),
        (
            with("values", json!({ "b": 1 })),
            400,
            "Only values or valuesBlock can be set",
        ),
        (with("valuesBlock", json!("a: [")), 400, "invalid yaml"),
        (
            with("reconciliationInterval", json!("-1h")),
            422,
            "should be a positive value",
        ),
        (
            with("deployOptions", json!({ "helm": { "timeout": "1m" } })),
            422,
            "wait must be true",
        ),
        (with("applicationRef", json!("x")), 400, "spec: "),
        (bad_name, 422, "metadata.name: "),
        (no_namespace, 400, "namespace must be set"),
    ] {
        let (status, message) = rig.error("alice", "POST", &installations(), body).await;
        assert_eq!(status, code, "{message}");
        assert!(message.contains(words), "{message}");
    }
    assert!(rig.stored(&namespace, "app-1").await.is_none());
    // Unknown fields are ignored.
    let mut unknown = with("unknown", json!(1));
    unknown["id"] = json!("x");
    let (status, made) = rig.call("alice", "POST", &installations(), unknown).await;
    assert_eq!(status, 201, "{made}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_namespace_is_made_for_those_who_may_make_namespaces() {
    let mut rig = Rig::new().await;
    let app = rig.define("app", json!({})).await;
    let role = rig.unique("install-anywhere");
    let verbs = "--verb=create,list";
    let resource = "--resource=applicationinstallations.apps.kubermatic.k8c.io";
    kubectl(&["create", "clusterrole", &role, verbs, resource], "").await;
    let user = "--user=alice";
    let bound = format!("--clusterrole={role}");
    kubectl(&["create", "clusterrolebinding", &role, &bound, user], "").await;
    rig.leaves("clusterrolebinding", &role);
    rig.leaves("clusterrole", &role);
    let is_allowed = holds_within(PATIENCE, async || {
        rig.call("alice", "GET", &installations(), Value::Null)
            .await
            .0
            == 200
    });
    assert!(is_allowed.await, "alice has no rights");
    let namespace = rig.unique("new");
    let body = installation_body(&app, &namespace, "app-1");
    let refused = rig
        .error("alice", "POST", &installations(), body.clone())
        .await;
    assert_eq!(refused.0, 403);
    let wanted = "namespaces is forbidden: User \"alice\" cannot create";
    assert!(refused.1.starts_with(wanted), "{}", refused.1);
    let patch = json!([{ "op": "add", "path": "/rules/-", "value": {
        "apiGroups": [""], "resources": ["namespaces"], "verbs": ["create"],
    } }]);
    rig.leaves("namespace", &namespace);
    kubectl(
        &[
            "patch",
            "clusterrole",
            &role,
            "--type=json",
            "-p",
            &patch.to_string(),
        ],
        "",
    )
    .await;
    let is_made = holds_within(PATIENCE, async || {
        rig.call("alice", "POST", &installations(), body.clone())
            .await
            .0
            == 201
    });
    assert!(is_made.await, "nothing is installed");
    assert!(rig.stored(&namespace, "app-1").await.is_some());
}
