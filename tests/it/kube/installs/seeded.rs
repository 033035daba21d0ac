//! Default, enforced and initial apps.

use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use crate::support::{
    installs::{Installs, installations},
    until::until_async,
};

const REQUEST: &str = "kubermatic.io/initial-application-installations-request";

async fn home(installs: &Installs) -> Namespace {
    let api: Api<Namespace> = Api::all(installs.namespace().client.clone());
    let home = api.get(&installs.namespace().name).await;
    home.expect("a namespace")
}

async fn annotate(installs: &Installs, value: &str) {
    let annotation = format!("{REQUEST}={value}");
    let name = &installs.namespace().name;
    let arguments = ["annotate", "namespace", name, &annotation, "--overwrite"];
    installs.namespace().kubectl(&arguments, "").await;
}

fn entry(installs: &Installs, name: &str) -> Value {
    json!({ "name": name, "spec": {
        "namespace": { "name": installs.own("target"), "create": true },
        "applicationRef": { "name": installs.own("example"), "version": "1.0.0" },
        "valuesBlock": format!("cmData: {{ {name}: x }}"),
    } })
}

/// Waits until the request is gone, and returns the annotations.
async fn until_done(installs: &Installs) -> std::collections::BTreeMap<String, String> {
    let is_done = async || !home(installs).await.annotations().contains_key(REQUEST);
    until_async("the request is done", is_done).await;
    home(installs).await.annotations().clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn listed_apps_are_made_once_each() {
    let installs = Installs::start().await;
    installs.definition(json!({})).await;
    // As after a crash behind the first one.
    installs
        .installation("one", entry(&installs, "one")["spec"].clone())
        .await;
    let all = ["one", "two", "three"].map(|name| entry(&installs, name));
    annotate(&installs, &json!(all).to_string()).await;
    let annotations = until_done(&installs).await;
    assert!(annotations.contains_key("ludgate.dev/initial-applications"));
    let listed = installs
        .api()
        .list(&Default::default())
        .await
        .expect("a list");
    let mut names: Vec<String> = listed.items.iter().map(ResourceExt::name_any).collect();
    names.sort();
    assert_eq!(names, ["one", "three", "two"]);
    installs.delete("two").await;
    installs.until_gone("two").await;
    // A later process does not make it again.
    let installs = installs.restart().await;
    installs.installation("four", json!({})).await;
    installs
        .until_condition("four", "Accepted", ("True", "Valid"))
        .await;
    assert!(installs.get("two").await.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_cannot_be_read_is_kept_aside() {
    let installs = Installs::start().await;
    annotate(&installs, "[{").await;
    let annotations = until_done(&installs).await;
    let rejected = annotations.get(&format!("{REQUEST}-rejected"));
    assert_eq!(rejected.map(String::as_str), Some("[{"));
    installs
        .until_event("Namespace", "ApplicationInstallationFailed")
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_lists_no_apps_of_other_namespaces() {
    let installs = Installs::start().await;
    installs.definition(json!({})).await;
    let mut elsewhere = entry(&installs, "one");
    elsewhere["namespace"] = "kube-system".into();
    let request = json!([elsewhere]).to_string();
    annotate(&installs, &request).await;
    let annotations = until_done(&installs).await;
    let rejected = annotations.get(&format!("{REQUEST}-rejected"));
    assert_eq!(rejected, Some(&request));
}

#[tokio::test(flavor = "multi_thread")]
async fn reserved_keys_are_not_written_to_a_namespace() {
    let installs = Installs::start().await;
    installs.definition(json!({})).await;
    let namespace = json!({
        "name": installs.own("target"), "create": true, "annotations": { REQUEST: "[]" },
    });
    let spec = json!({ "namespace": namespace });
    installs.installation("app-1", spec).await;
    installs
        .until_condition("app-1", "Accepted", ("False", "Invalid"))
        .await;
    assert!(installs.target_namespace().await.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_request_prevents_default_apps_and_no_enforced_ones() {
    let installs = Installs::start().await;
    annotate(&installs, "[]").await;
    until_done(&installs).await;
    let selector = json!({ "targets": [installs.namespace().name] });
    let namespace = json!({ "name": installs.own("target"), "create": true });
    let spec = json!({
        "default": true, "selector": selector, "defaultNamespace": namespace,
    });
    installs.definition(spec.clone()).await;
    // An installation of a person shows that the definition is known.
    installs.installation("person", json!({})).await;
    installs
        .until_condition("person", "Accepted", ("True", "Valid"))
        .await;
    assert!(installs.get(&installs.own("example")).await.is_none());
    let mut enforced = spec;
    enforced["enforced"] = true.into();
    installs.definition(enforced).await;
    let name = installs.own("example");
    let is_made = async || installs.get(&name).await.is_some();
    until_async("the enforced app is made", is_made).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_enforced_app_is_made_again_and_restored() {
    let installs = Installs::start().await;
    let enforced = |version: &str| {
        json!({
            "enforced": true, "defaultVersion": version,
            "selector": { "targets": [installs.namespace().name] },
            "defaultNamespace": { "name": installs.own("target"), "create": true },
            "defaultValuesBlock": "cmData: { hello: world }",
        })
    };
    installs.definition(enforced("1.0.0")).await;
    let name = installs.own("example");
    installs.until_ready(&name).await;
    let object = installs.get(&name).await.expect("an object");
    let annotation = object.annotations().get("apps.kubermatic.k8c.io/enforced");
    assert_eq!(annotation.map(String::as_str), Some("true"));

    // A person changes the values.
    let patch = json!({ "spec": { "valuesBlock": "cmData: { hello: person }" } }).to_string();
    let kind = installations();
    let place = format!("{}.{}/{name}", kind.plural, kind.group);
    let arguments = ["patch", &place, "--type=merge", "-p", &patch];
    installs.namespace().kubectl(&arguments, "").await;
    let is_restored = |object: &kube::api::DynamicObject| {
        object.metadata.generation >= Some(3)
            && object.data["spec"]["valuesBlock"] == "cmData: { hello: world }"
    };
    installs.changes(&name).until(is_restored).await;

    // A person deletes it.
    let uid = object.uid();
    installs.delete(&name).await;
    let is_new = async || {
        let object = installs.get(&name).await;
        object.is_some_and(|object| object.uid() != uid)
    };
    until_async("it is made again", is_new).await;

    // The definition moves on, and so does the app.
    installs.definition(enforced("2.0.0")).await;
    let reference = |object: &kube::api::DynamicObject| {
        object.data["spec"]["applicationRef"]["version"] == "2.0.0"
    };
    installs.changes(&name).until(reference).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_listed_app_that_is_refused_is_tried_again_and_keeps_no_other_away() {
    let installs = Installs::start().await;
    let target = json!({ "name": installs.own("target"), "create": true });
    // The schema refuses it.
    let mut refused = entry(&installs, "one");
    refused["spec"]["deletePolicy"] = "x".into();
    annotate(&installs, &json!([refused]).to_string()).await;
    installs
        .until_event("Namespace", "ApplicationInstallationFailed")
        .await;
    assert!(home(&installs).await.annotations().contains_key(REQUEST));
    installs
        .definition(json!({
            "enforced": true, "selector": { "targets": [installs.namespace().name] },
            "defaultNamespace": target,
        }))
        .await;
    let enforced = installs.own("example");
    let is_made = async || installs.get(&enforced).await.is_some();
    until_async("the enforced app is made", is_made).await;
    // Its author corrects the list.
    let corrected = json!([entry(&installs, "one")]).to_string();
    annotate(&installs, &corrected).await;
    until_done(&installs).await;
    assert!(installs.get("one").await.is_some());
}
