//! A spec that changes while Helm waits for the objects of the earlier one.

use std::collections::BTreeMap;

use kube::api::DynamicObject;
use ludgate_installs::release::ReleaseStatus;
use serde_json::{Value, json};

use crate::support::{
    installs::{Installs, condition, is_ready},
    until::until_async,
};

/// Objects that are never ready.
const NEVER_READY: &str = "deployService: true\ndeployClaim: true\n";

/// The version 2.0.0. Helm waits ten minutes for its objects.
fn spec(installs: &Installs, values: &str) -> Value {
    json!({
        "applicationRef": { "name": installs.own("example"), "version": "2.0.0" },
        "valuesBlock": values,
        "deployOptions": { "helm": { "wait": true, "timeout": "10m" } },
    })
}

/// Installs objects that are never ready, and corrects the values. The test is too impatient for
/// the timeout of the first operation.
async fn correct_while_waiting(installs: &Installs) {
    let waiting = spec(installs, NEVER_READY);
    installs.installation("app-1", waiting).await;
    let is_made = async || {
        let data = installs.data().await.unwrap_or_default();
        data.contains_key("foo-version-2")
    };
    until_async("the objects are made", is_made).await;
    let mut changes = installs.changes("app-1");
    let corrected = spec(installs, "cmData: { hello: world }");
    installs.installation("app-1", corrected).await;
    let mut messages = Vec::new();
    let ready = changes
        .until(|object: &DynamicObject| {
            let status = &object.data["status"];
            if condition(status, "Ready") == ("False", "Cancelled") {
                messages.push(status["conditions"]["Ready"]["message"].clone());
            }
            is_ready(object)
        })
        .await;
    messages.dedup();
    assert_eq!(
        messages,
        ["the operation was cancelled by a change of the spec"]
    );
    let status = &ready.data["status"];
    assert!(status["failures"].is_null(), "{status}");
    let wanted = [("foo-version-2", "bar-version-2"), ("hello", "world")];
    let wanted = wanted.map(|(key, value)| (key.to_owned(), value.to_owned()));
    assert_eq!(installs.data().await, Some(BTreeMap::from(wanted)));
    let latest = installs.history("app-1").await.pop().expect("a revision");
    assert_eq!(latest.status, ReleaseStatus::Deployed);
}

fn upgrades(installs: &Installs) -> usize {
    let commands = installs.commands();
    commands.iter().filter(|it| *it == "upgrade").count()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_ends_an_upgrade_that_waits() {
    let installs = Installs::start().await;
    installs.definition(json!({})).await;
    installs.installation("app-1", json!({})).await;
    installs.until_ready("app-1").await;
    correct_while_waiting(&installs).await;
    assert_eq!(upgrades(&installs), 3, "{:?}", installs.commands());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_ends_an_installation_that_waits() {
    let installs = Installs::start().await;
    installs.definition(json!({})).await;
    correct_while_waiting(&installs).await;
    assert_eq!(upgrades(&installs), 2, "{:?}", installs.commands());
    installs.delete("app-1").await;
    installs.until_gone("app-1").await;
    assert!(installs.data().await.is_none());
}
