//! Definitions and versions that are absent, removed, or change.

use serde_json::json;

use crate::support::installs::{Installs, condition};

#[tokio::test(flavor = "multi_thread")]
async fn without_a_definition_nothing_is_installed_until_there_is_one() {
    let installs = Installs::start().await;
    installs.installation("app-1", json!({})).await;
    let status = installs
        .until_condition("app-1", "Accepted", ("False", "NotFound"))
        .await;
    let message = &status["conditions"]["Accepted"]["message"];
    assert!(
        message
            .as_str()
            .is_some_and(|text| text.contains(&installs.own("example")))
    );
    installs.definition(json!({})).await;
    installs.until_ready("app-1").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_its_version_nothing_is_installed() {
    let installs = Installs::start().await;
    installs.definition(json!({})).await;
    let reference = json!({ "name": installs.own("example"), "version": "9.9.9" });
    installs
        .installation("app-1", json!({ "applicationRef": reference }))
        .await;
    installs
        .until_condition("app-1", "Accepted", ("False", "NotFound"))
        .await;
    assert!(installs.target_namespace().await.is_none());
    assert!(installs.commands().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_app_outlives_its_definition() {
    let installs = Installs::start().await;
    installs
        .definition(json!({ "onVersionRemoved": "uninstall" }))
        .await;
    installs.installation("app-1", json!({})).await;
    installs.until_ready("app-1").await;
    installs.delete_definition().await;
    installs
        .until("app-1", |status| {
            condition(status, "VersionWithdrawn").0 == "True"
        })
        .await;
    assert!(installs.data().await.is_some());
    // It can still be removed.
    installs.delete("app-1").await;
    installs.until_gone("app-1").await;
    assert!(installs.data().await.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_removed_version_keeps_its_apps_or_ends_them_as_the_definition_says() {
    let installs = Installs::start().await;
    installs.definition(json!({})).await;
    installs.installation("app-1", json!({})).await;
    installs.until_ready("app-1").await;
    let rest = json!([installs.version("2.0.0", "example", "0.2.0")]);
    installs
        .definition(json!({ "versions": rest.clone() }))
        .await;
    let wanted = ("True", "ApplicationVersionRemoved");
    installs
        .until_condition("app-1", "VersionWithdrawn", wanted)
        .await;
    assert!(installs.data().await.is_some());
    let policy = json!({ "versions": rest, "onVersionRemoved": "uninstall" });
    installs.definition(policy).await;
    installs.until_gone("app-1").await;
    assert!(installs.data().await.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_installation_says_why_and_heals() {
    let installs = Installs::start().await;
    installs.definition(json!({})).await;
    let both = json!({ "values": { "a": 1 }, "valuesBlock": "a: 1" });
    installs.installation("app-1", both).await;
    installs
        .until_condition("app-1", "Accepted", ("False", "Invalid"))
        .await;
    assert!(installs.commands().is_empty());
    // Kubernetes 1.20 sets the removed field to null.
    let one = json!({ "valuesBlock": "a: 1" });
    installs.installation("app-1", one).await;
    installs.until_ready("app-1").await;
}
