//! From a claim to the files in a browser: who gets in, what they can do there, and when it ends.

use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, Service};
use kube::{Api, api::ListParams};
use ludgate::model::app::AppState;
use serde_json::json;

use super::Viewers;
use crate::support::{
    bound_volume::BoundVolume,
    browser::From,
    changes::POD_PATIENCE,
    chromium::Chromium,
    kube_namespace::{KubeNamespace, kind_of, kubectl},
    message::PATIENCE,
    until::{assert_soon, holds_within},
    viewer::{child, viewer_controller, viewers},
};

/// Longest time from a ready pod to its page.
const PAGE: Duration = Duration::from_secs(2);
/// Longest time from the deletion of a claim to its end.
const GONE: Duration = Duration::from_secs(5);

fn is_ready(viewer: &kube::api::DynamicObject) -> bool {
    viewer.data["status"]["ready"] == true
}

/// As a person does it, with no field but the claim.
async fn apply(namespace: &KubeNamespace, name: &str, claim: &str) {
    let viewer = json!({
        "apiVersion": "kubeflow.org/v1alpha1", "kind": "PVCViewer",
        "metadata": { "name": name }, "spec": { "pvc": claim },
    });
    let apply = ["apply", "-f", "-"];
    namespace.kubectl(&apply, &viewer.to_string()).await;
}

