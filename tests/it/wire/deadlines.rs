//! Deadlines (docs/behaviour.md#limits): what does not come when it is due ends what waits for it,
//! and nothing else; each is counted. Times are short configured ones; the tests wait for the
//! event.

use std::{net::SocketAddr, time::Duration};

use ludgate::settings::Settings;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

use crate::{
    forwarding::upstreams::handshake,
    support::{
        http2::{END_STREAM, Frames, GOAWAY, HEADERS, Http2, get, whole},
        message::PATIENCE,
        raw::Raw,
        until::in_time,
        world::World,
    },
};

/// Long enough for a machine that does much else between a connection and its first byte.
const SHORT: Duration = Duration::from_millis(500);

async fn world(change: impl FnOnce(&mut Settings)) -> World {
    World::with_threads(1, "", change).await
}

impl World {
    async fn missed(&self, deadline: &str, times: u32) {
        self.until_counted(&format!(
            "ludgate_deadlines_total{{deadline=\"{deadline}\"}} {times}"
        ))
        .await;
    }

    fn request(&self, target: &str) -> String {
        format!("GET {target} HTTP/1.1\r\nHost: {}\r\n\r\n", self.host)
    }
}

/// An app that reads a head, writes these bytes, and then neither reads nor writes nor closes.
async fn stuck_app(answer: &'static [u8]) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        let mut held = Vec::new();
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut head = vec![0; 16 * 1024];
            let _ = stream.read(&mut head).await;
            let _ = stream.write_all(answer).await;
            held.push(stream);
        }
    });
    address
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_says_nothing_is_closed_and_one_that_speaks_in_time_is_not() {
    let world = world(|settings| settings.listen.timeouts.first_byte = SHORT).await;
    let mut silent = world.raw().await;
    let mut speaking = world.raw().await;
    speaking.send("GET /apps/pub/x HTTP/1.1\r\n").await;
    assert!(silent.is_closed().await);
    world.missed("first_byte", 1).await;
    speaking.send(format!("Host: {}\r\n\r\n", world.host)).await;
    assert_eq!(
        speaking.answer().await.expect("an answer").status(),
        200,
        "the head has a time of its own"
    );
    world.check_oracles().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_head_that_comes_byte_by_byte_has_one_time_for_all_of_them() {
    let world = world(|settings| settings.listen.timeouts.head = SHORT).await;
    for first in [true, false] {
        let mut raw = world.raw().await;
        if !first {
            raw.send(world.request("/apps/pub/x")).await;
            assert_eq!(raw.answer().await.expect("an answer").status(), 200);
        }
        let trickle = async {
            raw.writer
                .write_all(b"GET /apps/pub/x HTTP/1.1\r\nX-A: ")
                .await
                .expect("written");
            while raw.writer.write_all(b"a").await.is_ok() {
                tokio::task::yield_now().await;
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(PATIENCE, trickle)
            .await
            .expect("closed");
    }
    world.missed("head", 2).await;
    assert_eq!(world.backend("pub").count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_without_a_request_is_closed_after_its_time_and_not_while_it_is_answered() {
    let world = world(|settings| settings.listen.timeouts.idle = SHORT).await;
    let mut busy = world.raw().await;
    busy.send(world.request("/apps/pub/hang")).await;
    let mut raw = world.raw().await;
    raw.send(world.request("/apps/pub/x")).await;
    assert_eq!(raw.answer().await.expect("an answer").status(), 200);
    assert!(raw.is_closed().await);
    world.missed("idle", 1).await;
    let answer = tokio::time::timeout(SHORT, busy.reader.some()).await;
    assert!(answer.is_err(), "still being answered");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_connection_of_http2_is_told_before_it_is_closed() {
    let world = world(|settings| {
        settings.listen.h2c = true;
        settings.listen.timeouts.idle_http2 = SHORT;
    })
    .await;
    let mut frames = Frames::connect(world.running.address).await;
    let host = world.host.clone();
    let head = [
        (":method", "GET"),
        (":scheme", "http"),
        (":path", "/apps/pub/x"),
        (":authority", &*host),
    ];
    frames.headers(1, END_STREAM, &head).await;
    assert_eq!(
        frames
            .until(|frame| frame.stream == 1)
            .await
            .expect("an answer")
            .kind,
        HEADERS
    );
    let last = frames
        .until(|frame| frame.kind == GOAWAY)
        .await
        .expect("a farewell");
    assert_eq!(last.code(), 0, "no error");
    world.missed("idle", 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_old_connection_ends_with_the_answer_under_way() {
    let world = world(|settings| {
        settings.listen.h2c = true;
        settings.listen.timeouts.age = SHORT;
    })
    .await;
    let mut raw = world.raw().await;
    raw.send(world.request("/apps/pub/x")).await;
    let mut answer = raw.answer().await.expect("an answer");
    // Until it is old, answers say nothing of it.
    let old = async {
        while answer.header("connection").is_none() {
            raw.send(world.request("/apps/pub/x")).await;
            answer = raw.answer().await.expect("an answer");
            assert_eq!(answer.status(), 200);
        }
    };
    in_time("the connection is old", old).await;
    assert_eq!(answer.header("connection").as_deref(), Some("close"));
    assert!(raw.is_closed().await);
    let client = Http2::connect(world.running.address).await;
    let events = client
        .send(
            get(&world, "/apps/pub/sse")
                .body(whole(""))
                .expect("a request"),
        )
        .await;
    let mut events = events.expect("an answer").into_body();
    let closed = async {
        while !client.0.is_closed()
            && client
                .send(
                    get(&world, "/apps/pub/x")
                        .body(whole(""))
                        .expect("a request"),
                )
                .await
                .is_ok()
        {}
    };
    tokio::time::timeout(PATIENCE, closed)
        .await
        .expect("no new requests");
    let first = http_body_util::BodyExt::frame(&mut events).await;
    assert!(first.expect("an event").is_ok(), "what was begun goes on");
    drop(events);
    world.check_oracles().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_stands_still_is_408_until_the_answer_has_begun() {
    let address =
        stuck_app(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n").await;
    let app =
        format!("[[apps]]\nid = \"early\"\naccess = \"public\"\nupstream = \"http://{address}\"\n");
    let world = World::with_threads(1, &app, |settings| settings.forward.body_gap = SHORT).await;
    for body in [
        "Content-Length: 100\r\n\r\nhalf",
        "Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n",
    ] {
        let mut raw = world.raw().await;
        raw.send(format!(
            "POST /apps/pub/echo HTTP/1.1\r\nHost: {}\r\n{body}",
            world.host
        ))
        .await;
        let answer = raw.answer().await.expect("an answer");
        assert_eq!(
            (answer.status(), answer.json()["reason"].as_str()),
            (408, Some("upload_stalled")),
            "{body:?}"
        );
        assert!(raw.is_closed().await);
        assert!(
            world.backend("pub").last().truncated,
            "the app sees that it is not whole"
        );
    }
    world.missed("body_gap", 2).await;
    let mut raw = world.raw().await;
    raw.send(format!(
        "POST /apps/early/ HTTP/1.1\r\nHost: {}\r\nContent-Length: 8\r\n\r\nhalf",
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
        200
    );
    let _ = raw.reader.some().await.expect("the beginning");
    let more = tokio::time::timeout(3 * SHORT, raw.reader.some()).await;
    assert!(
        more.is_err(),
        "who has its answer may take its time with the rest"
    );
    world.missed("body_gap", 2).await;
    world.check_oracles().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_stands_still_is_visibly_cut_and_events_are_not() {
    let stuck = stuck_app(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf").await;
    let chunks =
        stuck_app(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n").await;
    let events = stuck_app(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n").await;
    let toml = [("stuck", stuck), ("chunks", chunks), ("events", events)].map(|(id, address)| {
        format!("[[apps]]\nid = \"{id}\"\naccess = \"public\"\nupstream = \"http://{address}\"\n")
    });
    let world = World::with_threads(1, &toml.concat(), |settings| {
        settings.forward.response_gap = SHORT
    })
    .await;
    for app in ["stuck", "chunks"] {
        let answer = world
            .exchange(&world.request(&format!("/apps/{app}/")))
            .await;
        assert_eq!((answer.status(), answer.truncated), (200, true), "{app}");
    }
    world.missed("response_gap", 2).await;
    let mut raw = world.raw().await;
    raw.send(world.request("/apps/events/")).await;
    raw.reader.head().await.expect("readable").expect("a head");
    let _ = raw.reader.some().await.expect("the beginning");
    assert!(
        tokio::time::timeout(3 * SHORT, raw.reader.some())
            .await
            .is_err(),
        "events may be silent"
    );
    world.missed("response_gap", 2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_websocket_is_closed_and_one_in_use_is_not() {
    let world = world(|settings| settings.forward.stream_idle = 3 * SHORT).await;
    let mut raw = world.raw().await;
    raw.send(handshake(&world, "/apps/pub/ws")).await;
    assert_eq!(
        raw.reader
            .head()
            .await
            .expect("readable")
            .expect("a head")
            .status(),
        101
    );
    for _ in 0..5 {
        // A third of the time each, longer than that together.
        assert!(
            tokio::time::timeout(SHORT, raw.reader.some())
                .await
                .is_err(),
            "nothing by itself"
        );
        assert!(raw.carries().await);
    }
    assert_eq!(raw.farewell().await, Some(1001));
}

#[tokio::test(flavor = "multi_thread")]
async fn half_a_handshake_is_no_connection() {
    let folder = tempfile::tempdir().expect("a folder");
    let made =
        rcgen::generate_simple_self_signed(vec!["gw.test".to_owned()]).expect("a certificate");
    std::fs::write(folder.path().join("a.crt"), made.cert.pem()).expect("written");
    std::fs::write(
        folder.path().join("a.key"),
        made.signing_key.serialize_pem(),
    )
    .expect("written");
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let files = ludgate::listener::tls::CertificateFiles {
        certificate: folder.path().join("a.crt"),
        key: folder.path().join("a.key"),
    };
    let tls =
        ludgate::listener::tls::TlsSettings::from_files(vec![files], None).expect("a certificate");
    let world = world(|settings| {
        settings.listen.tls = tls;
        settings.listen.handshake = SHORT;
    })
    .await;
    for beginning in [&b""[..], b"\x16\x03\x01\x02\x00\x01\x00"] {
        let mut raw = Raw::connect(world.running.address).await;
        raw.send(beginning).await;
        assert!(raw.is_closed().await, "{beginning:?}");
    }
    world.missed("handshake", 2).await;
    let mut plain = TcpStream::connect(world.running.address)
        .await
        .expect("a connection");
    plain
        .write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        .await
        .expect("written");
    let mut said = Vec::new();
    let _ = in_time("the end", plain.read_to_end(&mut said)).await;
    assert!(!said.starts_with(b"HTTP"), "no HTTP without TLS: {said:?}");
    world
        .until_counted("ludgate_connections_refused_total{reason=\"handshake\"} 1")
        .await;
}
