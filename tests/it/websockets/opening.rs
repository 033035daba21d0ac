//! Opening a WebSocket (docs/behaviour.md#websockets): the same decision as HTTP, then bytes both
//! ways.

use crate::support::{backend::accept_of, message::Message, raw::Raw, world::World};

const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";

fn handshake(world: &World, target: &str, more: &str) -> String {
    format!(
        "GET {target} HTTP/1.1\r\nHost: {}\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {KEY}\r\n{more}\r\n",
        world.host
    )
}

async fn open(world: &World, target: &str, more: &str) -> (Raw, Message) {
    let mut raw = world.raw().await;
    raw.send(handshake(world, target, more)).await;
    let head = raw
        .reader
        .message(false)
        .await
        .expect("readable")
        .expect("an answer");
    (raw, head)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_websocket_takes_the_same_decision_as_http_before_the_101() {
    let world = World::as_program("", "").await.ready().await;
    let alice = world.signed_in("alice").await;
    let bob = world.signed_in("bob").await;
    let own = format!("Origin: http://{}\r\n", world.host);
    for (cookies, origin, status) in [
        (String::new(), own.clone(), 401),
        (bob.cookie_line("/apps/grp/"), own.clone(), 403),
        (
            alice.cookie_line("/apps/grp/"),
            "Origin: http://evil.test\r\n".into(),
            403,
        ),
        (
            alice.cookie_line("/apps/grp/"),
            "Origin: null\r\n".into(),
            403,
        ),
        (alice.cookie_line("/apps/grp/"), String::new(), 403),
        (
            alice.cookie_line("/apps/grp/"),
            format!("Origin: https://{}\r\n", world.host),
            403,
        ),
        (
            alice.cookie_line("/apps/grp/"),
            "Origin: http://127.0.0.1\r\n".into(),
            403,
        ),
    ] {
        let (_, answer) = open(&world, "/apps/grp/ws", &format!("{cookies}{origin}")).await;
        assert_eq!(answer.status(), status, "{origin:?}");
        let is_missing = answer.text().contains("no Origin header");
        assert_eq!(is_missing, origin.is_empty(), "{}", answer.text());
    }
    assert_eq!(world.backend("grp").count(), 0);
    let (mut raw, head) = open(
        &world,
        "/apps/grp/ws",
        &format!("{}{own}", alice.cookie_line("/apps/grp/")),
    )
    .await;
    assert_eq!(head.status(), 101);
    assert_eq!(head.header("sec-websocket-accept"), Some(accept_of(KEY)));
    assert_eq!(
        head.all("set-cookie").len(),
        1,
        "the app's session comes with the 101"
    );
    raw.send(b"\x81\x85\x01\x02\x03\x04ifmmn").await;
    assert_eq!(
        raw.reader.some().await.expect("bytes"),
        b"\x81\x85\x01\x02\x03\x04ifmmn",
        "byte for byte"
    );
    let seen = world.backend("grp").last();
    assert_eq!(
        (
            seen.header("connection").as_deref(),
            seen.header("upgrade").as_deref()
        ),
        (Some("Upgrade"), Some("websocket"))
    );
    assert_eq!(
        (
            seen.header("cookie"),
            seen.header("x-forwarded-user").as_deref()
        ),
        (None, Some("alice"))
    );
    drop(raw);
    world.check_oracles().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bearer_token_opens_a_websocket_from_anywhere() {
    let world = World::as_program("", "").await.ready().await;
    let token = world.provider.access_token("alice");
    let (_, head) = open(
        &world,
        "/apps/grp/ws",
        &format!("Authorization: Bearer {token}\r\nOrigin: http://evil.test\r\n"),
    )
    .await;
    assert_eq!(head.status(), 101);
}

#[tokio::test(flavor = "multi_thread")]
async fn hop_by_hop_headers_of_a_101_stay_with_the_app() {
    let world = World::as_program("", "").await;
    let (_, head) = open(&world, "/apps/pub/ws-data", "").await;
    assert_eq!(head.status(), 101);
    assert_eq!((head.header("x-hop"), head.header("alt-svc")), (None, None));
    assert_eq!(head.all("connection"), ["Upgrade"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_app_s_valid_101_opens_the_tunnel() {
    let world = World::as_program("", "").await;
    let smuggled = format!(
        "GET /apps/pub/smuggled HTTP/1.1\r\nHost: {}\r\n\r\n",
        world.host
    );
    for (script, status) in [
        ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nno", 200),
        ("HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n", 403),
        (
            "HTTP/1.1 426 Upgrade Required\r\nContent-Length: 0\r\n\r\n",
            426,
        ),
        (
            "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: wrong\r\n\r\n",
            502,
        ),
        (
            "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n",
            502,
        ),
    ] {
        world.backend("pub").script(script.as_bytes().to_vec());
        let mut raw = world.raw().await;
        raw.send(format!(
            "{}{smuggled}",
            handshake(&world, "/apps/pub/x", "")
        ))
        .await;
        assert_eq!(
            raw.answer().await.expect("an answer").status(),
            status,
            "{script:?}"
        );
    }
    for seen in world.backend("pub").seen() {
        let is_own_request = seen.target().ends_with("/smuggled");
        assert!(
            is_own_request || !String::from_utf8_lossy(&seen.raw).contains("smuggled"),
            "{seen:?}"
        );
        assert_eq!(seen.header("upgrade").is_some(), !is_own_request);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn only_a_well_formed_app_websocket_is_one() {
    let world = World::as_program("", "").await;
    for (fields, status) in [
        (
            "Connection: Upgrade\r\nUpgrade: h2c\r\nHTTP2-Settings: x\r\n",
            200,
        ),
        ("Upgrade: websocket\r\n", 200),
        ("Connection: Upgrade\r\nUpgrade: websocket\r\n", 400),
        (
            "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 8\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n",
            400,
        ),
        (
            "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: short\r\n",
            400,
        ),
        (
            "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nContent-Length: 1\r\n",
            400,
        ),
        (
            "Connection: Upgrade\r\nUpgrade: websocket, h2c\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n",
            400,
        ),
    ] {
        let answer = world
            .exchange(&format!(
                "GET /apps/pub/x HTTP/1.1\r\nHost: HOST\r\n{fields}\r\nx"
            ))
            .await;
        assert_eq!(answer.status(), status, "{fields:?}");
    }
    assert!(
        world
            .backend("pub")
            .seen()
            .iter()
            .all(|seen| seen.header("upgrade").is_none())
    );
}
