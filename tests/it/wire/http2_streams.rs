//! Streams of one HTTP/2 connection: WebSockets, resets, clients that take nothing.

use super::http2::h2c;
use crate::support::{
    http2::{self, END_STREAM, Frame, Frames, GOAWAY, HEADERS, Http2, RST_STREAM, get, whole},
    message::PATIENCE,
    until::{in_time, until, until_async},
    world::World,
};
use http::Request;
use http_body_util::BodyExt;
use hyper::body::Frame as BodyFrame;
use std::time::Duration;

/// Another request on the connection is served.
async fn still_serves(client: &Http2, world: &World) {
    let request = get(world, "/apps/pub/").body(whole(""));
    let answer = client.whole(request.expect("a request")).await;
    assert_eq!(answer.status(), 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_websocket_over_http2_is_one_of_http11_to_its_app() {
    let world = World::with("", h2c).await.ready().await;
    let alice = world.signed_in("alice").await;
    let client = Http2::connect(world.running.address).await;
    let cookies = alice.cookie_line("/apps/grp/");
    let cookie = cookies.trim().trim_start_matches("Cookie: ").to_owned();
    let connect = |cookie: &str, origin: &str, protocol: &'static str| {
        let mut request = Request::connect(format!("http://{}/apps/grp/ws", world.host))
            .header("sec-websocket-version", "13")
            .header("origin", origin);
        if !cookie.is_empty() {
            request = request.header("cookie", cookie);
        }
        request
            .extension(hyper::ext::Protocol::from_static(protocol))
            .body(whole(""))
            .expect("a request")
    };
    let own = format!("http://{}", world.host);
    for (cookie, origin, protocol, status) in [
        ("", own.as_str(), "websocket", 401),
        (&cookie, "http://evil.test", "websocket", 403),
        (&cookie, "null", "websocket", 403),
        (&cookie, &own, "connect-udp", 405),
    ] {
        let answer = client.whole(connect(cookie, origin, protocol)).await;
        assert_eq!(answer.status(), status, "{origin} {protocol}");
    }
    assert_eq!(world.backend("grp").count(), 0, "O5");
    let answer = client
        .send(connect(&cookie, &own, "websocket"))
        .await
        .expect("an answer");
    assert_eq!(answer.status(), 200);
    assert!(
        answer.headers().get("sec-websocket-accept").is_none()
            && answer.headers().get("upgrade").is_none()
    );
    let seen = world.backend("grp").last();
    assert_eq!(
        (seen.header("upgrade").as_deref(), seen.header("origin")),
        (Some("websocket"), Some(own.clone()))
    );
    let upgraded = hyper::upgrade::on(answer).await.expect("a tunnel");
    let mut tunnel = hyper_util::rt::TokioIo::new(upgraded);
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let frame = [0x82, 0x83, 1, 2, 3, 4, b'a', b'b', b'c'];
    let mut echo = [0; 9];
    tunnel.write_all(&frame).await.expect("written");
    let read = in_time("an echo", tunnel.read_exact(&mut echo)).await;
    read.expect("an echo");
    assert_eq!(echo, frame, "byte for byte");
    // It ends with its session, politely, and takes nothing else with it.
    let stream = client
        .send(
            get(&world, "/apps/pub/sse")
                .body(whole(""))
                .expect("a request"),
        )
        .await
        .expect("an answer");
    let sign_in = alice.value("ludgate").expect("a sign-in");
    let inside = world.running.internals();
    let sign_in = inside.sign_in(&sign_in);
    sign_in.expect("signed in").end();
    let mut rest = Vec::new();
    tokio::time::timeout(PATIENCE, tunnel.read_to_end(&mut rest))
        .await
        .expect("in time")
        .expect("ended");
    assert_eq!(rest.get(..4), Some(&[0x88, 23, 0x03, 0xf0][..]), "{rest:?}");
    let mut events = stream.into_body();
    assert!(
        events.frame().await.expect("an event").is_ok(),
        "the public stream goes on"
    );
    still_serves(&client, &world).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_session_ends_its_own_streams_and_no_other_on_the_same_connection() {
    let world = World::with("", h2c).await.ready().await;
    let alice = world.signed_in("alice").await;
    let client = Http2::connect(world.running.address).await;
    let cookie = alice
        .cookie_line("/apps/usr/")
        .trim()
        .trim_start_matches("Cookie: ")
        .to_owned();
    let events = |app: &str, cookie: &str| {
        get(&world, &format!("/apps/{app}/sse"))
            .header("cookie", cookie)
            .body(whole(""))
            .expect("a request")
    };
    let mut hers = client
        .send(events("usr", &cookie))
        .await
        .expect("an answer")
        .into_body();
    let mut public = client
        .send(events("pub", "a=b"))
        .await
        .expect("an answer")
        .into_body();
    assert!(
        hers.frame().await.expect("an event").is_ok()
            && public.frame().await.expect("an event").is_ok()
    );
    world.manual_clock.advance(Duration::from_secs(31 * 60));
    let ended = tokio::time::timeout(PATIENCE, hers.frame())
        .await
        .expect("in time");
    assert!(ended.is_none_or(|frame| frame.is_err()), "reset");
    let line = world.log.line_with("\"outcome\":\"session_ended\"").await;
    assert_eq!(line["path"], "/apps/usr/sse");
    // Both were checked in one pass.
    let cut = world.running.internals().streams_cut();
    assert_eq!(cut, 1, "the other is silent, and open");
    still_serves(&client, &world).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_resets_its_request_frees_the_app() {
    let world = World::with("", h2c).await;
    let mut frames = Frames::connect(world.running.address).await;
    let host = world.host.clone();
    let head = [
        (":method", "GET"),
        (":scheme", "http"),
        (":path", "/apps/pub/hang"),
        (":authority", &*host),
    ];
    frames.headers(1, END_STREAM, &head).await;
    until("the app is asked", || world.backend("pub").count() != 0).await;
    frames
        .send(&Frame::new(RST_STREAM, 0, 1, 8_u32.to_be_bytes()))
        .await;
    until_async("the connection to the app is closed", async || {
        world
            .admin("/metrics", "")
            .await
            .text()
            .contains("ludgate_upstream_connections 0")
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_takes_nothing_of_an_answer_loses_that_stream_only() {
    let world = World::with("", |settings| {
        h2c(settings);
        settings.listen.write_stall = Duration::from_millis(500);
    })
    .await;
    world.backend("pub").script(
        format!(
            "HTTP/1.1 200 OK\r\nContent-Length: 200000\r\n\r\n{}",
            "x".repeat(200_000)
        )
        .into_bytes(),
    );
    let mut frames = Frames::begin(world.running.address).await;
    // A window of no bytes for every stream.
    frames
        .send(&Frame::new(http2::SETTINGS, 0, 0, [0, 4, 0, 0, 0, 0]))
        .await;
    let host = world.host.clone();
    let head = [
        (":method", "GET"),
        (":scheme", "http"),
        (":path", "/apps/pub/big"),
        (":authority", &*host),
    ];
    frames.headers(1, END_STREAM, &head).await;
    let reset = frames
        .until(|frame| frame.kind == RST_STREAM || frame.kind == GOAWAY)
        .await
        .expect("reset");
    assert_eq!((reset.kind, reset.stream), (RST_STREAM, 1));
    world.until_counted("ludgate_write_stalls_total 1").await;
    world.backend("pub").script(None);
    frames
        .headers(
            3,
            END_STREAM,
            &[
                (":method", "HEAD"),
                head[1],
                (":path", "/apps/pub/x"),
                head[3],
            ],
        )
        .await;
    let answer = frames
        .until(|frame| frame.stream == 3)
        .await
        .expect("an answer");
    assert_eq!(answer.kind, HEADERS, "the connection goes on");
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_that_do_not_read_delay_no_other_on_the_connection_to_an_app() {
    let big = crate::support::http2_app::Http2App::answering(Some(std::sync::Arc::new(|_| {
        Box::pin(async {
            crate::support::http2_app::frames(vec![BodyFrame::data(vec![b'z'; 300_000].into())])
        })
    })))
    .await;
    let toml = format!(
        "[[apps]]\nid = \"big\"\naccess = \"public\"\nupstream = \"http://{}\"\nprotocol = \"h2\"\n",
        big.address()
    );
    let world = World::with_threads(1, &toml, h2c).await;
    let mut frames = Frames::begin(world.running.address).await;
    // A window of no bytes for every stream.
    frames
        .send(&Frame::new(http2::SETTINGS, 0, 0, [0, 4, 0, 0, 0, 0]))
        .await;
    let host = world.host.clone();
    let head = [
        (":method", "GET"),
        (":scheme", "http"),
        (":path", "/apps/big/x"),
        (":authority", &*host),
    ];
    for stream in 0..30 {
        frames.headers(1 + 2 * stream, END_STREAM, &head).await;
    }
    for _ in 0..30 {
        frames
            .until(|frame| frame.kind == HEADERS)
            .await
            .expect("an answer");
    }
    assert_eq!(big.connections(), 1, "they share one");
    let client = Http2::connect(world.running.address).await;
    for _ in 0..3 {
        let answer = client
            .whole(
                get(&world, "/apps/big/x")
                    .body(whole(""))
                    .expect("a request"),
            )
            .await;
        assert_eq!((answer.status(), answer.body.len()), (200, 300_000));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_is_no_websocket_is_none_to_who_asked_for_one() {
    let world = World::with("", h2c).await;
    let client = Http2::connect(world.running.address).await;
    // The app answers 200 and a page; on HTTP/2 that would be a yes.
    world
        .backend("pub")
        .script(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\npage".to_vec());
    let request = Request::connect(format!("http://{}/apps/pub/ws", world.host))
        .header("sec-websocket-version", "13")
        .extension(hyper::ext::Protocol::from_static("websocket"));
    let answer = client
        .send(request.body(whole("")).expect("a request"))
        .await
        .expect("an answer");
    assert_eq!(answer.status(), 502);
    drop(answer);
    let line = world.log.line_with("/apps/pub/ws").await;
    assert_eq!(line["status"], 502, "{line}");
    world.backend("pub").script(None);
    let many = (0..120).fold(get(&world, "/apps/pub/x"), |request, at| {
        request.header(format!("x-{at}"), "1")
    });
    let answer = client.whole(many.body(whole("")).expect("a request")).await;
    assert_eq!(answer.status(), 431, "as on HTTP/1.1");
}
