//! The Kubernetes API is away, or silent: the last state stays in force, its age is told, and what
//! changed meanwhile takes effect right after (docs/behaviour.md#kubernetes).

use std::time::{Duration, Instant};

use serde_json::json;
use tokio::task::JoinSet;

use crate::support::{
    kubernetes_api::{
        ALWAYS, APPS, Fault, HUB, KubernetesApi, RequestKind, SLICES, decision, metric,
    },
    until::{assert_soon, until_async},
    world::World,
};

/// A revocation during the outage takes effect within this time after the reconnect.
const SOON: Duration = Duration::from_secs(5);

async fn changed(world: &World) {
    world
        .until(|snapshot| {
            snapshot
                .find("flip")
                .is_some_and(|app| app.spec.access.kind() == "group")
                && snapshot.find("goes").is_none()
        })
        .await;
    assert_eq!(decision(world, "flip").await, "401 anonymous");
    assert_eq!(decision(world, "goes").await, "404 unknown_app");
}

async fn with_two_apps() -> KubernetesApi {
    let api = KubernetesApi::start().await;
    api.app("flip", "public", json!({}));
    api.app("goes", "public", json!({}));
    api
}

fn change(api: &KubernetesApi) {
    api.app("flip", "group", json!({}));
    api.delete(APPS, HUB, "goes");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_narrowed_scope_and_a_deletion_bite_right_after_an_api_is_back_that_refused_connections()
{
    let api = with_two_apps().await;
    let world = api.world("").await;
    api.away().await;
    change(&api);
    for _ in 0..20 {
        assert_eq!(
            decision(&world, "flip").await,
            "503 starting",
            "as last known"
        );
        assert_eq!(
            decision(&world, "goes").await,
            "503 starting",
            "as last known"
        );
        assert_eq!(
            world.admin("/readyz", "").await.status(),
            200,
            "the last state serves"
        );
    }
    let back = Instant::now();
    api.back().await;
    changed(&world).await;
    assert_soon(SOON, back.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_long_outage_retries_are_prompt_whatever_retry_after_the_server_sends() {
    let mut tests = JoinSet::new();
    // The answers of a balancer with no server behind it; they ask to come back in an hour.
    for code in [503, 429] {
        tests.spawn(async move {
            let api = with_two_apps().await;
            let world = api.world("").await;
            let lists = api.count(RequestKind::List(APPS));
            for kind in [
                RequestKind::Watch(APPS),
                RequestKind::List(APPS),
                RequestKind::Discovery,
            ] {
                api.script(kind, ALWAYS, Fault::Status(code));
            }
            api.away().await;
            api.back().await;
            change(&api);
            // By now the pauses between two tries have grown to their full length.
            api.until_count(RequestKind::List(APPS), lists + 4).await;
            assert_eq!(
                decision(&world, "flip").await,
                "503 starting",
                "as last known"
            );
            let back = Instant::now();
            api.heal();
            changed(&world).await;
            assert_soon(SOON, back.elapsed());
        });
    }
    tests.join_all().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_api_that_takes_requests_and_is_silent_is_not_waited_for() {
    let silences = [
        (
            "a watch that is not answered",
            RequestKind::Watch(APPS),
            Fault::Hang,
        ),
        (
            "a list that is not answered",
            RequestKind::List(APPS),
            Fault::Hang,
        ),
        (
            "a list that stops",
            RequestKind::List(APPS),
            Fault::HangInside,
        ),
        (
            "a discovery that is not answered",
            RequestKind::Discovery,
            Fault::Hang,
        ),
        (
            "a discovery that stops",
            RequestKind::Discovery,
            Fault::HangInside,
        ),
    ];
    let mut tests = JoinSet::new();
    for (what, kind, fault) in silences {
        tests.spawn(async move {
            let api = with_two_apps().await;
            api.script(kind, 1, fault);
            // A watch lasts a second; a request without an answer for two is given up.
            let world = api.gateway("watch = \"1s\"").await;
            let begun = Instant::now();
            api.until_count(kind, 2).await;
            let given_up = begun.elapsed();
            assert!(given_up < Duration::from_secs(15), "{what}: {given_up:?}");
            world.until(|snapshot| snapshot.is_complete()).await;
            change(&api);
            changed(&world).await;
        });
    }
    tests.join_all().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_age_of_the_catalogue_is_that_of_what_is_known_for_longest() {
    let api = with_two_apps().await;
    let world = api.world("watch = \"1s\"").await;
    // Slices are still watched; for apps the gateway has lost the right to read.
    api.script(RequestKind::Watch(APPS), ALWAYS, Fault::Status(403));
    api.script(RequestKind::List(APPS), ALWAYS, Fault::Status(403));
    api.end_watches(APPS).await;
    let (apps, slices) = (
        api.count(RequestKind::List(APPS)),
        api.count(RequestKind::Watch(SLICES)),
    );
    world.manual_clock.advance(Duration::from_secs(100));
    api.until_count(RequestKind::List(APPS), apps + 1).await;
    api.until_count(RequestKind::Watch(SLICES), slices + 2)
        .await;
    until_age(&world, |age| age >= 100.0).await;
    assert_eq!(
        world.admin("/readyz", "").await.status(),
        200,
        "the last state serves"
    );
    api.heal();
    api.until_count(RequestKind::Watch(APPS), 3).await;
    until_age(&world, |age| age < 100.0).await;
}

/// Waits for an age of the catalogue; the gateway measures it once a second.
async fn until_age(world: &World, wanted: impl Fn(f64) -> bool) {
    until_async("the age of the catalogue", async || {
        wanted(metric(world, "ludgate_catalog_age_seconds").await)
    })
    .await;
}
