//! Each request asks for the rights of its person.

use serde_json::{Value, json};

use super::rig::{EDITOR, Rig, VIEWER, installation, installation_body, installations};
use crate::support::{
    kube_namespace::{kubectl, try_kubectl},
    message::PATIENCE,
    until::holds_within,
};

#[tokio::test(flavor = "multi_thread")]
async fn a_person_cannot_touch_what_is_of_another_one() {
    let mut rig = Rig::new().await;
    let app = rig.define("app", json!({})).await;
    let bobs = rig.namespace.name.clone();
    let alices = rig.other_namespace("alice").await;
    rig.allow("bob", EDITOR, &bobs).await;
    rig.allow("alice", EDITOR, &alices).await;
    rig.install("bob", &app, &bobs, "app-1").await;
    let path = installation(&bobs, "app-1");
    let body = installation_body(&app, &bobs, "app-1");
    for (method, verb, body) in [
        ("GET", "get", Value::Null),
        ("PUT", "update", body),
        ("PATCH", "patch", json!({ "labels": { "a": "b" } })),
        ("DELETE", "delete", Value::Null),
    ] {
        let refused = rig.error("alice", method, &path, body).await;
        let wanted = format!(
            "applicationinstallations.apps.kubermatic.k8c.io \"app-1\" is forbidden: User \
             \"alice\" cannot {verb} resource \"applicationinstallations\" in API group \
             \"apps.kubermatic.k8c.io\" in the namespace \"{bobs}\""
        );
        assert_eq!(refused, (403, wanted), "{method}");
    }
    // No answer tells whether an installation exists.
    let missing = installation(&bobs, "missing");
    assert_eq!(
        rig.error("alice", "GET", &missing, Value::Null).await.0,
        403
    );
    assert!(rig.stored(&bobs, "app-1").await.is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_viewer_reads_and_writes_nothing() {
    let mut rig = Rig::new().await;
    let app = rig.define("app", json!({})).await;
    let namespace = rig.namespace.name.clone();
    rig.allow("alice", EDITOR, &namespace).await;
    rig.allow("bob", VIEWER, &namespace).await;
    rig.install("alice", &app, &namespace, "app-1").await;
    let path = installation(&namespace, "app-1");
    assert_eq!(rig.call("bob", "GET", &path, Value::Null).await.0, 200);
    let new = installation_body(&app, &namespace, "app-2");
    let (status, answer) = rig.call("bob", "POST", &installations(), new.clone()).await;
    assert_eq!(status, 403);
    let error = answer["error"].as_object().expect("an error");
    let keys: Vec<&str> = error.keys().map(String::as_str).collect();
    assert_eq!(keys, ["code", "message"]);
    assert_eq!(error["code"], 403);
    for (method, body) in [("PUT", new), ("PATCH", json!({})), ("DELETE", Value::Null)] {
        assert_eq!(
            rig.error("bob", method, &path, body).await.0,
            403,
            "{method}"
        );
    }
    assert!(rig.stored(&namespace, "app-2").await.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_role_that_is_taken_away_no_longer_counts() {
    let mut rig = Rig::new().await;
    let app = rig.define("app", json!({})).await;
    let namespace = rig.namespace.name.clone();
    rig.allow("alice", EDITOR, &namespace).await;
    rig.install("alice", &app, &namespace, "app-1").await;
    let path = installation(&namespace, "app-1");
    kubectl(&["-n", &namespace, "delete", "rolebinding", "alice"], "").await;
    // The API server's authorizer follows its own watch.
    let review = [
        "auth",
        "can-i",
        "get",
        "applicationinstallations.apps.kubermatic.k8c.io",
    ];
    let who = ["--as", "alice", "-n", &namespace];
    let is_gone = holds_within(PATIENCE, async || {
        let question = [&review[..], &who[..]].concat();
        try_kubectl(&question, "").await.is_err()
    });
    assert!(is_gone.await, "alice still has the role");
    for (method, body) in [
        ("GET", Value::Null),
        ("PATCH", json!({ "labels": { "a": "b" } })),
        ("DELETE", Value::Null),
    ] {
        assert_eq!(
            rig.error("alice", method, &path, body).await.0,
            403,
            "{method}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rights_of_groups_count_and_groups_of_kubernetes_do_not() {
    let rig = Rig::with(
        "installations = true\nusername_claim = \"sub\"\nusername_prefix = \"oidc:\"\n\
         groups_prefix = \"hub:\"\n",
        "https://hub.example.com",
    )
    .await;
    let namespace = &rig.namespace.name;
    let resource = "--resource=applicationinstallations.apps.kubermatic.k8c.io";
    let role = ["create", "role", "readers", "--verb=list", resource];
    rig.namespace.kubectl(&role, "").await;
    let group = [
        "create",
        "rolebinding",
        "readers",
        "--role=readers",
        "--group=hub:phusers",
    ];
    rig.namespace.kubectl(&group, "").await;
    let path = format!("{}?namespace={namespace}", installations());
    let is_allowed = holds_within(PATIENCE, async || {
        rig.call("alice", "GET", &path, Value::Null).await.0 == 200
    });
    assert!(is_allowed.await, "alice is in phusers");
    let (status, message) = rig.error("bob", "GET", &path, Value::Null).await;
    assert_eq!(status, 403);
    assert!(
        message.contains("User \"oidc:bob\" cannot list"),
        "{message}"
    );
    let masters = Rig::new().await;
    masters
        .api
        .provider
        .set_claim("bob", "groups", json!(["system:masters", "friends"]));
    let path = format!("{}?namespace={}", installations(), masters.namespace.name);
    assert_eq!(masters.error("bob", "GET", &path, Value::Null).await.0, 403);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_switch_there_is_nothing_at_these_paths() {
    let rig = Rig::with("", "https://hub.example.com").await;
    let (status, message) = rig
        .error("alice", "GET", &installations(), Value::Null)
        .await;
    assert_eq!(status, 404);
    assert_eq!(message, "applications are off here (api.installations)");
}

#[tokio::test(flavor = "multi_thread")]
async fn other_methods_and_paths_have_the_same_form_of_errors() {
    let rig = Rig::new().await;
    let answer = rig.send("alice", "PUT", &installations(), "").await;
    assert_eq!(answer.status(), 405);
    assert_eq!(answer.header("allow").as_deref(), Some("GET, POST"));
    for path in ["/api/v2/", "/api/v2/users", "/api/v2/clusters/self/nodes"] {
        let answer = rig.send("alice", "GET", path, "").await;
        assert_eq!(answer.status(), 404, "{path}");
    }
    let (status, message) = rig
        .error("alice", "GET", "/api/v2/users", Value::Null)
        .await;
    assert_eq!(
        (status, message.as_str()),
        (404, "there is nothing at this path")
    );
}
