//! An installation that waits for its pods: it is ready when they are, and a deletion ends the
//! wait.

use std::time::Instant;

use k8s_openapi::api::{apps::v1::Deployment, core::v1::Pod};
use kube::{api::DynamicObject, runtime::watcher};
use serde_json::json;

use super::site::{InstallSite, WebApp, waiting};
use crate::support::{
    changes::Changes,
    installs::{AT_ONCE, condition, is_ready, time_to_condition},
    until::assert_soon,
};

#[tokio::test(flavor = "multi_thread")]
async fn an_app_is_ready_with_its_pods_and_a_deletion_ends_the_wait_for_them() {
    let site = InstallSite::start().await;
    site.define_web("web", json!({})).await;
    let first = WebApp {
        definition: "web",
        version: "1.0.0",
        values: "waits: true",
        helm: waiting(),
    };
    site.install("app", &first).await;
    let runs = |pod: &DynamicObject| pod.data["status"]["phase"] == "Running";
    let pods = watcher::Config::default().labels("app=web");
    Changes::new(site.objects::<Pod>("app"), pods)
        .until(runs)
        .await;
    let installation = site.installs.get("app").await.expect("an object");
    let ready = condition(&installation.data["status"], "Ready");
    assert_eq!(ready, ("Unknown", "InstallationInProgress"));
    assert_eq!(site.page("app").await, None);
    site.release_pods("app").await;
    site.until_page("app", "web 0.1.0, plain").await;
    // A change would end the operation.
    site.installs.until_ready("app").await;

    // The next version waits for its own pod, beside that of the first one.
    let second = WebApp {
        version: "2.0.0",
        ..first
    };
    site.install("app", &second).await;
    let has_both = |deployment: &DynamicObject| {
        let status = &deployment.data["status"];
        status["replicas"] == 2 && status["unavailableReplicas"] == 1
    };
    Changes::named(site.objects::<Deployment>("app"), "web")
        .until(has_both)
        .await;
    let installation = site.installs.get("app").await.expect("an object");
    assert!(!is_ready(&installation));
    site.until_page("app", "web 0.1.0, plain").await;

    let mut changes = site.installs.changes("app");
    let deleted = Instant::now();
    site.installs.delete("app").await;
    let is_cancelled = |object: &DynamicObject| {
        condition(&object.data["status"], "Ready") == ("False", "Cancelled")
    };
    let cancelled = changes.until(is_cancelled).await;
    let took = time_to_condition(&cancelled, "Ready");
    assert_soon(AT_ONCE, took);
    site.installs.until_gone("app").await;
    let gone = deleted.elapsed();
    println!("cancelled after {took:?}, gone after {gone:?}");
    assert!(site.revisions("app").await.is_empty());
    assert!(site.uids::<Deployment>("app").await.is_empty());
    site.until_no_pods("app").await;
    let commands = site.installs.commands();
    assert_eq!(commands, ["upgrade", "upgrade", "uninstall"]);
}
