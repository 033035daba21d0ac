//! Bodies, events and trailers pass in both directions.

use crate::support::world::World;
use tokio::io::AsyncWriteExt;

#[tokio::test(flavor = "multi_thread")]
async fn expectations_are_met_by_us_and_early_hints_are_dropped() {
    let world = World::as_program("", "").await;
    let mut raw = world.raw().await;
    raw.send(format!(
        "POST /apps/pub/echo HTTP/1.1\r\nHost: {}\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n",
        world.host
    ))
    .await;
    let interim = raw
        .reader
        .head()
        .await
        .expect("readable")
        .expect("an interim answer");
    assert_eq!(interim.status(), 100);
    raw.send("ok").await;
    assert_eq!(raw.answer().await.expect("an answer").text(), "ok");
    assert_eq!(world.backend("pub").last().header("expect"), None);
    let refused = world
        .exchange(
            "POST /apps/pub/ HTTP/1.1\r\nHost: HOST\r\nExpect: y 100-continue\r\nContent-Length: 1\r\n\r\nx",
        )
        .await;
    assert_eq!(refused.status(), 417);
    assert_eq!(
        world
            .exchange("GET /apps/pub/early-hints HTTP/1.1\r\nHost: HOST\r\n\r\n")
            .await
            .text(),
        "ok"
    );
    let part = world
        .exchange("GET /apps/pub/range HTTP/1.1\r\nHost: HOST\r\nRange: bytes=0-1\r\n\r\n")
        .await;
    assert_eq!(
        (part.status(), part.header("content-range").as_deref()),
        (206, Some("bytes 0-1/6"))
    );
    assert_eq!(
        world.backend("pub").last().header("range").as_deref(),
        Some("bytes=0-1")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_of_every_method_arrive_with_one_canonical_framing() {
    let world = World::as_program("", "").await;
    for method in [
        "GET", "DELETE", "POST", "PUT", "PATCH", "OPTIONS", "PROPFIND", "FOO",
    ] {
        let sized = format!(
            "{method} /apps/pub/echo HTTP/1.1\r\nHost: HOST\r\nContent-Length: 5\r\n\r\nhello"
        );
        assert_eq!(
            world.exchange(&sized).await.text(),
            "hello",
            "{method} sized"
        );
        assert_eq!(world.backend("pub").last().all("content-length"), ["5"]);
        let chunked = format!(
            "{method} /apps/pub/echo HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding: chunked\r\n\r\n2;x=y\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n"
        );
        assert_eq!(
            world.exchange(&chunked).await.text(),
            "hello",
            "{method} chunked"
        );
        assert_eq!(
            world.backend("pub").last().all("transfer-encoding"),
            ["chunked"]
        );
    }
    let padded = "POST /apps/pub/echo HTTP/1.1\r\nHost: HOST\r\nContent-Length: 0005\r\n\r\nhello";
    assert_eq!(world.exchange(padded).await.text(), "hello");
    assert_eq!(world.backend("pub").last().all("content-length"), ["5"]);
    let empty = "POST /apps/pub/echo HTTP/1.1\r\nHost: HOST\r\nContent-Length: 0\r\n\r\n";
    assert_eq!(world.exchange(empty).await.status(), 200);
    assert_eq!(
        world
            .exchange("GET /apps/pub/chunked HTTP/1.1\r\nHost: HOST\r\n\r\n")
            .await
            .text(),
        "abcdef"
    );
    world.check_oracles().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_body_streams_both_ways() {
    let world = World::as_program("", "").await;
    let body: Vec<u8> = (0..8u32 << 20).map(|n| n as u8).collect();
    let mut raw = world.raw().await;
    let head = format!(
        "POST /apps/pub/echo HTTP/1.1\r\nHost: {}\r\nContent-Length: {}\r\n\r\n",
        world.host,
        body.len()
    );
    raw.send(head).await;
    let writing = async { raw.writer.write_all(&body).await.expect("written") };
    let (answer, ()) = tokio::join!(raw.reader.message(false), writing);
    assert!(
        answer.expect("readable").expect("an answer").body == body,
        "8 MiB came back unchanged"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_above_the_app_s_limit_is_413() {
    let world = World::with("", |settings| settings.apps[0].max_body = Some(1000)).await;
    let sized = format!(
        "POST /apps/pub/echo HTTP/1.1\r\nHost: HOST\r\nContent-Length: 1001\r\n\r\n{}",
        "x".repeat(1001)
    );
    assert_eq!(world.exchange(&sized).await.status(), 413);
    assert_eq!(world.reached(), 0);
    let chunked = format!(
        "POST /apps/pub/echo HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding: chunked\r\n\r\n3e9\r\n{}\r\n0\r\n\r\n",
        "x".repeat(1001)
    );
    assert_eq!(world.exchange(&chunked).await.status(), 413);
    let fits = format!(
        "POST /apps/pub/echo HTTP/1.1\r\nHost: HOST\r\nContent-Length: 1000\r\n\r\n{}",
        "x".repeat(1000)
    );
    assert_eq!(world.exchange(&fits).await.status(), 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn events_are_passed_on_as_they_come() {
    let world = World::as_program("", "").await;
    let mut raw = world.raw().await;
    raw.send(format!(
        "GET /apps/pub/sse HTTP/1.1\r\nHost: {}\r\nAccept: text/event-stream\r\n\r\n",
        world.host
    ))
    .await;
    let head = raw.reader.head().await.expect("readable").expect("a head");
    assert_eq!(
        head.header("content-type").as_deref(),
        Some("text/event-stream")
    );
    let first = raw
        .reader
        .some()
        .await
        .expect("an event, although the app goes on");
    assert!(
        String::from_utf8_lossy(&first).contains("data: 1"),
        "{first:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn response_trailers_pass_to_a_client_that_takes_them() {
    let world = World::as_program("", "").await;
    let asked =
        "GET /apps/pub/trailers HTTP/1.1\r\nHost: HOST\r\nTE: trailers\r\nConnection: TE\r\n\r\n";
    let answer = world.exchange(asked).await;
    assert_eq!(
        (answer.text().as_str(), answer.header("trailer").as_deref()),
        ("abc", Some("X-Sum"))
    );
    let raw = String::from_utf8_lossy(&answer.raw).to_ascii_lowercase();
    assert!(raw.contains("x-sum: 6"), "{raw}");
}
