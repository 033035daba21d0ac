//! HTTP/2 from clients: the same line, the same decisions, and an app that cannot tell (security.md
//! 0.2 and 2.5).

use std::time::Duration;

use http::Request;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame as BodyFrame;
use ludgate::settings::Settings;

use crate::support::{
    http2::{self, END_STREAM, Frame, Frames, GOAWAY, HEADERS, Http2, RST_STREAM, get, whole},
    message::PATIENCE,
    world::World,
};

fn h2c(settings: &mut Settings) {
    settings.listen.h2c = true;
}

async fn world() -> World {
    World::with("", h2c).await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_app_sees_a_request_of_http2_as_one_of_http11() {
    let world = world().await;
    let client = Http2::connect(world.running.address).await;
    let request = get(&world, "/apps/pub/echo?a=%2F&b")
        .header("cookie", "a=1")
        .header("cookie", "b=2; c=3");
    let request = request
        .header("x-a", "1")
        .header("x-a", "2")
        .header("te", "trailers");
    let answer = client
        .whole(request.body(whole("")).expect("a request"))
        .await;
    assert_eq!(answer.status(), 200);
    let seen = world.backend("pub").last();
    assert_eq!(seen.start, "GET /apps/pub/echo?a=%2F&b HTTP/1.1");
    assert_eq!(seen.all("host"), [world.host.as_str()]);
    assert_eq!(seen.all("cookie"), ["a=1; b=2; c=3"]);
    assert_eq!(seen.all("x-a"), ["1", "2"]);
    assert!(
        seen.all("te").is_empty() && seen.all("transfer-encoding").is_empty(),
        "{seen:?}"
    );
    for (method, length) in [
        ("POST", true),
        ("POST", false),
        ("GET", true),
        ("GET", false),
        ("DELETE", false),
    ] {
        let body = match length {
            true => whole("hello"),
            false => {
                let frames = ["hel", "lo"].map(|part| Ok(BodyFrame::data(part.into())));
                BodyExt::boxed(StreamBody::new(futures_util::stream::iter(frames)))
            }
        };
        let request = Request::builder()
            .method(method)
            .uri(format!("http://{}/apps/pub/echo", world.host));
        let answer = client.whole(request.body(body).expect("a request")).await;
        assert_eq!(
            (answer.status(), answer.text()),
            (200, "hello"),
            "{method} {length}"
        );
        let seen = world.backend("pub").last();
        let framing = (seen.all("content-length"), seen.all("transfer-encoding"));
        let expected = if length {
            (vec!["5".into()], vec![])
        } else {
            (vec![], vec!["chunked".to_owned()])
        };
        assert_eq!(framing, expected, "{method}");
    }
    assert_eq!(
        world.backend("pub").connections(),
        1,
        "one connection to the app for all of them"
    );
    world.check_oracles().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_come_as_the_app_gave_them() {
    let world = world().await;
    let client = Http2::connect(world.running.address).await;
    let ask = async |verb: &str| {
        client
            .whole(
                get(&world, &format!("/apps/pub/{verb}"))
                    .body(whole(""))
                    .expect("a request"),
            )
            .await
    };
    assert_eq!(ask("chunked").await.text(), "abcdef");
    let with_trailers = ask("trailers").await;
    assert_eq!(with_trailers.trailers.expect("trailers")["x-sum"], "6");
    let reason = ask("reason").await;
    assert_eq!(
        (
            reason.status(),
            reason.head.headers.get_all("x-a").iter().count()
        ),
        (299, 2)
    );
    assert_eq!(
        (ask("range").await.status(), ask("early-hints").await.text()),
        (206, "ok")
    );
    for verb in ["cut", "cut-chunked"] {
        let response = client
            .send(
                get(&world, &format!("/apps/pub/{verb}"))
                    .body(whole(""))
                    .expect("a request"),
            )
            .await;
        let error = response
            .expect("a head")
            .into_body()
            .collect()
            .await
            .expect_err("visibly cut");
        assert!(!error.is_timeout(), "{error:?}");
    }
    assert_eq!(ask("close").await.status(), 502);
    assert_eq!(ask("x").await.status(), 200, "the connection goes on");
    let refused = client
        .whole(
            get(&world, "/apps/grp/")
                .body(whole(""))
                .expect("a request"),
        )
        .await;
    assert_eq!(refused.status(), 401);
    assert!(refused.header("connection").is_none());
    world.check_oracles().await;
}

/// How the answer to one hand-written head is, by the log: status and reason.
#[tokio::test(flavor = "multi_thread")]
async fn what_http11_could_not_say_is_refused() {
    let world = world().await;
    let host = world.host.clone();
    let other = "other.test";
    type Case<'c> = (&'c str, &'c [(&'c str, &'c str)], u64, &'c str);
    let cases: &[Case<'_>] = &[
        ("/apps/pub/ok", &[(":authority", &host)], 200, "public"),
        (
            "/apps/pub/same",
            &[(":authority", &host), ("host", &host)],
            200,
            "public",
        ),
        ("/apps/pub/no-authority", &[("host", &host)], 200, "public"),
        (
            "/apps/pub/differ",
            &[(":authority", &host), ("host", other)],
            400,
            "host_mismatch",
        ),
        (
            "/apps/pub/two-hosts",
            &[(":authority", &host), ("host", &host), ("host", &host)],
            400,
            "bad_host",
        ),
        ("/apps/pub/nobody", &[], 400, "bad_host"),
        (
            "/apps/pub/foreign",
            &[(":authority", other)],
            421,
            "unknown_host",
        ),
        (
            "/apps/pub/user",
            &[(":authority", "u@127.0.0.1")],
            400,
            "bad_host",
        ),
        (
            "/apps/pub/list",
            &[(":authority", "127.0.0.1,evil.test")],
            400,
            "",
        ),
        (
            "/apps/pub/port",
            &[(":authority", "127.0.0.1:99999")],
            400,
            "",
        ),
        (
            "/apps/pub/blank",
            &[(":authority", &host), ("x-a", " a")],
            400,
            "bad_field",
        ),
        (
            "/apps/pub/tab",
            &[(":authority", &host), ("x-a", "a\t")],
            400,
            "bad_field",
        ),
        (
            "/apps/pub/twice",
            &[
                (":authority", &host),
                ("authorization", "a"),
                ("authorization", "b"),
            ],
            400,
            "two_authorizations",
        ),
        (
            "/apps/pub/expect",
            &[(":authority", &host), ("expect", "x")],
            417,
            "bad_expectation",
        ),
        (
            "/apps/grp/#/apps/pub/",
            &[(":authority", &host)],
            401,
            "anonymous",
        ),
        (
            "/apps/pub/../grp/",
            &[(":authority", &host)],
            400,
            "path_climbs",
        ),
        ("/apps/gr%70/", &[(":authority", &host)], 400, ""),
    ];
    for (path, fields, status, reason) in cases {
        for scheme in ["http", "https"] {
            let mut frames = Frames::connect(world.running.address).await;
            let head = [
                &[(":method", "GET"), (":scheme", scheme), (":path", path)][..],
                fields,
            ]
            .concat();
            let before = world.reached();
            // The marker makes the line in the log this one's.
            let agent = format!("{scheme}{path}{status}");
            frames.headers(1, END_STREAM, &head).await;
            let answer = frames
                .until(|frame| frame.stream == 1)
                .await
                .unwrap_or_else(|| panic!("{agent}: closed"));
            if reason.is_empty() && answer.kind == RST_STREAM {
                // Refused below us, as no request at all.
                continue;
            }
            assert_eq!(answer.kind, HEADERS, "{agent}: {answer:?}");
            let shown = path.split('#').next().expect("a path");
            let line = world
                .log
                .line_with(&format!("\"path\":\"{shown}\",\"status\":{status}"))
                .await;
            assert!(
                reason.is_empty() || line["reason"] == *reason,
                "{agent}: {line}"
            );
            assert_eq!(world.reached() > before, *status == 200, "{agent}");
        }
    }
    for (method, scheme, path) in [
        ("GET", "ftp", "/apps/pub/ftp"),
        ("OPTIONS", "http", "*"),
        ("TRACE", "http", "/apps/pub/t"),
    ] {
        let mut frames = Frames::connect(world.running.address).await;
        let head = [
            (":method", method),
            (":scheme", scheme),
            (":path", path),
            (":authority", &*host),
        ];
        frames.headers(1, END_STREAM, &head).await;
        assert!(
            frames.until(|frame| frame.stream == 1).await.is_some(),
            "{method} {scheme} {path}"
        );
    }
    assert!(
        !world
            .backend("pub")
            .seen()
            .iter()
            .any(|seen| seen.target().ends_with("/ftp") || seen.start.starts_with("TRACE"))
    );
    world.check_oracles().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_websocket_over_http2_is_one_of_http11_to_its_app() {
    let world = world().await.ready().await;
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
    tunnel.read_exact(&mut echo).await.expect("an echo");
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
    let sessions = &world.running.gateway.sessions;
    let sign_in = sessions.store.find_sign_in(
        [sign_in.as_bytes()].into_iter(),
        world.running.gateway.clock.now(),
    );
    sessions.store.revoke(&sign_in.expect("signed in"));
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
    assert_eq!(
        client
            .whole(
                get(&world, "/apps/pub/")
                    .body(whole(""))
                    .expect("a request")
            )
            .await
            .status(),
        200
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_session_ends_its_own_streams_and_no_other_on_the_same_connection() {
    let world = world().await.ready().await;
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
    assert!(
        tokio::time::timeout(Duration::from_millis(20), public.frame())
            .await
            .is_err(),
        "silent, and open"
    );
    assert_eq!(
        client
            .whole(
                get(&world, "/apps/pub/")
                    .body(whole(""))
                    .expect("a request")
            )
            .await
            .status(),
        200
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_resets_its_request_frees_the_app() {
    let world = world().await;
    let mut frames = Frames::connect(world.running.address).await;
    let host = world.host.clone();
    let head = [
        (":method", "GET"),
        (":scheme", "http"),
        (":path", "/apps/pub/hang"),
        (":authority", &*host),
    ];
    frames.headers(1, END_STREAM, &head).await;
    let reached = async {
        while world.backend("pub").count() == 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, reached)
        .await
        .expect("the app is asked");
    frames
        .send(&Frame::new(RST_STREAM, 0, 1, 8_u32.to_be_bytes()))
        .await;
    let freed = async {
        while !world
            .admin("/metrics", "")
            .await
            .text()
            .contains("ludgate_upstream_connections 0")
        {}
    };
    tokio::time::timeout(PATIENCE, freed)
        .await
        .expect("the connection to the app is closed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_takes_nothing_of_an_answer_loses_that_stream_only() {
    let world = World::with("", |settings| {
        h2c(settings);
        settings.listen.write_stall = Duration::from_millis(100);
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
async fn clients_that_take_nothing_hold_up_nobody_else_on_the_connection_to_an_app() {
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
    let world = world().await;
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
    world.backend("pub").script(None);
    let many = (0..120).fold(get(&world, "/apps/pub/x"), |request, at| {
        request.header(format!("x-{at}"), "1")
    });
    let answer = client.whole(many.body(whole("")).expect("a request")).await;
    assert_eq!(answer.status(), 431, "as on HTTP/1.1");
}
