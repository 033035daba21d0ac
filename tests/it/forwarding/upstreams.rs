//! Whatever an app listens on, it is reached in the same way (docs/behaviour.md#forwarding).

use crate::support::{
    backend::{Backend, accept_of},
    raw::Raw,
    tls_app::Authority,
    unix_app::Sockets,
    world::World,
};

pub const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";

/// A WebSocket handshake with an app of the world.
pub fn handshake(world: &World, target: &str) -> String {
    format!(
        "GET {target} HTTP/1.1\r\nHost: {}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {KEY}\r\n\r\n",
        world.host
    )
}

async fn plain(world: &World, id: &str, backend: &Backend) {
    let mut raw = world.raw().await;
    for round in 0..20 {
        let body = format!("{round} of {id}");
        raw.send(format!(
            "POST /apps/{id}/echo?a=%2F&b HTTP/1.1\r\nHost: {}\r\nContent-Length: {}\r\n\r\n{body}",
            world.host,
            body.len()
        ))
        .await;
        let answer = raw.answer().await.expect("an answer");
        assert_eq!((answer.status(), answer.text()), (200, body), "{id}");
        let seen = backend.last();
        assert_eq!(seen.target(), format!("/apps/{id}/echo?a=%2F&b"));
        assert_eq!(seen.all("host"), [world.host.as_str()], "{id}: kept");
    }
    assert_eq!(
        backend.connections(),
        1,
        "{id}: twenty requests, one connection"
    );
}

async fn chunked(world: &World, id: &str, backend: &Backend) {
    let request = format!(
        "POST /apps/{id}/echo HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n"
    );
    assert_eq!(world.exchange(&request).await.text(), "hello", "{id}");
    assert_eq!(backend.last().all("transfer-encoding"), ["chunked"], "{id}");
    let answer = world
        .exchange(&format!(
            "GET /apps/{id}/chunked HTTP/1.1\r\nHost: HOST\r\n\r\n"
        ))
        .await;
    assert_eq!(
        (answer.text().as_str(), answer.truncated),
        ("abcdef", false),
        "{id}"
    );
}

async fn events(world: &World, id: &str) {
    let mut raw = world.raw().await;
    raw.send(format!(
        "GET /apps/{id}/sse HTTP/1.1\r\nHost: {}\r\n\r\n",
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
        200,
        "{id}"
    );
    let first = raw
        .reader
        .some()
        .await
        .expect("an event, although the app goes on");
    assert!(
        String::from_utf8_lossy(&first).contains("data: 1"),
        "{id}: {first:?}"
    );
}

async fn websocket(world: &World, id: &str) {
    let mut raw: Raw = world.raw().await;
    raw.send(handshake(world, &format!("/apps/{id}/ws"))).await;
    let head = raw.reader.head().await.expect("readable").expect("a head");
    assert_eq!(
        (head.status(), head.header("sec-websocket-accept")),
        (101, Some(accept_of(KEY))),
        "{id}"
    );
    for round in 0..3_u8 {
        let frame = [0x82, 0x84, 1, 2, 3, 4, b'a', b'b', b'c', round];
        raw.send(frame).await;
        assert_eq!(
            raw.reader.exactly(frame.len()).await.expect("an echo"),
            frame,
            "{id}: byte for byte"
        );
    }
}

/// What dies on a kept connection is sent once more when it is safe, and never otherwise.
async fn dying(world: &World, id: &str, backend: &Backend) {
    let mut raw = world.raw().await;
    for (method, more, times) in [
        ("GET", "", 2),
        ("POST", "Content-Length: 0\r\n", 1),
        ("HEAD", "", 2),
    ] {
        for (method, verb, more, status, times) in [
            ("GET", "warm", "", 200, 1),
            (method, "close", more, 502, times),
        ] {
            let before = backend.count();
            let host = &world.host;
            raw.send(format!(
                "{method} /apps/{id}/{verb} HTTP/1.1\r\nHost: {host}\r\n{more}\r\n"
            ))
            .await;
            let answer = raw
                .reader
                .message(method == "HEAD")
                .await
                .expect("readable")
                .expect("an answer");
            assert_eq!(
                (answer.status(), backend.count() - before),
                (status, times),
                "{id}: {method} {verb}"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn plain_chunked_events_and_websockets_over_tcp_unix_and_tls() {
    let (sockets, authority) = (Sockets::new(), Authority::new());
    let tcp = Backend::start("tcp").await;
    let tls = authority.sign(&["127.0.0.1"]).app("tls").await;
    let unix = sockets.app("unix");
    std::fs::write(sockets.path("ca.crt"), authority.pem()).expect("written");
    let apps = [
        (
            "tcp",
            format!("http://{}", tcp.address()),
            String::new(),
            tcp.clone(),
        ),
        ("unix", sockets.upstream("unix"), String::new(), unix),
        (
            "tls",
            format!("https://{}", tls.address()),
            format!("ca = \"{}\"", sockets.path("ca.crt").display()),
            tls.backend.clone(),
        ),
    ];
    let toml: String = apps
        .iter()
        .map(|(id, upstream, more, _)| {
            format!(
                "[[apps]]\nid = \"{id}\"\naccess = \"public\"\nupstream = \"{upstream}\"\n{more}\n"
            )
        })
        .collect();
    let mut world = World::as_program("", &toml).await;
    for (id, _, _, backend) in &apps {
        plain(&world, id, backend).await;
        chunked(&world, id, backend).await;
        events(&world, id).await;
        websocket(&world, id).await;
        dying(&world, id, backend).await;
    }
    for (id, _, _, backend) in apps {
        world = world.and_backend(id, backend);
    }
    world.check_oracles().await;
}
