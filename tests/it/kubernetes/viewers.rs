//! PVCViewers of a Kubernetes API: where they are published, their access rules, what apps get.

use std::collections::HashMap;

use ludgate::model::app::{AppState, Upstream, UpstreamScheme};
use serde_json::{Value, json};

use crate::support::{
    backend::Backend,
    browser::{Browser, From},
    kubernetes_api::{KubernetesApi, NAMESPACES, RequestKind, VIEWERS, problems},
    world::World,
};

/// Two namespaces. alice is a member of the group of the first one; the group of the second has no
/// member.
const MEMBERS: &str =
    "namespaces = [\"phusers\", \"lab\"]\nviewers = { access = \"group:{namespace}\" }";

/// A viewer as its author and its controller write it.
pub(super) fn viewer(name: &str, networking: Value, status: Value) -> Value {
    json!({
        "apiVersion": "kubeflow.org/v1alpha1", "kind": "PVCViewer",
        "metadata": { "name": name },
        "spec": { "pvc": "data", "rwoScheduling": true, "networking": networking },
        "status": status,
    })
}

/// Networking as Kubeflow's web app writes it.
pub(super) fn networking() -> Value {
    json!({ "targetPort": 8080, "basePrefix": "/pvcviewers", "rewrite": "/", "timeout": "30s" })
}

/// The status of a viewer that the controller has accepted.
pub(super) fn accepted(namespace: &str, name: &str, conditions: Value) -> Value {
    let url = format!("/pvcviewers/{namespace}/{name}/");
    json!({ "ready": false, "url": url, "conditions": conditions })
}

/// Has the viewer's requests go to a recording app: the address of a pod is never one of the
/// gateway's own machine.
fn lead_to(world: &World, id: &str, backend: &Backend) {
    let inside = world.running.internals();
    let now = inside.snapshot();
    let specs = now.apps().map(|app| {
        let mut spec = app.spec.clone();
        if app.id().as_str() == id {
            spec.state = AppState::Running;
            spec.upstream = Upstream {
                scheme: UpstreamScheme::Http,
                host: backend.address().ip().to_string().into(),
                port: backend.address().port(),
            };
        }
        spec
    });
    let specs: Vec<_> = specs.collect();
    inside.publish(now.followed_by(specs, Vec::new(), HashMap::new()));
}

async fn world_with_viewer() -> (KubernetesApi, World) {
    let api = KubernetesApi::start().await;
    let status = accepted("phusers", "v", json!([]));
    api.put(VIEWERS, "phusers", viewer("v", networking(), status));
    let world = api.world(MEMBERS).await.ready().await;
    assert!(
        world
            .running
            .internals()
            .snapshot()
            .find("phusers/v")
            .is_some()
    );
    (api, world)
}

