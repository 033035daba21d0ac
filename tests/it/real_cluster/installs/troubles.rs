//! Three failures at the same time: a chart server that is down for a minute, an upgrade whose pods
//! never become ready, and a removal that the API server refuses. Apps keep running meanwhile.

use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Pod;
use ludgate_installs::release::ReleaseStatus::Deployed;
use serde_json::{Value, json};

use super::site::{APP_LABEL, InstallSite, WebApp};
use crate::support::{
    changes::POD_PATIENCE,
    chart_repository::ChartRepository,
    installs::condition,
    kube_namespace::{kubectl, try_kubectl},
    message::PATIENCE,
    until::holds_within,
};

const MINUTE: Duration = Duration::from_secs(60);

/// Installs version 1.0.0, and waits for its page.
async fn run(site: &InstallSite, name: &str, app: &WebApp<'_>) {
    site.install(name, app).await;
    site.installs.until_ready(name).await;
    site.until_page(name, "web 0.1.0, plain").await;
}

/// The server answers 503. Each attempt fails, and the one after the outage succeeds.
async fn outage(site: &InstallSite) {
    let charts = [("web", "0.1.0"), ("web", "0.2.0")];
    let server = ChartRepository::of_web_charts(&charts).await;
    let version = |version: &str, chart: &str| {
        json!({ "version": version, "template": { "source": { "helm": {
            "url": server.url(), "chartName": "web", "chartVersion": chart,
        } } } })
    };
    let versions = json!([version("1.0.0", "0.1.0"), version("2.0.0", "0.2.0")]);
    let definition = json!({ "versions": versions });
    site.installs.define("outage", definition).await;
    let first = WebApp {
        definition: "outage",
        version: "1.0.0",
        ..WebApp::default()
    };
    run(site, "outage", &first).await;
    let pods = site.uids::<Pod>("outage").await;

    server.set_down(true);
    let (begun, before) = (Instant::now(), server.heads().len());
    let second = WebApp {
        version: "2.0.0",
        ..first
    };
    site.install("outage", &second).await;
    let failed = ("False", "DownloadSourceFailed");
    let status = site
        .installs
        .until_condition("outage", "ManifestsRetrieved", failed)
        .await;
    assert_eq!(status["helmRelease"]["info"]["status"], "deployed");
    // The pauses are 10, 20 and 40 seconds, so no attempt follows the third one within the minute.
    let has_tried = holds_within(POD_PATIENCE, async || server.heads().len() >= before + 3);
    assert!(has_tried.await, "{:?}", server.heads());
    assert_eq!(site.revisions("outage").await, [(1, Deployed)]);
    assert_eq!(site.uids::<Pod>("outage").await, pods);
    site.until_page("outage", "web 0.1.0, plain").await;
    server.set_down(false);
    site.installs.until_ready("outage").await;
    let took = begun.elapsed();
    assert!(took >= MINUTE, "it healed after {took:?} already");
    site.until_page("outage", "web 0.2.0, plain").await;
}

fn atomic(timeout: &str) -> Value {
    json!({ "atomic": true, "wait": true, "timeout": timeout })
}

/// Helm rolls an atomic upgrade back, whose pods never become ready.
async fn failed_upgrade(site: &InstallSite) {
    let first = WebApp {
        definition: "web",
        version: "1.0.0",
        helm: atomic("2m"),
        ..WebApp::default()
    };
    run(site, "upgrade", &first).await;
    let second = WebApp {
        version: "2.0.0",
        values: "waits: true",
        helm: atomic("15s"),
        ..first
    };
    site.install("upgrade", &second).await;
    let has_failed = |status: &Value| status["failures"] == 1;
    let status = site.installs.until("upgrade", has_failed).await;
    let ready = condition(&status, "Ready");
    assert_eq!(ready, ("False", "InstallationFailed"), "{status}");
    let release = &status["helmRelease"];
    let found = (&release["version"], &release["info"]["status"]);
    assert_eq!(found, (&json!(3), &json!("deployed")), "{status}");
    assert_eq!(release["info"]["description"], "Rollback to 1", "{status}");
    site.until_page("upgrade", "web 0.1.0, plain").await;

    let repaired = WebApp {
        values: "theme: new",
        helm: atomic("2m"),
        ..second
    };
    site.install("upgrade", &repaired).await;
    let status = site.installs.until_ready("upgrade").await;
    assert!(status["failures"].is_null(), "{status}");
    site.until_page("upgrade", "web 0.2.0, new").await;
}

/// A webhook that nothing answers: the API server refuses to delete Deployments of this namespace.
fn webhook(namespace: &str) -> Value {
    let rule = json!({
        "apiGroups": ["apps"], "apiVersions": ["v1"],
        "operations": ["DELETE"], "resources": ["deployments"],
    });
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": { "name": namespace },
        "webhooks": [{
            "name": "removals.installs.ludgate.test",
            "clientConfig": { "service": { "namespace": namespace, "name": "absent" } },
            "namespaceSelector": { "matchLabels": { APP_LABEL: namespace } },
            "rules": [rule],
            "failurePolicy": "Fail",
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        }],
    })
}

/// The object stays until Helm has removed everything.
async fn failed_removal(site: &InstallSite) {
    let app = WebApp {
        definition: "web",
        version: "1.0.0",
        ..WebApp::default()
    };
    run(site, "removal", &app).await;
    let pods = site.uids::<Pod>("removal").await;
    let namespace = site.namespace("removal");
    kubectl(&["apply", "-f", "-"], &webhook(&namespace).to_string()).await;
    let delete = [
        "-n",
        &namespace,
        "delete",
        "deployment",
        "web",
        "--dry-run=server",
        "--wait=false",
    ];
    let is_refused = holds_within(PATIENCE, async || try_kubectl(&delete, "").await.is_err());
    assert!(is_refused.await, "the webhook is not called");

    site.installs.delete("removal").await;
    let failed = ("False", "UninstallFailed");
    site.installs
        .until_condition("removal", "Ready", failed)
        .await;
    let object = site.installs.get("removal").await.expect("it stays");
    assert!(object.metadata.deletion_timestamp.is_some());
    assert_eq!(site.uids::<Pod>("removal").await, pods);
    assert!(!site.revisions("removal").await.is_empty());

    let kind = "validatingwebhookconfiguration";
    kubectl(&["delete", kind, &namespace], "").await;
    site.installs.until_gone("removal").await;
    assert!(site.revisions("removal").await.is_empty());
    site.until_no_pods("removal").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn apps_outlive_an_outage_a_failed_upgrade_and_a_refused_removal() {
    let site = InstallSite::start().await;
    site.define_web("web", json!({})).await;
    tokio::join!(outage(&site), failed_upgrade(&site), failed_removal(&site));
}
