//! SIGKILL of Helm, and of the controller with it, at each step of an installation, of an upgrade
//! and of a removal. What is wanted is there at the end. Pods that are not ready, and a hook that
//! waits, hold each operation until it is killed.

use std::collections::BTreeSet;

use k8s_openapi::api::{apps::v1::Deployment, batch::v1::Job, core::v1::Secret};
use kube::{ResourceExt, api::DynamicObject};
use ludgate_installs::release::ReleaseStatus::Deployed;
use serde_json::json;

use super::site::{InstallSite, WebApp, waiting};
use crate::support::kube_namespace::kubectl;

/// Labels of a revision that an upgrade is about to make.
const PENDING: &str = "owner=helm,status=pending-upgrade";

fn is_running(installation: &DynamicObject) -> bool {
    installation.data["status"]["operation"]["id"].is_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_installation_converges_wherever_it_is_killed() {
    let mut site = InstallSite::start().await;
    site.define_web("web", json!({})).await;
    let app = WebApp {
        definition: "web",
        version: "1.0.0",
        values: "waits: true",
        helm: waiting(),
    };
    site.install("app", &app).await;

    // Protected from removal, and nothing else.
    let is_protected = |object: &DynamicObject| !object.finalizers().is_empty();
    site.installs.changes("app").until(is_protected).await;
    site.kill_all();
    site.start_controller();

    // An operation that is recorded, and may have made a release.
    site.installs.changes("app").until(is_running).await;
    site.kill_all();
    let seen = site.uids::<Deployment>("app").await;
    site.start_controller();

    // Helm has made objects, and waits for the pod. The controller lives.
    site.until_new::<Deployment>("app", "", &seen).await;
    let seen = site.uids::<Deployment>("app").await;
    site.installs.kill_helm();
    let recovered = ("True", "Uninstalled");
    site.installs
        .until_condition("app", "Recovered", recovered)
        .await;

    // The same with the controller.
    site.until_new::<Deployment>("app", "", &seen).await;
    let seen = site.uids::<Deployment>("app").await;
    site.kill_all();
    site.start_controller();
    site.until_new::<Deployment>("app", "", &seen).await;
    site.release_pods("app").await;
    site.until_page("app", "web 0.1.0, plain").await;
    assert_eq!(site.revisions("app").await, [(1, Deployed)]);

    // A new process leaves what is ready. It has looked at all installations when it has looked at
    // another one.
    let ready = site.uids::<Deployment>("app").await;
    site.kill_all();
    site.start_controller();
    site.install("other", &app).await;
    let accepted = ("True", "Valid");
    site.installs
        .until_condition("other", "Accepted", accepted)
        .await;
    assert_eq!(site.revisions("app").await, [(1, Deployed)]);
    assert_eq!(site.uids::<Deployment>("app").await, ready);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upgrade_converges_wherever_it_is_killed() {
    let mut site = InstallSite::start().await;
    site.define_web("web", json!({})).await;
    let first = WebApp {
        definition: "web",
        version: "1.0.0",
        ..WebApp::default()
    };
    site.install("app", &first).await;
    site.installs.until_ready("app").await;
    site.until_page("app", "web 0.1.0, plain").await;

    // Helm waits for the new pod. The controller lives, and goes back first.
    let second = WebApp {
        version: "2.0.0",
        values: "waits: true",
        helm: waiting(),
        ..first
    };
    let seen = site.uids::<Secret>("app").await;
    site.install("app", &second).await;
    site.until_new::<Secret>("app", PENDING, &seen).await;
    let seen = site.uids::<Secret>("app").await;
    site.installs.kill_helm();
    let recovered = ("True", "RolledBack");
    site.installs
        .until_condition("app", "Recovered", recovered)
        .await;
    site.until_page("app", "web 0.1.0, plain").await;

    // The same with the controller.
    site.until_new::<Secret>("app", PENDING, &seen).await;
    site.kill_all();
    site.start_controller();
    site.release_pods("app").await;
    site.until_page("app", "web 0.2.0, plain").await;
    let last = site.revisions("app").await.pop();
    assert_eq!(last.map(|(_, state)| state), Some(Deployed));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_removal_converges_wherever_it_is_killed() {
    let mut site = InstallSite::start().await;
    site.define_web("web", json!({})).await;
    let app = WebApp {
        definition: "web",
        version: "1.0.0",
        values: "holdsRemoval: true",
        ..WebApp::default()
    };
    site.install("app", &app).await;
    site.installs.until_ready("app").await;
    site.until_page("app", "web 0.1.0, plain").await;

    // Helm waits for the hook. The controller lives, and the app does.
    site.installs.delete("app").await;
    site.until_new::<Job>("app", "", &BTreeSet::new()).await;
    let seen = site.uids::<Job>("app").await;
    site.installs.kill_helm();
    let failed = ("False", "UninstallFailed");
    site.installs.until_condition("app", "Ready", failed).await;
    site.until_page("app", "web 0.1.0, plain").await;

    // The same with the controller.
    site.until_new::<Job>("app", "", &seen).await;
    site.kill_all();
    let namespace = site.namespace("app");
    let release = ["create", "configmap", "released", "--from-literal=now=yes"];
    let arguments = [&["-n", namespace.as_str()], release.as_slice()].concat();
    kubectl(&arguments, "").await;
    site.start_controller();
    site.installs.until_gone("app").await;
    assert!(site.revisions("app").await.is_empty());
    assert!(site.uids::<Deployment>("app").await.is_empty());
    site.until_no_pods("app").await;
}
