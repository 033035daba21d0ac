//! `limits.connections` and `limits.connections_per_client`: up to the limit and not one more, and
//! one more when one has ended. A connection over the limit is closed without an answer; the others
//! are not affected.

use crate::support::{
    message::{Message, PATIENCE},
    raw::Raw,
    world::World,
};

const LIMIT: usize = 6;

async fn connect_and_get(world: &World, source: &str) -> Option<(Raw, Message)> {
    let mut raw = Raw::connect_from(source, world.running.address).await;
    raw.send(format!(
        "GET /apps/pub/ HTTP/1.1\r\nHost: {}\r\n\r\n",
        world.host
    ))
    .await;
    let answer = raw.answer().await?;
    Some((raw, answer))
}

/// Takes as many connections as there may be, and sees that there is not one more.
async fn fill(world: &World, source: &str) -> Vec<Raw> {
    let mut held = Vec::new();
    for _ in 0..LIMIT {
        let (raw, answer) = connect_and_get(world, source)
            .await
            .expect("below the limit");
        assert_eq!(answer.status(), 200);
        held.push(raw);
    }
    for _ in 0..3 {
        assert!(
            connect_and_get(world, source).await.is_none(),
            "over the limit"
        );
    }
    held
}

/// Waits for a seat that is being given back.
async fn again(world: &World, source: &str) -> Raw {
    let asked = async {
        loop {
            if let Some((raw, _)) = connect_and_get(world, source).await {
                return raw;
            }
        }
    };
    tokio::time::timeout(PATIENCE, asked)
        .await
        .expect("one was given back")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_has_its_limit_and_the_next_when_one_ends() {
    let world = World::with(
        &format!("[limits]\nconnections_per_client = {LIMIT}\n"),
        |_| {},
    )
    .await;
    let mut held = fill(&world, "127.0.0.3").await;
    world
        .until_counted("ludgate_connections_refused_total{reason=\"limit_per_client\"} 3")
        .await;
    world
        .until_counted(&format!("ludgate_connections {LIMIT}"))
        .await;
    let others = fill(&world, "127.0.0.4").await;
    held.remove(2);
    held.push(again(&world, "127.0.0.3").await);
    assert!(
        connect_and_get(&world, "127.0.0.3").await.is_none(),
        "full again"
    );
    // Those who were in before are served as before.
    for raw in held.iter_mut() {
        raw.send(format!(
            "GET /apps/pub/ HTTP/1.1\r\nHost: {}\r\n\r\n",
            world.host
        ))
        .await;
        assert_eq!(raw.answer().await.map(|answer| answer.status()), Some(200));
    }
    drop((held, others));
    fill(&world, "127.0.0.5").await;
    world.check_oracles().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_websocket_is_one_of_its_clients_connections_until_it_ends() {
    let world = World::as_program("", "[limits]\nconnections_per_client = 1\n").await;
    let mut raw = Raw::connect_from("127.0.0.3", world.running.address).await;
    raw.send(format!(
        "GET /apps/pub/ws HTTP/1.1\r\nHost: {0}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nOrigin: http://{0}\r\n\r\n",
        world.host
    ))
    .await;
    assert_eq!(
        raw.reader
            .head()
            .await
            .expect("readable")
            .expect("a head")
            .status(),
        101
    );
    assert!(
        connect_and_get(&world, "127.0.0.3").await.is_none(),
        "the socket has the one seat"
    );
    drop(raw);
    again(&world, "127.0.0.3").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn all_together_have_their_limit_and_a_trusted_proxy_may_have_all_of_it() {
    let limits = format!("[limits]\nconnections = {LIMIT}\nconnections_per_client = 1\n");
    let world = World::with(&limits, |settings| {
        let proxy = vec!["127.0.0.3/32".parse().expect("a network")];
        settings.peers.trusted.clone_from(&proxy);
        settings.listen.trusted_proxies = proxy;
    })
    .await;
    let mut held = fill(&world, "127.0.0.3").await;
    assert!(
        connect_and_get(&world, "127.0.0.4").await.is_none(),
        "no connection is left"
    );
    world
        .until_counted("ludgate_connections_refused_total{reason=\"limit\"} 4")
        .await;
    held.pop();
    let other = again(&world, "127.0.0.4").await;
    assert!(
        connect_and_get(&world, "127.0.0.3").await.is_none(),
        "full again"
    );
    drop((held, other));
    again(&world, "127.0.0.4").await;
}