/// The path of the session's cookie of each app that a browser has.
fn session_paths(browser: &Browser) -> Vec<&str> {
    let cookies = browser.jar.keys();
    cookies
        .filter(|(name, _)| name == "phapplication-session-id")
        .map(|(_, path)| path.as_str())
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_viewer_is_for_those_whom_the_rule_of_its_namespace_admits() {
    let (_api, world) = world_with_viewer().await;
    let backend = Backend::start("viewer").await;
    lead_to(&world, "phusers/v", &backend);
    let path = "/pvcviewers/phusers/v/";
    assert_eq!(world.browser().open(path).await.status(), 302);
    assert_eq!(world.browser().fetch(path).await.status(), 401);
    let mut bob = world.signed_in("bob").await;
    assert_eq!(bob.open(path).await.status(), 403);
    assert_eq!(backend.count(), 0);
    let mut alice = world.signed_in("alice").await;
    let page = alice.open("/pvcviewers/phusers/v/files/a%2Fb?x=/y").await;
    assert_eq!(page.status(), 200, "{}", page.text());
    let seen = backend.last();
    assert_eq!(seen.target(), "/files/a%2Fb?x=/y");
    assert_eq!(
        seen.header("x-forwarded-prefix").as_deref(),
        Some("/pvcviewers/phusers/v")
    );
    assert!(
        alice
            .open("/apps/")
            .await
            .text()
            .contains("data in phusers"),
        "the launcher shows it to her"
    );
    let other = bob.open("/apps/").await.text();
    assert!(!other.contains("data in phusers"), "and not to him");
}

#[tokio::test(flavor = "multi_thread")]
async fn cookies_of_a_viewer_stay_below_its_path_and_its_session_ends_with_the_sign_out() {
    let (_api, world) = world_with_viewer().await;
    let backend = Backend::start("viewer").await;
    lead_to(&world, "phusers/v", &backend);
    let path = "/pvcviewers/phusers/v/";
    let mut alice = world.signed_in("alice").await;
    assert_eq!(alice.open(&format!("{path}cookies")).await.status(), 200);
    assert_eq!(session_paths(&alice), ["/apps/usr/", path]);
    assert!(alice.jar.contains_key(&("own".to_owned(), path.to_owned())));
    let before = alice.clone();
    let done = alice.sign_out().await;
    assert_eq!(done.status(), 200, "{}", done.text());
    assert!(session_paths(&alice).is_empty(), "{:?}", alice.jar);
    let again = before.clone().fetch(path).await;
    assert_eq!(again.status(), 401, "with every cookie of before");
}

#[tokio::test(flavor = "multi_thread")]
async fn paths_of_viewers_are_matched_on_raw_bytes() {
    let (_api, world) = world_with_viewer().await;
    let mut alice = world.signed_in("alice").await;
    for (path, status, location) in [
        ("/pvcviewers/phusers/v/", 503, None),
        (
            "/pvcviewers/phusers/v?x=1",
            308,
            Some("/pvcviewers/phusers/v/?x=1"),
        ),
        ("/pvcviewers/phusers/", 302, Some("/apps/")),
        ("/pvcviewers/phusers", 302, Some("/apps/")),
        ("/pvcviewers/", 302, Some("/apps/")),
        ("/pvcviewers", 302, Some("/apps/")),
        ("/pvcviewers/phusers%2Fv/", 400, None),
        ("/pvcviewers/phusers/v%2F", 400, None),
        ("/pvcviewers/phusers/%76/", 400, None),
        ("/pvcviewers/phusers/v/../x/", 400, None),
        ("/pvcviewers/phusers/v/..%2fx/", 400, None),
        ("/pvcviewers/phusers/../phusers/v/", 400, None),
        ("/pvcviewers/phusers/v;x/", 400, None),
        ("/pvcviewers//v/", 404, None),
        ("/pvcviewers/phusers//v/", 404, None),
        ("/pvcviewers/Phusers/v/", 404, None),
        ("/pvcviewers/phusers/w/", 404, None),
        ("/pvcviewers/lab/v/", 404, None),
        ("//pvcviewers/phusers/v/", 404, None),
        ("/apps/phusers/v/", 404, None),
    ] {
        let answer = alice.send("GET", path, From::Program, "", b"").await;
        assert_eq!(answer.status(), status, "{path}");
        assert_eq!(answer.header("location").as_deref(), location, "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn only_what_the_controller_accepted_at_our_prefix_is_published() {
    let api = KubernetesApi::start().await;
    let elsewhere = json!({ "targetPort": 8080, "basePrefix": "/other" });
    let status = json!({ "ready": true, "url": "/other/phusers/other/" });
    api.put(
        VIEWERS,
        "phusers",
        viewer("other", elsewhere.clone(), status),
    );
    api.put(VIEWERS, "phusers", viewer("new", networking(), Value::Null));
    let status = json!({ "ready": true, "url": "/pvcviewers/lab/moved/" });
    api.put(VIEWERS, "phusers", viewer("moved", networking(), status));
    let world = api.world(MEMBERS).await;
    let mut listed = problems(&world).await;
    listed.sort();
    let objects: Vec<_> = listed.iter().map(|(object, ..)| object.as_str()).collect();
    assert_eq!(
        objects,
        ["PVCViewer phusers/moved", "PVCViewer phusers/other"]
    );
    assert!(listed[0].1.contains("status.url"), "{listed:?}");
    assert!(listed[1].1.contains("basePrefix"), "{listed:?}");
    for name in ["other", "new", "moved"] {
        let path = format!("/pvcviewers/phusers/{name}/");
        assert_eq!(world.browser().fetch(&path).await.status(), 404, "{name}");
    }
    let status = accepted("phusers", "new", json!([]));
    api.put(VIEWERS, "phusers", viewer("new", networking(), status));
    let is_published = |id: &'static str| {
        move |snapshot: &ludgate::catalog::snapshot::Snapshot| snapshot.find(id).is_some()
    };
    world.until(is_published("phusers/new")).await;
    let status = accepted("phusers", "new", json!([]));
    api.put(VIEWERS, "phusers", viewer("new", elsewhere, status));
    let is_gone = is_published("phusers/new");
    world.until(|snapshot| !is_gone(snapshot)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_label_of_the_namespace_names_the_group_at_each_moment() {
    let api = KubernetesApi::start().await;
    let namespace = |name: &str, labels: Value| json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name, "labels": labels } });
    let team = || json!({ "example.com/team": "phusers" });
    for (name, labels) in [("one", team()), ("two", json!({ "other": "phusers" }))] {
        api.put(NAMESPACES, name, namespace(name, labels));
        let status = accepted(name, "v", json!([]));
        api.put(VIEWERS, name, viewer("v", networking(), status));
    }
    let world = api
        .world("namespaces = [\"one\", \"two\"]\nviewers = { access = \"group:{label:example.com/team}\" }")
        .await
        .ready()
        .await;
    let listed = api.calls().into_iter();
    let mut listed = listed.filter(|call| call.kind == RequestKind::List(NAMESPACES));
    assert!(
        listed.all(|call| call.target.contains("fieldSelector=metadata.name%3D")),
        "a right for these namespaces alone suffices"
    );
    let mut alice = world.signed_in("alice").await;
    assert_eq!(alice.fetch("/pvcviewers/one/v/").await.status(), 503);
    assert_eq!(alice.fetch("/pvcviewers/two/v/").await.status(), 403);
    assert_eq!(
        world.browser().fetch("/pvcviewers/two/v/").await.status(),
        403,
        "a sign-in would not help"
    );
    let told = problems(&world).await;
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(told[0].0, "PVCViewer two/v");
    assert!(told[0].1.contains("no label \"example.com/team\""));
    api.put(NAMESPACES, "two", namespace("two", team()));
    world.until(|snapshot| snapshot.problems().is_empty()).await;
    assert_eq!(alice.fetch("/pvcviewers/two/v/").await.status(), 503);
    api.put(NAMESPACES, "one", namespace("one", json!({})));
    world
        .until(|snapshot| !snapshot.problems().is_empty())
        .await;
    assert_eq!(alice.fetch("/pvcviewers/one/v/").await.status(), 403);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_an_access_rule_nobody_may_open_a_viewer_and_without_the_table_none_is_read() {
    let api = KubernetesApi::start().await;
    let status = accepted("hub", "v", json!([]));
    api.put(VIEWERS, "hub", viewer("v", networking(), status));
    let world = api.world("viewers = {}").await.ready().await;
    let mut alice = world.signed_in("alice").await;
    assert_eq!(alice.fetch("/pvcviewers/hub/v/").await.status(), 403);
    let watches = api.count(RequestKind::List(VIEWERS));
    let other = api.world("").await.ready().await;
    let mut alice = other.signed_in("alice").await;
    assert_eq!(alice.fetch("/pvcviewers/hub/v/").await.status(), 404);
    assert_eq!(api.count(RequestKind::List(VIEWERS)), watches);
}
