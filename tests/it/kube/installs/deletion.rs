//! Deletions: while an operation waits, while an uninstall fails, and with the namespace.

use serde_json::json;

use crate::support::{
    installs::{AT_ONCE, AppNamespace, Installs, condition, time_to_condition},
    until::{assert_soon, until_async},
};

/// Objects that are never ready.
const NEVER_READY: &str = "deployService: true\ndeployClaim: true\n";

#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_ends_an_operation_that_waits() {
    let installs = Installs::start().await;
    installs.definition(json!({})).await;
    let spec = json!({
        "applicationRef": { "name": installs.own("example"), "version": "2.0.0" },
        "valuesBlock": NEVER_READY,
        "deployOptions": { "helm": { "wait": true, "timeout": "10m" } },
    });
    installs.installation("app-1", spec).await;
    let is_made = async || installs.data().await.is_some();
    until_async("the objects are made", is_made).await;
    let mut changes = installs.changes("app-1");
    installs.delete("app-1").await;
    let is_cancelled = |object: &kube::api::DynamicObject| {
        condition(&object.data["status"], "Ready") == ("False", "Cancelled")
    };
    let cancelled = changes.until(is_cancelled).await;
    let took = time_to_condition(&cancelled, "Ready");
    assert_soon(AT_ONCE, took);
    installs.until_gone("app-1").await;
    assert!(installs.history("app-1").await.is_empty());
    assert!(installs.data().await.is_none());
    assert_eq!(installs.commands(), ["upgrade", "uninstall"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_app_blocks_no_other_one() {
    let installs = Installs::start().await;
    installs.definition(json!({})).await;
    let waiting = json!({
        "namespace": { "name": installs.own("target"), "create": true },
        "applicationRef": { "name": installs.own("example"), "version": "2.0.0" },
        "valuesBlock": NEVER_READY,
        "deployOptions": { "helm": { "wait": true, "timeout": "10m" } },
    });
    installs.installation("app-1", waiting).await;
    let is_made = async || installs.data().await.is_some();
    until_async("the first one waits", is_made).await;
    let name = installs.own("other");
    let _other = AppNamespace(name.clone());
    let other = json!({ "namespace": { "name": name, "create": true } });
    installs.installation("app-2", other).await;
    installs.until_ready("app-2").await;
    let status = installs.until("app-1", |_| true).await;
    assert_eq!(
        condition(&status, "Ready"),
        ("Unknown", "InstallationInProgress")
    );
    assert!(status["operation"]["id"].is_string(), "{status}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_stays_until_its_release_is_gone() {
    let installs = Installs::start().await;
    installs.definition(json!({})).await;
    installs.installation("app-1", json!({})).await;
    installs.until_ready("app-1").await;
    // Without the right to bind its role, the account of the namespace cannot be renewed.
    let role = installs.own("ludgate-installations");
    let target = installs.own("target");
    let namespace = installs.namespace();
    namespace
        .kubectl(&["delete", "clusterrolebinding", &role], "")
        .await;
    let binding = ["-n", &target, "delete", "rolebinding", "ludgate-installs"];
    crate::support::kube_namespace::kubectl(&binding, "").await;
    installs.delete("app-1").await;
    installs
        .until_condition("app-1", "Ready", ("False", "UninstallFailed"))
        .await;
    assert!(installs.data().await.is_some());
    namespace.grant("installations.yaml").await;
    installs.until_gone("app-1").await;
    assert!(installs.data().await.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_abandoned_release_stays_in_the_cluster() {
    let installs = Installs::start().await;
    installs.definition(json!({})).await;
    installs.installation("app-1", json!({})).await;
    installs.until_ready("app-1").await;
    let annotate = [
        "annotate",
        "applicationinstallations.apps.kubermatic.k8c.io",
        "app-1",
        "ludgate.dev/abandon-release=true",
    ];
    installs.namespace().kubectl(&annotate, "").await;
    installs.delete("app-1").await;
    installs.until_gone("app-1").await;
    assert!(installs.data().await.is_some());
    assert_eq!(installs.commands(), ["upgrade"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn only_a_namespace_that_was_made_for_an_app_is_deleted_with_it() {
    let installs = Installs::start().await;
    installs.definition(json!({})).await;
    let policy = json!({ "deletePolicy": "deleteNamespace" });
    installs.installation("app-1", policy.clone()).await;
    installs.until_ready("app-1").await;
    installs.delete("app-1").await;
    installs.until_gone("app-1").await;
    let is_gone = async || {
        let target = installs.target_namespace().await;
        target.is_none_or(|target| target.metadata.deletion_timestamp.is_some())
    };
    until_async("the namespace is deleted", is_gone).await;
    let is_gone = async || installs.target_namespace().await.is_none();
    until_async("the namespace is gone", is_gone).await;

    installs.make_target(&installs.namespace().name).await;
    installs.installation("app-2", policy).await;
    installs.until_ready("app-2").await;
    installs.delete("app-2").await;
    installs.until_gone("app-2").await;
    let target = installs.target_namespace().await.expect("it stays");
    assert!(target.metadata.deletion_timestamp.is_none());
}
