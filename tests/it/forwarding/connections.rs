//! Connections to apps: reused, retried where that is safe, closed with their client.

use serde_json::json;

use crate::support::{message::Message, raw::Raw, until::until, world::World};

/// One request on this connection and its answer; `rest` is what follows the Host line.
async fn exchange(raw: &mut Raw, world: &World, start: &str, rest: &str) -> Message {
    let host = &world.host;
    raw.send(format!("{start} HTTP/1.1\r\nHost: {host}\r\n{rest}"))
        .await;
    raw.answer().await.expect("an answer")
}

async fn get(raw: &mut Raw, world: &World, target: &str) -> Message {
    exchange(raw, world, &format!("GET {target}"), "\r\n").await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_safe_request_on_a_connection_that_just_died_is_sent_once_more_and_a_post_never() {
    let world = World::new().await;
    let backend = world.backend("pub");
    let mut raw = world.raw().await;
    for round in 0..20 {
        // Keep-alive on one client connection, so that one data thread and its pool serve it.
        let warm = get(&mut raw, &world, "/apps/pub/warm").await;
        assert_eq!(warm.status(), 200, "{round}");
        let before = backend.count();
        let answer = get(&mut raw, &world, "/apps/pub/close").await;
        // The first died on a used connection and was repeated on a new one, which died too: never
        // a third.
        assert_eq!(
            (answer.status(), backend.count() - before),
            (502, 2),
            "{round}"
        );
        let warm = get(&mut raw, &world, "/apps/pub/warm").await;
        assert_eq!(warm.status(), 200, "{round}");
        let before = backend.count();
        let post = "POST /apps/pub/close";
        let answer = exchange(&mut raw, &world, post, "Content-Length: 1\r\n\r\nx").await;
        assert_eq!(
            (answer.status(), backend.count() - before),
            (502, 1),
            "{round}: a POST is never sent twice"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_to_an_app_are_kept_and_reused() {
    let world = World::new().await;
    let mut raw = world.raw().await;
    for _ in 0..50 {
        let answer = get(&mut raw, &world, "/apps/pub/x").await;
        assert_eq!(answer.status(), 200);
    }
    assert_eq!(
        world.backend("pub").connections(),
        1,
        "fifty requests, one connection"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_is_reused_after_chunks_and_an_http_1_0_app_does_not_lower_our_version() {
    let world = World::new().await;
    let mut raw = world.raw().await;
    for _ in 0..20 {
        let answer = get(&mut raw, &world, "/apps/pub/chunked").await;
        assert_eq!(answer.text(), "abcdef");
    }
    assert_eq!(world.backend("pub").connections(), 1);
    world
        .backend("pub")
        .script(b"HTTP/1.0 200 OK\r\nConnection: close\r\n\r\nold".to_vec());
    let answer = world
        .exchange("GET /apps/pub/x HTTP/1.1\r\nHost: HOST\r\n\r\n")
        .await;
    assert!(
        answer.start.starts_with("HTTP/1.1 200") && answer.text() == "old",
        "{answer:?}"
    );
    assert!(
        answer.header("transfer-encoding").is_some(),
        "its end can be seen"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_goes_away_is_noticed_and_logged_while_its_answer_is_awaited() {
    let world = World::new().await;
    let mut raw = world.raw().await;
    raw.send(format!(
        "GET /apps/pub/hang HTTP/1.1\r\nHost: {}\r\n\r\n",
        world.host
    ))
    .await;
    let inside = world.running.internals();
    until("the app is connected", || inside.upstream_connections() > 0).await;
    drop(raw);
    let is_over = || inside.upstream_connections() == 0 && inside.requests_in_flight() == 0;
    until("the request is over", is_over).await;
    let line = world.log.line_with("/apps/pub/hang").await;
    let logged = ["status", "decision", "reason", "outcome"].map(|field| &line[field]);
    assert_eq!(
        logged,
        [
            &json!(499),
            &json!("allow"),
            &json!("public"),
            &json!("client_closed")
        ]
    );
    let seen = world.backend("pub").seen();
    assert_eq!(
        seen[0].all("x-request-id"),
        [line["request_id"].as_str().expect("an id")]
    );
}
