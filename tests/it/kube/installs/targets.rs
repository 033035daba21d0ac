//! Apps on another cluster, by the Secret with its kubeconfig. The other cluster is the same API
//! server.

use kube::ResourceExt;
use serde_json::{Value, json};

use crate::support::{
    installs::{Installs, condition},
    until::until_async,
};

/// The annotation with the apps of a new target.
pub(super) const REQUEST: &str = "kubermatic.io/initial-application-installations-request";

/// Makes the Secret `edge` of the target `edge`, which permits the namespace of the test, or
/// changes it.
pub(super) async fn target(installs: &Installs, kubeconfig: &Value, annotations: Value) {
    secret_of_target(installs, "edge", kubeconfig, annotations).await;
}

/// The same with another name of the Secret.
async fn secret_of_target(
    installs: &Installs,
    name: &str,
    kubeconfig: &Value,
    mut annotations: Value,
) {
    annotations["ludgate.dev/installs-from"] = installs.namespace().name.as_str().into();
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {
            "name": name, "labels": { "ludgate.dev/target": "edge" }, "annotations": annotations,
        },
        "stringData": { "kubeconfig": kubeconfig.to_string() },
    });
    let apply = ["apply", "-f", "-"];
    installs
        .namespace()
        .kubectl(&apply, &secret.to_string())
        .await;
}

/// The kubeconfig of the controller's account.
pub(super) async fn kubeconfig(installs: &Installs) -> Value {
    let file = installs
        .namespace()
        .kubeconfig_of("ludgate-controller")
        .await;
    let text = std::fs::read_to_string(file).expect("a kubeconfig");
    serde_json::from_str(&text).expect("JSON")
}

/// An installation with the label of the target.
pub(super) async fn install_on_edge(installs: &Installs, name: &str) {
    install_into(installs, name, &installs.own("target")).await;
}

/// Waits until the Secret of the target says that its apps were made.
pub(super) async fn until_done(installs: &Installs) {
    let is_done = async || {
        let secret = ["get", "secret", "edge", "-o", "json"];
        let secret = installs.namespace().kubectl(&secret, "").await;
        let secret: Value = serde_json::from_str(&secret).expect("JSON");
        let annotations = &secret["metadata"]["annotations"];
        annotations.get(REQUEST).is_none()
            && annotations["ludgate.dev/initial-applications"] == "true"
    };
    until_async("the request is done", is_done).await;
}

async fn install_into(installs: &Installs, name: &str, namespace: &str) {
    let object = json!({
        "apiVersion": "apps.kubermatic.k8c.io/v1", "kind": "ApplicationInstallation",
        "metadata": { "name": name, "labels": { "ludgate.dev/target": "edge" } },
        "spec": {
            "namespace": { "name": namespace, "create": true },
            "applicationRef": { "name": installs.own("example"), "version": "1.0.0" },
        },
    });
    let apply = ["apply", "-f", "-"];
    installs
        .namespace()
        .kubectl(&apply, &object.to_string())
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_app_is_installed_on_the_target_that_its_label_names() {
    let installs = Installs::start().await;
    installs.definition(json!({})).await;
    install_on_edge(&installs, "app-1").await;
    // There is no such target yet.
    installs
        .until_condition("app-1", "Ready", ("False", "NotPermitted"))
        .await;
    let kubeconfig = kubeconfig(&installs).await;
    target(&installs, &kubeconfig, json!({})).await;
    installs.until_ready("app-1").await;
    assert!(installs.data().await.is_some());
    let object = installs.get("app-1").await.expect("an object");
    let bound = object.annotations().get("ludgate.dev/bound-target");
    assert_eq!(bound.map(String::as_str), Some("edge"));
    installs.delete("app-1").await;
    installs.until_gone("app-1").await;
    assert!(installs.data().await.is_none());

    // Its system namespaces are protected as those of this cluster.
    install_into(&installs, "system", "kube-system").await;
    let status = installs
        .until_condition("system", "Ready", ("False", "NotPermitted"))
        .await;
    let message = status["conditions"]["Ready"]["message"].as_str();
    let message = message.expect("a message");
    assert!(message.contains("kube-system"), "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kubeconfig_that_starts_a_program_is_refused_with_an_event() {
    let installs = Installs::start().await;
    installs.definition(json!({})).await;
    let mut program = kubeconfig(&installs).await;
    program["users"][0]["user"] = json!({ "exec": { "command": "false" } });
    target(&installs, &program, json!({})).await;
    installs.until_event("Secret", "TargetRefused").await;
    install_on_edge(&installs, "app-1").await;
    let status = installs
        .until("app-1", |status| {
            let message = &status["conditions"]["Ready"]["message"];
            message
                .as_str()
                .is_some_and(|text| text.contains("is refused"))
        })
        .await;
    assert_eq!(condition(&status, "Ready"), ("False", "NotPermitted"));
    assert!(installs.commands().is_empty());
    installs.delete("app-1").await;
    installs.until_gone("app-1").await;
}

/// Waits until a Secret has an Event which says that the name of its target is taken.
async fn until_name_taken(installs: &Installs, secret: &str) {
    let arguments = ["get", "events.events.k8s.io", "-o", "json"];
    until_async("the name is taken", async || {
        let listed = installs.namespace().kubectl(&arguments, "").await;
        let listed: Value = serde_json::from_str(&listed).expect("JSON");
        let events = listed["items"].as_array().expect("a list");
        events.iter().any(|event| {
            let note = event["note"].as_str().unwrap_or_default();
            event["regarding"]["name"] == secret && note.contains("is taken")
        })
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_gets_the_name_of_its_target_when_the_other_secret_is_gone() {
    let installs = Installs::start().await;
    installs.definition(json!({})).await;
    let kubeconfig = kubeconfig(&installs).await;
    let mut program = kubeconfig.clone();
    program["users"][0]["user"] = json!({ "exec": { "command": "false" } });
    target(&installs, &program, json!({})).await;
    installs.until_event("Secret", "TargetRefused").await;
    secret_of_target(&installs, "other", &kubeconfig, json!({})).await;
    until_name_taken(&installs, "other").await;
    install_on_edge(&installs, "app-1").await;
    let delete = ["delete", "secret", "edge"];
    installs.namespace().kubectl(&delete, "").await;
    installs.until_ready("app-1").await;
    installs.delete("app-1").await;
    installs.until_gone("app-1").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_target_begins_with_the_apps_that_its_secret_lists() {
    let installs = Installs::start().await;
    installs.definition(json!({})).await;
    let entry = json!({ "name": "one", "spec": {
        "namespace": { "name": installs.own("target"), "create": true },
        "applicationRef": { "name": installs.own("example"), "version": "1.0.0" },
    } });
    let request = json!({ REQUEST: json!([entry]).to_string() });
    let kubeconfig = kubeconfig(&installs).await;
    target(&installs, &kubeconfig, request).await;
    let is_made = async || installs.get("one").await.is_some();
    until_async("the app is made", is_made).await;
    installs.until_ready("one").await;
    let made = installs.get("one").await.expect("an object");
    let label = made.labels().get("ludgate.dev/target");
    assert_eq!(label.map(String::as_str), Some("edge"));
    until_done(&installs).await;
}
