//! HTTP/2 from clients: the same line, the same decisions, and an app that cannot tell.

use crate::support::{
    http2::{END_STREAM, Frames, HEADERS, Http2, RST_STREAM, get, whole},
    world::World,
};
use http::Request;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame as BodyFrame;
use ludgate::settings::Settings;

pub(super) fn h2c(settings: &mut Settings) {
    settings.listen.h2c = true;
}

pub(super) async fn world() -> World {
    World::as_program("h2c = true\n", "").await
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
    let fetch = async |verb: &str| {
        client
            .whole(
                get(&world, &format!("/apps/pub/{verb}"))
                    .body(whole(""))
                    .expect("a request"),
            )
            .await
    };
    assert_eq!(fetch("chunked").await.text(), "abcdef");
    let with_trailers = fetch("trailers").await;
    assert_eq!(with_trailers.trailers.expect("trailers")["x-sum"], "6");
    let reason = fetch("reason").await;
    assert_eq!(
        (
            reason.status(),
            reason.head.headers.get_all("x-a").iter().count()
        ),
        (299, 2)
    );
    assert_eq!(
        (
            fetch("range").await.status(),
            fetch("early-hints").await.text()
        ),
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
    assert_eq!(fetch("close").await.status(), 502);
    assert_eq!(fetch("x").await.status(), 200, "the connection goes on");
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
        ("/apps/pub/no-host", &[], 400, "bad_host"),
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
