//! Sources that fail: what runs goes on, and the next attempt heals.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Secret;
use kube::{Api, api::PostParams};
use serde_json::{Value, json};

use crate::support::installs::{Installs, condition};

#[tokio::test(flavor = "multi_thread")]
async fn a_source_that_is_away_touches_nothing_and_comes_back() {
    let installs = Installs::start().await;
    installs.definition(json!({})).await;
    installs.installation("app-1", json!({})).await;
    installs.until_ready("app-1").await;
    installs.repository.set_down(true);
    let values = json!({ "valuesBlock": "cmData: { hello: world }" });
    installs.installation("app-1", values).await;
    let failed = ("False", "DownloadSourceFailed");
    let status = installs
        .until_condition("app-1", "ManifestsRetrieved", failed)
        .await;
    assert_eq!(status["helmRelease"]["info"]["status"], "deployed");
    assert!(status["failures"].is_null(), "{status}");
    assert_eq!(installs.history("app-1").await.len(), 1);
    installs.repository.set_down(false);
    // After its pause.
    installs.until_ready("app-1").await;
    let data = installs.data().await.expect("a ConfigMap");
    assert_eq!(data.get("hello").map(String::as_str), Some("world"));
}

fn with_credentials(installs: &Installs) -> Value {
    let mut version = installs.version("1.0.0", "example", "0.1.0");
    let field = |key: &str| json!({ "name": "login", "key": key });
    version["template"]["source"]["helm"]["credentials"] =
        json!({ "username": field("user"), "password": field("password") });
    json!({ "versions": [version] })
}

async fn create_secret(installs: &Installs, is_annotated: bool) {
    let namespace = installs.namespace();
    let api: Api<Secret> = Api::namespaced(namespace.client.clone(), &namespace.name);
    let mut secret = Secret::default();
    secret.metadata.name = Some("login".to_owned());
    if is_annotated {
        let annotation = (
            "apps.kubermatic.k8c.io/secret-type".to_owned(),
            "helm".to_owned(),
        );
        secret.metadata.annotations = Some(BTreeMap::from([annotation]));
    }
    let data = [("user", "someone"), ("password", "s3cret-word")];
    let data = data.map(|(key, value)| (key.to_owned(), value.to_owned()));
    secret.string_data = Some(data.into());
    let created = api.create(&PostParams::default(), &secret).await;
    created.expect("a Secret");
}

#[tokio::test(flavor = "multi_thread")]
async fn only_annotated_secrets_give_credentials() {
    let installs = Installs::start().await;
    create_secret(&installs, false).await;
    installs.definition(with_credentials(&installs)).await;
    installs.installation("app-1", json!({})).await;
    let failed = ("False", "DownloadSourceFailed");
    let status = installs
        .until_condition("app-1", "ManifestsRetrieved", failed)
        .await;
    assert!(!status.to_string().contains("s3cret-word"));
    assert!(installs.repository.heads().is_empty());
    // The annotation leads to another attempt at once.
    let annotate = [
        "annotate",
        "secret",
        "login",
        "apps.kubermatic.k8c.io/secret-type=helm",
    ];
    installs.namespace().kubectl(&annotate, "").await;
    installs.until_ready("app-1").await;
    let heads = installs.repository.heads();
    assert!(!heads.is_empty());
    let has_login = |head: &String| head.to_ascii_lowercase().contains("authorization: basic ");
    assert!(heads.iter().all(has_login), "{heads:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chart_that_does_not_exist_is_reported() {
    let installs = Installs::start().await;
    let missing = installs.version("1.0.0", "example", "7.7.7");
    installs.definition(json!({ "versions": [missing] })).await;
    installs.installation("app-1", json!({})).await;
    let status = installs
        .until("app-1", |status| {
            condition(status, "ManifestsRetrieved").0 == "False"
        })
        .await;
    assert!(condition(&status, "Ready").0.is_empty());
    assert!(installs.commands().is_empty());
}
