//! Two installations whose releases have one name.

use serde_json::json;

use crate::support::installs::{Installs, condition};

#[tokio::test(flavor = "multi_thread")]
async fn a_release_of_another_installation_is_not_touched() {
    let installs = Installs::start().await;
    installs.definition(json!({})).await;
    installs.installation("app-1", json!({})).await;
    let first = installs.until_ready("app-1").await;
    // The name of the release is the beginning of a long name, and a hash of the namespace.
    let long = "x".repeat(50);
    let (one, two) = (format!("{long}-a"), format!("{long}-b"));
    installs
        .installation(&one, json!({ "valuesBlock": "cmData: { one: \"1\" }" }))
        .await;
    // Two releases cannot have one ConfigMap: the first app has it.
    installs
        .until(&one, |status| condition(status, "Ready").0 == "False")
        .await;
    installs.delete("app-1").await;
    installs.until_gone("app-1").await;
    installs.until_ready(&one).await;
    installs
        .installation(&two, json!({ "valuesBlock": "cmData: { two: \"2\" }" }))
        .await;
    installs
        .until_condition(&two, "Ready", ("False", "ReleaseNameTaken"))
        .await;
    let data = installs.data().await.expect("a ConfigMap");
    assert!(
        data.contains_key("one") && !data.contains_key("two"),
        "{data:?}"
    );
    // Its deletion leaves the release of the other one.
    installs.delete(&two).await;
    installs.until_gone(&two).await;
    assert!(installs.data().await.is_some());
    assert_ne!(first["helmRelease"]["name"], json!(null));
}
