//! Default apps, which each new target gets once, and apps that are no longer enforced.

use kube::ResourceExt;
use serde_json::{Value, json};

use crate::support::{
    installs::{Installs, merge},
    until::until_async,
};

const ENFORCED: &str = "apps.kubermatic.k8c.io/enforced";
const DEFAULTED: &str = "apps.kubermatic.k8c.io/defaulted";

/// A definition's keys for this target only: other tests share the API server.
fn selected(installs: &Installs, more: Value) -> Value {
    let mut spec = json!({
        "selector": { "targets": [installs.namespace().name] },
        "defaultNamespace": { "name": installs.own("target"), "create": true },
        "defaultVersion": "1.0.0",
        "defaultValuesBlock": "cmData: { from: defaults }",
    });
    merge(&mut spec, more);
    spec
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_target_gets_its_default_apps_once() {
    let installs = Installs::stopped("").await;
    installs
        .definition(selected(&installs, json!({ "default": true })))
        .await;
    let installs = installs.restart().await;
    let name = installs.own("example");
    installs.until_ready(&name).await;
    let object = installs.get(&name).await.expect("an object");
    let annotation = |key: &str| object.annotations().get(key).map(String::as_str);
    assert_eq!(
        (annotation(DEFAULTED), annotation(ENFORCED)),
        (Some("true"), None)
    );
    assert_eq!(object.data["spec"]["applicationRef"]["version"], "1.0.0");
    let data = installs.data().await.expect("a ConfigMap");
    assert_eq!(data.get("from").map(String::as_str), Some("defaults"));

    // It belongs to the people of the target: they may delete it.
    installs.delete(&name).await;
    installs.until_gone(&name).await;
    let installs = installs.restart().await;
    // The new process has looked at the definition when it has installed another app.
    installs.installation("person", json!({})).await;
    installs.until_ready("person").await;
    assert!(installs.get(&name).await.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_app_for_another_target_is_not_made() {
    let installs = Installs::stopped("").await;
    let elsewhere = json!({ "enforced": true, "selector": { "datacenters": ["elsewhere"] } });
    installs.definition(selected(&installs, elsewhere)).await;
    let installs = installs.restart().await;
    installs.installation("person", json!({})).await;
    installs.until_ready("person").await;
    assert!(installs.get(&installs.own("example")).await.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_app_that_is_no_longer_enforced_is_released() {
    let installs = Installs::start().await;
    let enforced = json!({ "enforced": true, "default": true });
    installs.definition(selected(&installs, enforced)).await;
    let name = installs.own("example");
    installs.until_ready(&name).await;
    installs.definition(selected(&installs, json!({}))).await;
    let is_released = |object: &kube::api::DynamicObject| {
        object.annotations().get(ENFORCED).map(String::as_str) == Some("false")
    };
    installs.changes(&name).until(is_released).await;
    installs.delete(&name).await;
    installs.until_gone(&name).await;
    let is_absent = async || installs.data().await.is_none();
    until_async("its objects are gone", is_absent).await;
}
