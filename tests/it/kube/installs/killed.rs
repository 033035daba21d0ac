//! The controller and its Helm are killed at each step of an installation and of its removal. The
//! next process finishes the work.

use kube::{ResourceExt, api::DynamicObject};
use serde_json::json;

use crate::{
    kube::killed::start,
    support::installs::{Installs, condition},
};

/// A step: its name, and how the object shows that it was done.
type Step = (&'static str, fn(&DynamicObject) -> bool);

const STEPS: [Step; 4] = [
    ("finalizer", |object| !object.finalizers().is_empty()),
    ("operation", |object| {
        object.data["status"]["operation"]["id"].is_string()
    }),
    ("release", |object| {
        object.data["status"]["helmRelease"]["name"].is_string()
    }),
    ("ready", |object| {
        condition(&object.data["status"], "Ready").0 == "True"
    }),
];

#[tokio::test(flavor = "multi_thread")]
async fn an_installation_converges_wherever_its_controller_is_killed() {
    for (step, is_done) in STEPS {
        let installs = Installs::stopped("").await;
        installs.definition(json!({})).await;
        let killed = start(&installs.config(), &format!("{step}-killed"));
        installs.installation("app-1", json!({})).await;
        installs.changes("app-1").until(is_done).await;
        // SIGKILL.
        drop(killed);
        installs.kill_helm();
        let _next = start(&installs.config(), &format!("{step}-next"));
        installs.until_ready("app-1").await;
        assert!(installs.data().await.is_some(), "{step}");
        installs.delete("app-1").await;
        installs.until_gone("app-1").await;
        assert!(installs.data().await.is_none(), "{step}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_removal_converges_after_its_controller_was_killed() {
    let installs = Installs::stopped("").await;
    installs.definition(json!({})).await;
    installs.installation("app-1", json!({})).await;
    let killed = start(&installs.config(), "killed");
    installs.until_ready("app-1").await;
    let mut changes = installs.changes("app-1");
    installs.delete("app-1").await;
    let is_running = |object: &DynamicObject| {
        object.metadata.deletion_timestamp.is_some()
            && object.data["status"]["operation"]["id"].is_string()
    };
    changes.until(is_running).await;
    drop(killed);
    installs.kill_helm();
    let _next = start(&installs.config(), "next");
    installs.until_gone("app-1").await;
    assert!(installs.history("app-1").await.is_empty());
    assert!(installs.data().await.is_none());
}
