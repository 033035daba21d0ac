//! `/activity` on the admin listener: when each app was used last.

use std::time::Duration;

use serde_json::Value;

use crate::support::{
    until::until_async,
    world::{ADMIN_TOKEN, World, with_operators},
};

/// The answer for this many seconds.
async fn activity(world: &World, within: &str) -> Value {
    let token = format!("Authorization: Bearer {ADMIN_TOKEN}\r\n");
    let path = format!("/activity?within={within}");
    world.admin(&path, &token).await.json()
}

/// The seconds since the last use of an app, if it was used.
async fn used(world: &World, within: &str, app: &str) -> Option<f64> {
    let report = activity(world, within).await;
    let apps = report["apps"].as_array().expect("a list");
    let found = apps.iter().find(|listed| listed["id"] == app)?;
    Some(found["used_s"].as_f64().expect("a number"))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_permitted_request_of_each_app_is_told_and_refused_ones_are_no_use() {
    let world = World::with("", with_operators).await.ready().await;
    assert_eq!(activity(&world, "60").await["apps"], Value::Array(vec![]));
    let mut bob = world.signed_in("bob").await;
    assert_eq!(bob.fetch("/apps/grp/x").await.status(), 403);
    assert_eq!(world.browser().fetch("/apps/his/x").await.status(), 401);
    assert_eq!(bob.fetch("/apps/his/x").await.status(), 200);
    assert_eq!(used(&world, "60", "grp").await, None);
    let is_over = async || used(&world, "60", "his").await == Some(0.0);
    until_async("the use is recorded", is_over).await;
    // The entry of a request that is over is dropped after its last byte.
    until_async("no request is open", async || {
        world.running.internals().requests_in_flight() == 0
    })
    .await;
    world.manual_clock.advance(Duration::from_secs(30));
    assert_eq!(used(&world, "60", "his").await, Some(30.0));
    assert_eq!(used(&world, "30", "his").await, Some(30.0));
    assert_eq!(used(&world, "29.9", "his").await, None);
    let observed = activity(&world, "0").await["observed_s"].as_f64();
    assert_eq!(observed, Some(30.0));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_open_websocket_is_a_use_until_it_is_closed() {
    let world = World::with("", with_operators).await;
    let mut socket = world.raw().await;
    socket
        .send(format!(
            "GET /apps/pub/ws HTTP/1.1\r\nHost: {}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
            world.host
        ))
        .await;
    assert_eq!(socket.answer().await.expect("an answer").status(), 101);
    world.manual_clock.advance(Duration::from_secs(600));
    assert_eq!(used(&world, "60", "pub").await, Some(0.0));
    drop(socket);
    until_async("the tunnel is closed", async || {
        world.running.internals().requests_in_flight() == 0
    })
    .await;
    world.manual_clock.advance(Duration::from_secs(10));
    assert_eq!(used(&world, "60", "pub").await, Some(10.0));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_report_needs_the_token_and_a_time() {
    let world = World::with("", with_operators).await;
    assert_eq!(world.admin("/activity?within=60", "").await.status(), 401);
    let token = format!("Authorization: Bearer {ADMIN_TOKEN}\r\n");
    for path in ["/activity", "/activity?within=1m", "/activity?within=-1"] {
        assert_eq!(world.admin(path, &token).await.status(), 400, "{path}");
    }
    let closed = World::new().await;
    assert_eq!(
        closed.admin("/activity?within=60", "").await.status(),
        404,
        "without a token file the route does not exist"
    );
}
