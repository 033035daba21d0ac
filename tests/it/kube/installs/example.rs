//! An app from its installation to its removal: objects, release, and status.

use std::collections::BTreeMap;

use kube::ResourceExt;
use ludgate_installs::release::ReleaseStatus;
use serde_json::json;

use crate::support::{
    installs::{Installs, condition, installations, is_ready},
    kube_namespace::try_kubectl,
    until::until_async,
};

fn data(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    let pairs = pairs.iter();
    pairs
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_app_is_installed_upgraded_and_removed() {
    let installs = Installs::start().await;
    installs.definition(json!({})).await;
    let mut changes = installs.changes("app-1");
    let spec = json!({
        "valuesBlock": "cmData: { a: \"x & y\" }\n",
        "deployOptions": { "helm": { "atomic": true, "wait": true, "timeout": "1m" } },
    });
    installs.installation("app-1", spec.clone()).await;
    let mut seen = Vec::new();
    let ready = changes
        .until(|object| {
            let reason = condition(&object.data["status"], "Ready").1.to_owned();
            if !reason.is_empty() && seen.last() != Some(&reason) {
                seen.push(reason);
            }
            is_ready(object)
        })
        .await;
    assert_eq!(seen, ["InstallationInProgress", "InstallationSuccessful"]);
    let status = &ready.data["status"];
    let retrieved = condition(status, "ManifestsRetrieved");
    assert_eq!(retrieved, ("True", "DownloadSourceSuccessful"));
    assert_eq!(condition(status, "Accepted"), ("True", "Valid"));
    let release = &status["helmRelease"];
    assert_eq!(release["name"], installs.release("app-1"));
    assert_eq!(
        (&release["version"], &release["info"]["status"]),
        (&json!(1), &json!("deployed"))
    );
    assert!(status["failures"].is_null() && status["operation"].is_null());
    assert_eq!(status["applicationVersion"]["version"], "1.0.0");
    let finalizer = "kubermatic.k8c.io/cleanup-application-installation";
    assert_eq!(ready.finalizers(), [finalizer]);

    let target = installs.target_namespace().await.expect("a namespace");
    assert_eq!(target.labels().get("env").map(String::as_str), Some("dev"));
    let made = installs.config_map("testcm").await.expect("a ConfigMap");
    assert_eq!(made.data, Some(data(&[("a", "x & y"), ("foo", "bar")])));
    let managed = made.labels().get("app.kubernetes.io/managed-by");
    assert_eq!(managed.map(String::as_str), Some("Helm"));
    let annotation = made.annotations().get("meta.helm.sh/release-name");
    assert_eq!(annotation, Some(&installs.release("app-1")));
    let history = installs.history("app-1").await;
    let states: Vec<_> = history.iter().map(|it| (it.revision, it.status)).collect();
    assert_eq!(states, [(1, ReleaseStatus::Deployed)]);

    // The same content in another form changes nothing.
    let mut same = spec;
    same["valuesBlock"] = "# a comment\ncmData:\n  a: 'x & y'\n".into();
    installs.installation("app-1", same).await;
    installs.until_ready("app-1").await;
    assert_eq!(installs.history("app-1").await.len(), 1);
    assert_eq!(installs.commands(), ["upgrade"]);

    // Another version of the chart.
    let upgraded = json!({ "applicationRef": {
        "name": installs.own("example"), "version": "2.0.0",
    } });
    installs.installation("app-1", upgraded).await;
    let status = installs
        .until("app-1", |status| {
            status["helmRelease"]["version"] == 2 && condition(status, "Ready").0 == "True"
        })
        .await;
    assert_eq!(status["applicationVersion"]["version"], "2.0.0");
    let history = installs.history("app-1").await;
    assert_eq!(history.last().map(|it| it.revision), Some(2));

    installs.delete("app-1").await;
    installs.until_gone("app-1").await;
    assert!(installs.history("app-1").await.is_empty());
    assert!(installs.config_map("testcm").await.is_none());
    // The account has no rights without a release.
    let target = installs.own("target");
    let binding = ["-n", &target, "get", "rolebinding", "ludgate-installs"];
    assert!(try_kubectl(&binding, "").await.is_err(), "it has a role");
    // The default policy keeps the namespace.
    assert!(installs.target_namespace().await.is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interval_applies_an_unchanged_release_again() {
    let installs = Installs::start().await;
    installs.definition(json!({})).await;
    let spec = json!({ "reconciliationInterval": "10s" });
    installs.installation("app-1", spec).await;
    installs.until_ready("app-1").await;
    installs
        .until("app-1", |status| status["helmRelease"]["version"] == 2)
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_process_does_not_apply_an_unchanged_release() {
    let installs = Installs::start().await;
    installs.definition(json!({})).await;
    installs.installation("app-1", json!({})).await;
    installs.until_ready("app-1").await;
    let installs = installs.restart().await;
    // The new process has looked at the old installation when it has made another one.
    installs
        .installation("app-2", json!({ "valuesBlock": "x: 1" }))
        .await;
    installs
        .until_condition("app-2", "Accepted", ("True", "Valid"))
        .await;
    assert_eq!(installs.history("app-1").await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn new_labels_of_the_namespace_are_set_and_those_of_others_stay() {
    let installs = Installs::start().await;
    installs.definition(json!({})).await;
    let target = installs.own("target");
    installs.make_target("*").await;
    let label = ["label", "namespace", &target, "owner=person"];
    installs.namespace().kubectl(&label, "").await;
    installs.installation("app-1", json!({})).await;
    installs.until_ready("app-1").await;
    let labels = json!({ "env": "prod", "team": "a" });
    let namespace = json!({ "name": target, "create": true, "labels": labels });
    installs
        .installation("app-1", json!({ "namespace": namespace }))
        .await;
    until_async("the labels are set", async || {
        let namespace = installs.target_namespace().await.expect("a namespace");
        let has =
            |key: &str, value: &str| namespace.labels().get(key).is_some_and(|it| it == value);
        has("env", "prod") && has("team", "a") && has("owner", "person")
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_label_that_leaves_the_spec_leaves_the_namespace() {
    let installs = Installs::start().await;
    installs.definition(json!({})).await;
    let target = installs.own("target");
    let labels = json!({ "env": "dev", "team": "a" });
    let namespace = json!({ "name": target, "create": true, "labels": labels });
    installs
        .installation("app-1", json!({ "namespace": namespace }))
        .await;
    installs.until_ready("app-1").await;
    let label = ["label", "namespace", &target, "owner=person"];
    installs.namespace().kubectl(&label, "").await;
    let kind = installations();
    let place = format!("{}.{}/app-1", kind.plural, kind.group);
    for (labels, env) in [(json!({ "team": null }), Some("dev")), (json!(null), None)] {
        let patch = json!({ "spec": { "namespace": { "labels": labels } } }).to_string();
        let patch = ["patch", &place, "--type=merge", "-p", &patch];
        installs.namespace().kubectl(&patch, "").await;
        until_async("the label is gone", async || {
            let namespace = installs.target_namespace().await.expect("a namespace");
            let label = |key: &str| namespace.labels().get(key).map(String::as_str);
            (label("team"), label("env"), label("owner")) == (None, env, Some("person"))
        })
        .await;
    }
    assert_eq!(installs.commands(), ["upgrade"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_label_of_another_writer_is_not_overwritten() {
    let installs = Installs::start().await;
    installs.definition(json!({})).await;
    let target = installs.own("target");
    installs.make_target("*").await;
    let label = ["label", "namespace", &target, "env=person"];
    installs.namespace().kubectl(&label, "").await;
    installs.installation("app-1", json!({})).await;
    let conflict = ("False", "Conflict");
    let status = installs
        .until_condition("app-1", "NamespaceLabelled", conflict)
        .await;
    let message = &status["conditions"]["NamespaceLabelled"]["message"];
    let message = message.as_str().unwrap_or_default();
    assert!(message.contains("labels.env"), "{message}");
    let remove = ["label", "namespace", &target, "env-"];
    installs.namespace().kubectl(&remove, "").await;
    installs.until_ready("app-1").await;
    let namespace = installs.target_namespace().await.expect("a namespace");
    let env = namespace.labels().get("env");
    assert_eq!(env.map(String::as_str), Some("dev"));
    installs
        .until("app-1", |status| {
            status["conditions"]["NamespaceLabelled"].is_null()
        })
        .await;
}
