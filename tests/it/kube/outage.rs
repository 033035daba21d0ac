//! The API server goes away while people work: sessions and routes go on, nothing opens, and all is
//! well again by itself.

use std::time::Duration;

use super::namespace::Namespace;
use crate::support::{api_relay::ApiRelay, message::PATIENCE, world::World};
use serde_json::json;

async fn status(world: &World, app: &str) -> u16 {
    world
        .exchange(&format!("GET /apps/{app}/ HTTP/1.1\r\nHost: HOST\r\n\r\n"))
        .await
        .status()
}

#[tokio::test(flavor = "multi_thread")]
async fn while_the_api_server_is_away_everything_goes_on_as_it_was_and_catches_up_afterwards() {
    let namespace = Namespace::new().await;
    let relay = ApiRelay::insert(&namespace.kubeconfig()).await;
    let open = namespace.running("open", 0).await;
    namespace.running("team", 1).await;
    namespace.app("open", "public", json!({})).await;
    namespace.app("team", "group", json!({})).await;
    let world = namespace.world().await;
    let mut alice = world.signed_in("alice").await;
    assert_eq!(alice.open("/apps/team/").await.status(), 200);
    relay.cut().await;
    // Written while the gateway gets no events.
    namespace.app("open", "group", json!({})).await;
    namespace.app("new", "public", json!({})).await;
    namespace.delete("team").await;
    world.manual_clock.advance(Duration::from_secs(25 * 60));
    for _ in 0..20 {
        assert_eq!(status(&world, "open").await, 200, "as last known");
        assert_eq!(status(&world, "team").await, 401, "nothing opens");
        assert_eq!(status(&world, "new").await, 404);
        assert_eq!(
            alice.open("/apps/team/").await.status(),
            200,
            "her session goes on"
        );
    }
    let mut carol = world.browser();
    assert_eq!(
        carol.sign_in("/apps/usr/", "carol").await.status(),
        200,
        "people can still sign in"
    );
    assert_eq!(
        world.admin("/readyz", "").await.status(),
        200,
        "ready, with the last state"
    );
    let age = async || {
        let metrics = world.admin("/metrics", "").await.text();
        let line = metrics
            .lines()
            .find(|line| line.starts_with("ludgate_catalog_age_seconds "))
            .expect("a metric")
            .to_owned();
        line.rsplit(' ')
            .next()
            .and_then(|age| age.parse::<f64>().ok())
            .expect("a number")
    };
    let told = tokio::time::timeout(PATIENCE, async { while age().await < 1500.0 {} }).await;
    assert!(
        told.is_ok(),
        "the age of the catalogue is told: {}",
        age().await
    );
    relay.mend();
    world
        .until(|snapshot| snapshot.find("new").is_some() && snapshot.find("team").is_none())
        .await;
    assert_eq!(
        status(&world, "open").await,
        401,
        "the rule that was written meanwhile"
    );
    assert_eq!(alice.open("/apps/team/").await.status(), 404);
    assert_eq!(open.count(), 20);
    let told = tokio::time::timeout(PATIENCE, async { while age().await > 1000.0 {} }).await;
    assert!(told.is_ok(), "and is young again: {}", age().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_that_starts_without_the_api_server_is_not_ready_and_recovers() {
    let namespace = Namespace::new().await;
    let relay = ApiRelay::insert(&namespace.kubeconfig()).await;
    namespace.running("open", 0).await;
    namespace.app("open", "public", json!({})).await;
    relay.cut().await;
    let world = World::with(&namespace.toml(), |_| {}).await.ready().await;
    assert_eq!(world.admin("/readyz", "").await.status(), 503);
    let unknown = world
        .exchange("GET /apps/open/ HTTP/1.1\r\nHost: HOST\r\nAccept: application/json\r\n\r\n")
        .await;
    assert_eq!(
        (unknown.status(), unknown.json()["reason"].as_str()),
        (503, Some("catalog_unavailable"))
    );
    assert_eq!(
        status(&world, "pub").await,
        200,
        "apps of the file are there"
    );
    relay.mend();
    world.until(|snapshot| snapshot.is_complete()).await;
    assert_eq!(status(&world, "open").await, 200);
    assert_eq!(world.admin("/readyz", "").await.status(), 200);
}
