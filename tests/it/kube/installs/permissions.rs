//! What the account of a namespace may not do, and where apps may not be.

use k8s_openapi::api::core::v1::Node;
use kube::{Api, ResourceExt, api::DynamicObject};
use serde_json::json;

use crate::support::{
    installs::{Installs, installations},
    kube_namespace::{kubectl, try_kubectl},
    until::until_async,
};

#[tokio::test(flavor = "multi_thread")]
async fn an_object_of_the_whole_cluster_needs_a_grant() {
    let installs = Installs::start().await;
    let version = installs.version("1.0.0", "cluster-role", "0.1.0");
    installs.definition(json!({ "versions": [version] })).await;
    installs.installation("app-1", json!({})).await;
    installs
        .until_condition("app-1", "Ready", ("False", "NotPermitted"))
        .await;
    assert!(installs.config_map("beside").await.is_none());
    assert!(installs.history("app-1").await.is_empty());
}

/// The message of `Ready`, when it is false with the reason `NotPermitted`.
async fn refusal(installs: &Installs, name: &str) -> String {
    let status = installs
        .until_condition(name, "Ready", ("False", "NotPermitted"))
        .await;
    let message = status["conditions"]["Ready"]["message"].as_str();
    message.unwrap_or_default().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_protected_namespace_gets_no_app() {
    let installs = Installs::start().await;
    installs.definition(json!({})).await;
    // The installation is in the home namespace itself.
    let home = installs.namespace().name.clone();
    for (name, target) in [("app-1", "kube-system"), ("app-2", &*home)] {
        let namespace = json!({ "name": target, "create": false });
        installs
            .installation(name, json!({ "namespace": namespace }))
            .await;
        let message = refusal(&installs, name).await;
        assert!(message.contains(target), "{message}");
    }
    assert!(installs.commands().is_empty());
    let account = ["get", "serviceaccount", "ludgate-installs"];
    let found = [&["-n", home.as_str()], account.as_slice()].concat();
    assert!(try_kubectl(&found, "").await.is_err(), "an account exists");
    installs.delete("app-1").await;
    installs.until_gone("app-1").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_existing_namespace_gets_no_app_that_it_does_not_permit() {
    let installs = Installs::start().await;
    installs.definition(json!({})).await;
    installs.make_target("other").await;
    let policy = json!({ "deletePolicy": "deleteNamespace" });
    installs.installation("app-1", policy.clone()).await;
    let message = refusal(&installs, "app-1").await;
    assert!(message.contains("ludgate.dev/installs-from"), "{message}");
    assert!(installs.commands().is_empty());
    let target = installs.own("target");
    let account = ["-n", &target, "get", "serviceaccount", "ludgate-installs"];
    assert!(
        try_kubectl(&account, "").await.is_err(),
        "an account exists"
    );
    let before = installs.target_namespace().await.expect("a namespace");
    assert!(!before.labels().contains_key("env"));

    // A mark that a person wrote gives no right, neither to install nor to delete.
    let uid = installs.get("app-1").await.and_then(|object| object.uid());
    let mark = format!("ludgate.dev/created-for={}", uid.unwrap_or_default());
    kubectl(&["annotate", "namespace", &target, &mark], "").await;
    installs.delete("app-1").await;
    installs.until_gone("app-1").await;
    let after = installs.target_namespace().await.expect("a namespace");
    assert!(after.metadata.deletion_timestamp.is_none());

    // The administrator permits it, and takes that back.
    installs.installation("app-2", policy).await;
    refusal(&installs, "app-2").await;
    let own = &installs.namespace().name;
    let list = format!("ludgate.dev/installs-from=other {own}");
    let annotate = ["annotate", "namespace", &target, &list, "--overwrite"];
    kubectl(&annotate, "").await;
    installs.until_ready("app-2").await;
    let remove = "ludgate.dev/installs-from-";
    kubectl(&["annotate", "namespace", &target, remove], "").await;
    refusal(&installs, "app-2").await;
    assert!(installs.data().await.is_some());
    installs.delete("app-2").await;
    installs.until_gone("app-2").await;
    assert!(installs.data().await.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_namespace_needs_a_permitted_name() {
    let installs = Installs::start().await;
    installs.definition(json!({})).await;
    // The name does not begin with the namespace of the installation.
    let name = format!("x{}", installs.own("target"));
    let namespace = json!({ "name": name, "create": true });
    installs
        .installation("app-1", json!({ "namespace": namespace }))
        .await;
    let message = refusal(&installs, "app-1").await;
    assert!(message.contains("ludgate.dev/installs-from"), "{message}");
    let found = try_kubectl(&["get", "namespace", &name], "").await;
    assert!(found.is_err(), "it was created");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_node_nothing_is_installed_if_the_settings_say_so() {
    let installs = Installs::with("wait_for_nodes = true\n").await;
    grant_nodes(&installs).await;
    installs.definition(json!({})).await;
    if has_nodes(&installs).await {
        // Another test, or the cluster of the tester, has nodes.
        installs.installation("app-1", json!({})).await;
        installs.until_ready("app-1").await;
        return;
    }
    // The controller names the namespace itself, which shows that it has listed the cluster.
    let reference = json!({ "name": installs.own("example"), "version": "1.0.0" });
    let object = json!({
        "metadata": { "name": "app-1" }, "spec": { "applicationRef": reference },
    });
    installs.namespace().apply(&installations(), &object).await;
    let is_named = |object: &DynamicObject| object.data["spec"]["namespace"]["name"].is_string();
    installs.changes("app-1").until(is_named).await;
    // The first of two more reconciles may be the one that named it. The second began later.
    let before = installs.reconciles();
    let mut touches = 0;
    until_async("two more reconciles", async || {
        touches += 1;
        let kind = "applicationinstallations.apps.kubermatic.k8c.io";
        let touched = format!("touched={touches}");
        let annotate = ["annotate", kind, "app-1", &touched, "--overwrite"];
        installs.namespace().kubectl(&annotate, "").await;
        installs.reconciles() >= before + 2.0
    })
    .await;
    // The plan comes to the node before the finalizer.
    let object = installs.get("app-1").await.expect("an object");
    let is_untouched = object.metadata.finalizers.is_none() && installs.commands().is_empty();
    // Another test may have added a node in the meantime.
    assert!(is_untouched || has_nodes(&installs).await, "{object:?}");
}

async fn has_nodes(installs: &Installs) -> bool {
    let client = installs.namespace().client.clone();
    let nodes: Api<Node> = Api::all(client);
    let nodes = nodes.list(&Default::default()).await;
    !nodes.expect("nodes").items.is_empty()
}

/// Lets the controller list nodes. The shipped rights leave that to operators who use the key.
async fn grant_nodes(installs: &Installs) {
    let role = installs.own("nodes");
    let rules = ["--verb=list", "--resource=nodes"];
    let create = [&["create", "clusterrole", &role], rules.as_slice()].concat();
    installs.namespace().kubectl(&create, "").await;
    let role_option = format!("--clusterrole={role}");
    let namespace = &installs.namespace().name;
    let account = format!("--serviceaccount={namespace}:ludgate-controller");
    let bind = [
        "create",
        "clusterrolebinding",
        &role,
        &role_option,
        &account,
    ];
    installs.namespace().kubectl(&bind, "").await;
    // The API server applies a new binding a moment later.
    let user = format!("--as=system:serviceaccount:{namespace}:ludgate-controller");
    let may_list = ["auth", "can-i", "list", "nodes", &user];
    until_async("the right is in force", async || {
        try_kubectl(&may_list, "").await.is_ok()
    })
    .await;
}
