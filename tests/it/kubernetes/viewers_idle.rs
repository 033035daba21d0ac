//! Viewers that are scaled to zero while they are unused: what wakes them, and what does not.

use std::time::Duration;

use http::Request;
use ludgate::{
    commands::explain::explain,
    model::{
        app::AppState,
        caller::{Caller, Credential},
        principal::{PersonClaims, Principal},
    },
};
use serde_json::{Value, json};

use super::viewers::{accepted, networking, viewer};
use crate::support::{
    browser::From,
    kubernetes_api::{HUB, KubernetesApi, SLICES, VIEWERS},
    world::{ADMIN_TOKEN, World},
};

const PATH: &str = "/pvcviewers/hub/v/";

/// A viewer with this condition, or none.
fn with_condition(condition: Option<&str>) -> Value {
    let conditions = condition.map(|kind| {
        json!({ "type": kind, "status": "True", "reason": "R", "message": format!("is {kind}") })
    });
    let conditions: Vec<Value> = conditions.into_iter().collect();
    viewer("v", networking(), accepted(HUB, "v", json!(conditions)))
}

/// A gateway with an idle viewer.
async fn idle(access: &str) -> (KubernetesApi, World) {
    let api = KubernetesApi::start().await;
    api.put(VIEWERS, HUB, with_condition(Some("Idle")));
    let more = format!("viewers = {{ access = \"{access}\" }}");
    let world = api.world(&more).await.ready().await;
    until_state(&world, AppState::Idle).await;
    (api, world)
}

async fn until_state(world: &World, state: AppState) {
    world
        .until(|snapshot| {
            let found = snapshot.find("hub/v");
            found.is_some_and(|app| app.spec.state == state)
        })
        .await;
}

/// The seconds since the viewer was used, if it was in the last hour.
async fn used(world: &World) -> Option<f64> {
    let token = format!("Authorization: Bearer {ADMIN_TOKEN}\r\n");
    let report = world.admin("/activity?within=3600", &token).await.json();
    let apps = report["apps"].as_array().expect("a list");
    let found = apps.iter().find(|app| app["id"] == "hub/v")?;
    Some(found["used_s"].as_f64().expect("a number"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_permitted_request_to_an_idle_viewer_is_a_use_and_gets_the_starting_page() {
    let (api, world) = idle("group:phusers").await;
    let mut bob = world.signed_in("bob").await;
    assert_eq!(bob.open(PATH).await.status(), 403);
    assert_eq!(world.browser().open(PATH).await.status(), 302);
    assert_eq!(used(&world).await, None, "nobody who may has asked");
    let mut alice = world.signed_in("alice").await;
    let page = alice.open(PATH).await;
    assert_eq!(page.status(), 503);
    assert_eq!(page.header("retry-after").as_deref(), Some("3"));
    let text = page.text();
    assert!(text.contains("The app is starting"), "{text}");
    assert!(text.contains("because it was not used"), "{text}");
    assert!(text.contains("setTimeout(look"), "the page waits: {text}");
    assert_eq!(used(&world).await, Some(0.0));
    world.manual_clock.advance(Duration::from_secs(7));
    assert_eq!(used(&world).await, Some(7.0));
    let told = alice.send("GET", PATH, From::Program, "", b"").await;
    assert_eq!(
        (told.status(), &told.json()["reason"]),
        (503, &json!("idle"))
    );
    assert_eq!(used(&world).await, Some(0.0));
    // The controller starts it: no condition, then a pod.
    api.put(VIEWERS, HUB, with_condition(None));
    until_state(&world, AppState::Starting).await;
    world.manual_clock.advance(Duration::from_secs(3));
    let told = alice.send("GET", PATH, From::Program, "", b"").await;
    assert_eq!(told.json()["reason"], "starting");
    assert_eq!(used(&world).await, Some(0.0), "who waits uses it");
    let slice = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": { "name": "v-1", "labels": { "kubernetes.io/service-name": "pvcviewer-v" } },
        "addressType": "IPv4",
        "endpoints": [{ "addresses": ["192.0.2.1"], "conditions": { "ready": true } }],
        "ports": [{ "name": "metrics", "port": 9090 }, { "name": "http", "port": 8080 }],
    });
    api.put(SLICES, HUB, slice);
    until_state(&world, AppState::Running).await;
    let snapshot = world.running.internals().snapshot();
    let app = snapshot.find("hub/v").expect("published");
    assert_eq!(app.spec.timeout, Duration::from_secs(30));
    let unused = app.activity.unused(world.running.internals().now());
    assert_eq!(unused, Some(Duration::ZERO), "kept by the changed app");
}

#[tokio::test(flavor = "multi_thread")]
async fn anonymous_requests_wake_an_idle_viewer_at_a_bounded_rate_only() {
    let (_api, world) = idle("public").await;
    let seconds = Duration::from_secs;
    for (advanced, since_use) in [(0, 0.0), (1, 1.0), (8, 9.0), (1, 0.0), (9, 9.0), (1, 0.0)] {
        world.manual_clock.advance(seconds(advanced));
        let told = world.browser().fetch(PATH).await;
        assert_eq!(
            (told.status(), &told.json()["reason"]),
            (503, &json!("idle"))
        );
        assert_eq!(used(&world).await, Some(since_use));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_condition_has_its_answer_and_explain_gives_the_same() {
    let (api, world) = idle("group:phusers").await;
    let mut alice = world.signed_in("alice").await;
    for (condition, state, reason) in [
        (Some("Idle"), AppState::Idle, "idle"),
        (Some("VolumeInUse"), AppState::Stopped, "stopped"),
        (Some("Invalid"), AppState::Failed, "failed"),
        (None, AppState::Starting, "starting"),
        (Some("PodSpecRejected"), AppState::Failed, "failed"),
    ] {
        api.put(VIEWERS, HUB, with_condition(condition));
        until_state(&world, state).await;
        let told = alice.send("GET", PATH, From::Program, "", b"").await;
        assert_eq!(told.status(), 503, "{condition:?}");
        assert_eq!(told.json()["reason"], reason, "{condition:?}");
        let message = condition.map(|kind| format!("is {kind}"));
        assert_eq!(told.json()["message"].as_str(), message.as_deref());
        let snapshot = world.running.internals().snapshot();
        let request = Request::builder().uri(PATH).header("host", &world.host);
        let parts = request.body(()).expect("a request").into_parts().0;
        let explained = explain(&parts, alice_as_caller(), &snapshot, |arrival| {
            snapshot.at(&arrival.vhost)
        });
        assert_eq!((explained.status, explained.reason), (Some(503), reason));
        assert!(explained.text.contains("app hub/v"), "{}", explained.text);
    }
}

fn alice_as_caller() -> Caller {
    let group = ludgate::model::access::GroupName::new("phusers");
    let claims = PersonClaims {
        subject: "alice".into(),
        groups: group.into_iter().collect(),
        ..PersonClaims::default()
    };
    Caller::Person {
        principal: std::sync::Arc::new(Principal::new(claims, &[])),
        credential: Credential::Bearer,
    }
}