async fn label(namespace: &KubeNamespace, team: &str) {
    let label = format!("team={team}");
    let command = ["label", "--overwrite", "namespace", &namespace.name, &label];
    kubectl(&command, "").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_is_opened_by_its_group_and_by_no_one_else() {
    let started = Viewers::start("group:{label:team}", "").await;
    let (world, namespace) = (&started.world, started.namespace());
    let volume = BoundVolume::bind(namespace, "data", "ReadWriteOnce").await;
    std::fs::write(volume.path().join("note.txt"), "found").expect("written");
    let path = started.path("v");
    apply(namespace, "v", "data").await;
    label(namespace, "phusers").await;
    world
        .until(|snapshot| snapshot.find(&started.id("v")).is_some())
        .await;
    let mut alice = world.signed_in("alice").await;
    let mut bob = world.browser();

    let status = started.controlled.until_viewer("v", is_ready).await;
    let ready = Instant::now();
    assert_eq!(status["url"], path.as_str());
    let opened = holds_within(POD_PATIENCE, async || {
        let page = alice.open(&path).await;
        page.status() == 200 && page.text().contains("note.txt")
    });
    assert!(opened.await, "{}", alice.open(&path).await.text());
    assert_soon(PAGE, ready.elapsed());

    let stranger = world.browser().open(&path).await;
    assert_eq!(stranger.status(), 302);
    let program = world
        .browser()
        .send("GET", &path, From::Program, "", b"")
        .await;
    assert_eq!(program.status(), 401);
    assert_eq!(bob.sign_in(&path, "bob").await.status(), 403);

    // The group changes with the label of the namespace, also for people who are signed in.
    label(namespace, "others").await;
    let is_refused = holds_within(PATIENCE, async || alice.open(&path).await.status() == 403);
    assert!(is_refused.await);
    volume.delete().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn files_are_uploaded_and_downloaded_in_a_real_browser() {
    let started = Viewers::start("group:phusers", "").await;
    let namespace = started.namespace();
    let volume = BoundVolume::bind(namespace, "data", "ReadWriteOnce").await;
    std::fs::write(volume.path().join("there.txt"), "from the volume").expect("written");
    apply(namespace, "v", "data").await;
    started.controlled.until_viewer("v", is_ready).await;
    started.world.until_running(&started.id("v")).await;
    let url = format!("http://{}{}", started.world.host, started.path("v"));
    let browser = Chromium::start("").await;
    let provider = started.world.provider.issuer().to_owned();
    browser.open(&url).await;
    browser.wait_for_url(|now| now.starts_with(&provider)).await;
    browser.click("a[href*=\"login_as=alice\"]").await;
    browser.wait_for_url(|now| now.starts_with(&url)).await;

    // The calls that the file browser's page makes, with its cookies and headers.
    let download = "return await (await fetch('api/v1/fs/there.txt')).text()";
    assert_eq!(browser.run_async(download).await, "from the volume");
    let upload = "const body = 'from the browser'; \
        const sent = await fetch('api/v1/fs/new.txt', { method: 'PUT', body }); \
        return sent.status";
    assert_eq!(browser.run_async(upload).await, 200);
    let stored = std::fs::read_to_string(volume.path().join("new.txt"));
    assert_eq!(stored.expect("a file"), "from the browser");
    upload_by_page(&browser, &url, &volume).await;
    browser.close().await;
    volume.delete().await;
}

/// Uploads a file by the dialog of the file browser's page, and downloads it again by its link.
async fn upload_by_page(browser: &Chromium, url: &str, volume: &BoundVolume) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("chosen.txt");
    std::fs::write(&file, "chosen in a dialog").expect("written");
    browser.open(&format!("{url}fs/")).await;
    let runs = async |script: &str| {
        let holds = holds_within(POD_PATIENCE, async || browser.run(script).await == true);
        assert!(holds.await, "{script}: {}", browser.source().await);
    };
    runs("return 'Upload' in (window.CloudCmd ?? {})").await;
    // The entry "Upload" of the page's menu does this.
    browser.run("CloudCmd.Upload.show()").await;
    let field = "[data-name=js-upload-file-button]";
    runs(&format!("return !!document.querySelector('{field}')")).await;
    browser.choose_file(field, &file).await;
    runs("return !!document.querySelector('a[title=\"chosen.txt\"]')").await;
    let stored = std::fs::read_to_string(volume.path().join("chosen.txt"));
    assert_eq!(stored.expect("a file"), "chosen in a dialog");
    let follow = "const link = document.querySelector('a[title=\"chosen.txt\"]'); \
        return await (await fetch(link.href)).text()";
    assert_eq!(browser.run_async(follow).await, "chosen in a dialog");
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_goes_with_the_claim() {
    let started = Viewers::start("group:phusers", "").await;
    let namespace = started.namespace();
    let volume = BoundVolume::bind(namespace, "data", "ReadWriteOnce").await;
    apply(namespace, "v", "data").await;
    started.controlled.until_viewer("v", is_ready).await;

    let pods: Api<Pod> = Api::namespaced(namespace.client.clone(), &namespace.name);
    let of_viewer = ListParams::default().labels("app.kubernetes.io/name=v");
    assert_eq!(pods.list(&of_viewer).await.expect("pods").items.len(), 1);
    let delete = ["delete", "pvc", "data", "--wait=false"];
    namespace.kubectl(&delete, "").await;
    let begun = Instant::now();
    let ends = |pods: Vec<Pod>| {
        let ending = |pod: &Pod| pod.metadata.deletion_timestamp.is_some();
        pods.iter().all(ending)
    };
    let is_ending = holds_within(POD_PATIENCE, async || {
        ends(pods.list(&of_viewer).await.expect("pods").items)
    });
    assert!(is_ending.await, "the pod is not deleted");
    let deleted = begun.elapsed();
    // kubelet needs some seconds of its own to end a pod with a volume.
    let is_gone = holds_within(POD_PATIENCE, async || {
        pods.list(&of_viewer).await.expect("pods").items.is_empty()
    });
    assert!(is_gone.await, "the pod is still there");
    let ended = begun.elapsed();
    let claims = kind_of::<PersistentVolumeClaim>();
    namespace.until_gone(&claims, "data").await;
    let gone = begun.elapsed();
    println!("pod deleted {deleted:?}, ended {ended:?}, claim gone {gone:?}");
    assert_soon(GONE, deleted + (gone - ended));
    namespace.until_gone(&viewers(), "v").await;
    assert!(pods.list(&of_viewer).await.expect("pods").items.is_empty());
    let name = child("v");
    let kinds = ["get", "deployment,service,networkpolicy", "-o", "name"];
    let left = namespace.kubectl(&kinds, "").await;
    assert!(!left.contains(&name), "{left}");
    let id = started.id("v");
    started
        .world
        .until(|snapshot| snapshot.find(&id).is_none())
        .await;
    volume.delete().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unused_viewer_is_scaled_to_zero_and_wakes_when_it_is_opened() {
    let started = Viewers::start("group:phusers", "idle_after = \"1s\"\n").await;
    let (world, namespace) = (&started.world, started.namespace());
    let volume = BoundVolume::bind(namespace, "data", "ReadWriteOnce").await;
    let (path, id) = (started.path("v"), started.id("v"));
    apply(namespace, "v", "data").await;
    world.until(|snapshot| snapshot.find(&id).is_some()).await;
    let mut alice = world.signed_in("alice").await;
    // A person who waits for the page uses the viewer: it may be idle before its pod is ready.
    let opened = holds_within(POD_PATIENCE, async || {
        alice.open(&path).await.status() == 200
    });
    assert!(opened.await, "{}", alice.open(&path).await.text());

    // The gateway's clock stands still, so its uses grow old only here.
    world.manual_clock.advance(Duration::from_secs(5));
    let message = started.controlled.until_stopped("v", "Idle").await;
    assert_eq!(message, "not used for 1 s");
    let is_down = |deployment: &kube::api::DynamicObject| deployment.data["spec"]["replicas"] == 0;
    started.controlled.until_deployment("v", is_down).await;
    let is_idle = |snapshot: &ludgate::catalog::snapshot::Snapshot| {
        let found = snapshot.find(&id);
        found.is_some_and(|app| app.spec.state == AppState::Idle)
    };
    world.until(is_idle).await;

    // A caller without access does not wake it.
    assert_eq!(world.browser().sign_in(&path, "bob").await.status(), 403);
    let starting = alice.open(&path).await;
    assert_eq!(starting.status(), 503);
    assert!(starting.text().contains("starting"), "{}", starting.text());
    let opened = holds_within(POD_PATIENCE, async || {
        alice.open(&path).await.status() == 200
    });
    assert!(opened.await, "{}", alice.open(&path).await.text());
    volume.delete().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_viewer_without_networking_has_no_service() {
    let controlled = viewer_controller("").await;
    let spec = |networking| json!({ "pvc": "data", "networking": networking });
    controlled
        .start_viewer("v", spec(json!({ "targetPort": 80 })))
        .await;
    controlled.child::<Service>("v").await.expect("a Service");
    controlled.start_viewer("v", spec(json!({}))).await;
    let services = kind_of::<Service>();
    controlled
        .namespace
        .until_gone(&services, &child("v"))
        .await;
}
