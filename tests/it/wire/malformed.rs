//! HTTP/1 (docs/behaviour.md#limits): bytes that no well-behaved client sends. After every case the
//! oracles hold, and the next good request works.

use crate::support::{raw::Raw, world::World};

/// Sends bytes on one connection; the answer's status and whether the connection was closed after
/// it.
async fn send(world: &World, bytes: &[u8]) -> (u16, bool) {
    let mut raw = Raw::connect(world.running.address).await;
    raw.send(bytes).await;
    let status = raw.answer().await.map_or(0, |answer| answer.status());
    if status == 200 {
        return (status, false);
    }
    let _ = tokio::io::AsyncWriteExt::shutdown(&mut raw.writer).await;
    (status, raw.is_closed().await)
}

fn with_host(world: &World, text: &str) -> Vec<u8> {
    text.replace("HOST", &world.host).into_bytes()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_is_missing_doubled_or_malformed_is_400_and_the_connection_is_closed() {
    let world = World::as_program("", "").await;
    for hosts in [
        "",
        "Host: HOST\r\nHost: HOST\r\n",
        "Host: HOST, evil.test\r\n",
        "Host: \r\n",
        "Host: x@HOST\r\n",
        "Host: HOST/b\r\n",
        "Host: HOST.\r\n",
        "Host: 127.0.0.1\r\n",
        "Host: 127.0.0.1:1\r\n",
        "Host: a b\r\n",
        "Host: 127.0.0.1:080\r\n",
    ] {
        let bytes = with_host(&world, &format!("GET /apps/pub/ HTTP/1.1\r\n{hosts}\r\n"));
        assert_eq!(send(&world, &bytes).await, (400, true), "{hosts:?}");
    }
    let mut bytes = b"GET /apps/pub/ HTTP/1.1\r\nHost: a\xff\r\n\r\n".to_vec();
    assert_eq!(send(&world, &bytes).await, (400, true));
    bytes = b"GET /apps/pub/ HTTP/1.0\r\n\r\n".to_vec();
    assert_eq!(send(&world, &bytes).await.0, 400, "HTTP/1.0 without Host");
    for unknown in ["evil.test", "xn--gw-.test", "localhost"] {
        let bytes = format!("GET /apps/pub/ HTTP/1.1\r\nHost: {unknown}\r\n\r\n");
        assert_eq!(send(&world, bytes.as_bytes()).await.0, 421, "{unknown}");
    }
    assert_eq!(world.reached(), 0);
    world.check_oracles().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_target_that_is_no_path_is_refused() {
    let world = World::as_program("", "").await;
    for (start, status) in [
        ("GET http://evil/p HTTP/1.1", 400),
        ("GET http://evil?x HTTP/1.1", 400),
        ("GET http://HOST?x HTTP/1.1", 400),
        ("GET evil:80 HTTP/1.1", 400),
        ("GET ! HTTP/1.1", 400),
        ("GET * HTTP/1.1", 400),
        ("OPTIONS * HTTP/1.1", 400),
        ("CONNECT h:80 HTTP/1.1", 405),
        ("CONNECT HOST HTTP/1.1", 405),
        ("TRACE /apps/pub/ HTTP/1.1", 405),
        (
            "AVERYLONGMETHODNAMETHATNOBODYNEEDSATALL /apps/pub/ HTTP/1.1",
            405,
        ),
        ("GET /apps/pub/%00 HTTP/1.1", 400),
        ("GET /apps/pub/%zz HTTP/1.1", 400),
        ("GET /apps/pub/\\..\\grp HTTP/1.1", 400),
        ("GET /apps/pub/\"x\" HTTP/1.1", 400),
        ("GET apps/pub/ HTTP/1.1", 400),
        ("GET  /apps/pub/ HTTP/1.1", 400),
        ("GET /apps/pub/ HTTP/3.0", 400),
        ("GET /apps/pub/", 400),
    ] {
        let bytes = with_host(&world, &format!("{start}\r\nHost: HOST\r\n\r\n"));
        let (got, closed) = send(&world, &bytes).await;
        assert_eq!((got, closed), (status, true), "{start:?}");
    }
    let long = format!(
        "GET /apps/pub/{} HTTP/1.1\r\nHost: {}\r\n\r\n",
        "a".repeat(9000),
        world.host
    );
    assert_eq!(send(&world, long.as_bytes()).await.0, 414);
    assert_eq!(world.reached(), 0);
    world.check_oracles().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_absolute_target_is_accepted_only_where_it_says_what_the_host_says() {
    let world = World::as_program("", "").await;
    let bytes = with_host(
        &world,
        "GET http://HOST/apps/pub/x HTTP/1.1\r\nHost: HOST\r\n\r\n",
    );
    assert_eq!(send(&world, &bytes).await.0, 200);
    assert_eq!(world.backend("pub").last().target(), "/apps/pub/x");
    let bytes = with_host(
        &world,
        "GET http://HOST/apps/pub/x HTTP/1.1\r\nHost: evil.test\r\n\r\n",
    );
    assert!(matches!(send(&world, &bytes).await.0, 400 | 421));
    world.check_oracles().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fragment_in_a_target_is_400() {
    let world = World::as_program("", "").await;
    for target in [
        "/apps/grp/#/apps/pub/",
        "/apps/grp/?#/apps/pub/",
        "/apps/pub/a#/../b",
        "/apps/pub/#",
        "#",
    ] {
        let bytes = with_host(
            &world,
            &format!("GET {target} HTTP/1.1\r\nHost: HOST\r\n\r\n"),
        );
        assert_eq!(send(&world, &bytes).await, (400, true), "{target}");
    }
    let bytes = with_host(
        &world,
        "GET /apps/grp/?next=/apps/pub/ HTTP/1.1\r\nHost: HOST\r\n\r\n",
    );
    assert_eq!(send(&world, &bytes).await.0, 401);
    assert_eq!(world.reached(), 0);
    world.check_oracles().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_line_that_ends_without_cr_is_400_wherever_it_stands() {
    let world = World::as_program("", "").await;
    let good = with_host(
        &world,
        "POST /apps/pub/echo HTTP/1.1\r\nHost: HOST\r\nX: y\r\nContent-Length: 1\r\n\r\nx",
    );
    assert_eq!(send(&world, &good).await.0, 200);
    let count = world.backend("pub").count();
    let lines: Vec<usize> = good
        .windows(2)
        .enumerate()
        .filter(|(_, two)| *two == b"\r\n")
        .map(|(at, _)| at)
        .collect();
    for at in &lines {
        let bytes = [&good[..*at], &good[at + 1..]].concat();
        assert_eq!(
            send(&world, &bytes).await,
            (400, true),
            "{}",
            String::from_utf8_lossy(&bytes)
        );
    }
    let all = String::from_utf8(good.clone())
        .expect("ASCII")
        .replace("\r\n", "\n");
    assert_eq!(send(&world, all.as_bytes()).await, (400, true));
    // A length that hides from who keeps a LF in a value; and the same on a connection that was
    // good so far.
    let hidden = "GET /apps/pub/c HTTP/1.1\r\nHost: HOST\r\nX: y\nContent-Length: 54\r\n\r\nGET /apps/pub/smuggled HTTP/1.1\r\nHost: HOST\r\n\r\n";
    for before in [
        "",
        "GET /apps/pub/x HTTP/1.1\r\nHost: HOST\r\n\r\n",
        "POST /apps/pub/echo HTTP/1.1\r\nHost: HOST\r\nContent-Length: 2\r\n\r\n\n\n",
        "POST /apps/pub/echo HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n\n\n\r\n0\r\n\r\n",
    ] {
        let mut raw = Raw::connect(world.running.address).await;
        raw.send(with_host(&world, &format!("{before}{hidden}")))
            .await;
        if !before.is_empty() {
            assert_eq!(
                raw.answer().await.expect("an answer").status(),
                200,
                "{before:?}"
            );
        }
        assert_eq!(
            raw.answer().await.expect("an answer").status(),
            400,
            "{before:?}"
        );
        assert!(raw.is_closed().await, "O3: {before:?}");
    }
    // In pieces it is the same, although a head is read whole before it is looked at.
    let mut raw = Raw::connect_from("127.0.0.1", world.running.address).await;
    for piece in with_host(
        &world,
        "GET /apps/pub/c HTTP/1.1\r\nHost: HOST\r\nX: y\nZ: a\r\n\r\n",
    )
    .chunks(7)
    {
        raw.send(piece).await;
        tokio::task::yield_now().await;
    }
    assert_eq!(raw.answer().await.expect("an answer").status(), 400);
    let seen = world.backend("pub").seen();
    assert!(
        seen.iter()
            .all(|seen| !seen.target().ends_with("/c") && !seen.target().ends_with("smuggled"))
    );
    assert_eq!(seen.len(), count + 3);
    world.check_oracles().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_length_beside_a_coding_is_400_and_the_connection_is_closed() {
    let world = World::as_program("", "").await;
    for fields in [
        "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
        "content-length: 0\r\nX: y\r\ntransfer-encoding: chunked\r\n",
        "Content-Length: 5\r\nTransfer-Encoding: identity\r\n",
    ] {
        let bytes = with_host(
            &world,
            &format!(
                "POST /apps/pub/echo HTTP/1.1\r\nHost: HOST\r\n{fields}\r\n0\r\n\r\nGET /apps/pub/smuggled HTTP/1.1\r\nHost: HOST\r\n\r\n"
            ),
        );
        assert_eq!(send(&world, &bytes).await, (400, true), "{fields:?}");
    }
    assert_eq!(world.reached(), 0);
    world.check_oracles().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_largest_head_is_served_and_one_byte_more_is_431() {
    let world = World::as_program("", "").await;
    let head = |length: usize| {
        let start = with_host(&world, "GET /apps/pub/x HTTP/1.1\r\nHost: HOST\r\nX: ");
        let end = b"\r\n\r\n";
        let filler = vec![b'a'; length - start.len() - end.len()];
        [&start[..], &filler, end].concat()
    };
    let largest = 64 * 1024;
    for (length, status) in [(largest, 200), (largest + 1, 431), (100_000, 431)] {
        assert_eq!(send(&world, &head(length)).await.0, status, "{length}");
    }
    world.check_oracles().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ambiguous_framing_is_refused_or_forwarded_once_and_nothing_is_smuggled() {
    let world = World::as_program("", "").await;
    let inner = "GET /apps/pub/smuggled HTTP/1.1\r\nHost: HOST\r\n\r\n";
    for fields in [
        "Transfer-Encoding: ,chunked\r\n",
        "Transfer-Encoding: gzip, chunked\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: identity\r\n",
        "Transfer-Encoding: xchunked\r\n",
        "Transfer-Encoding: chunked, identity\r\n",
        "Transfer-Encoding : chunked\r\n",
        "Content-Length: +5\r\n",
        "Content-Length: 5, 6\r\n",
        "Content-Length: 5\r\nContent-Length: 6\r\n",
        "Content-Length: -1\r\n",
        "Content-Length: 0x5\r\n",
        "Content-Length: 99999999999999999999\r\n",
        "Content-Length: \r\n",
        "Content-Length : 5\r\n",
        "Content-Length: 5\r\n Content-Length: 6\r\n",
    ] {
        let bytes = with_host(
            &world,
            &format!("POST /apps/pub/echo HTTP/1.1\r\nHost: HOST\r\n{fields}\r\n0\r\n\r\n{inner}"),
        );
        let (status, closed) = send(&world, &bytes).await;
        assert!(matches!(status, 400 | 501), "{fields:?}: {status}");
        assert!(closed, "O3: {fields:?}");
    }
    let smuggled = || {
        world
            .backend("pub")
            .seen()
            .iter()
            .filter(|seen| seen.target().ends_with("smuggled"))
            .count()
    };
    assert_eq!((world.backend("pub").count(), smuggled()), (0, 0));
    let old = with_host(
        &world,
        "POST /apps/pub/echo HTTP/1.0\r\nHost: HOST\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    );
    assert_eq!(send(&world, &old).await.0, 400);
    world.check_oracles().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn broken_chunks_are_400_and_the_app_sees_no_complete_request() {
    let world = World::as_program("", "").await;
    for chunks in [
        "1\r\nZZ0\r\n\r\n",
        "0_2e\r\nx\r\n",
        "-1\r\n\r\n",
        "0x1\r\na\r\n0\r\n\r\n",
        "11111111111111111\r\na",
        "g\r\na\r\n",
        "1\nA\n0\n\n",
        "\r\n0\r\n\r\n",
    ] {
        let bytes = with_host(
            &world,
            &format!(
                "POST /apps/pub/echo HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}"
            ),
        );
        let (status, closed) = send(&world, &bytes).await;
        assert_eq!((status, closed), (400, true), "{chunks:?}");
    }
    assert!(
        world
            .backend("pub")
            .seen()
            .iter()
            .all(|seen| seen.truncated),
        "no terminating chunk"
    );
    let control = with_host(&world, "GET /apps/pub/ HTTP/1.1\r\nHost: HOST\r\n\r\n");
    assert_eq!(send(&world, &control).await.0, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn heads_that_are_too_large_are_refused_and_the_next_request_works() {
    let world = World::as_program("", "").await;
    let wide: String = (0..101).map(|n| format!("X-{n}: 1\r\n")).collect();
    let big = format!("X-Big: {}\r\n", "a".repeat(300 * 1024));
    let cookies = format!(
        "Cookie: {}\r\n",
        (0..101)
            .map(|n| format!("c{n}=1"))
            .collect::<Vec<_>>()
            .join("; ")
    );
    let ours = format!("Cookie: ludgate={}\r\n", "a".repeat(5000));
    for (fields, target) in [
        (&wide, "pub"),
        (&big, "pub"),
        (&cookies, "grp"),
        (&ours, "grp"),
    ] {
        let bytes = with_host(
            &world,
            &format!("GET /apps/{target}/ HTTP/1.1\r\nHost: HOST\r\n{fields}\r\n"),
        );
        let (status, closed) = send(&world, &bytes).await;
        assert!(
            matches!(status, 431 | 0),
            "{} bytes: {status}",
            fields.len()
        );
        assert!(closed);
    }
    assert_eq!(world.reached(), 0);
    // With Host a hundred, which is what may be.
    let fitting: String = (0..99).map(|n| format!("X-{n}: 1\r\n")).collect();
    let bytes = with_host(
        &world,
        &format!("GET /apps/pub/ HTTP/1.1\r\nHost: HOST\r\n{fitting}\r\n"),
    );
    assert_eq!(send(&world, &bytes).await.0, 200);
    world.check_oracles().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn forwarded_and_rewrite_headers_never_decide() {
    let world = World::as_program("", "").await;
    for lie in [
        "X-Forwarded-Uri: /apps/pub/",
        "X-Original-URL: /apps/pub/",
        "X-Rewrite-URL: /apps/pub/",
        "X-Original-URI: /apps/pub/",
        "X-Forwarded-Path: /apps/pub/",
        "X-Forwarded-Method: OPTIONS",
        "X-HTTP-Method-Override: OPTIONS",
        "X-Forwarded-Host: evil",
        "X-Forwarded-For: 127.0.0.1",
        "User-Agent: kube-probe/1.31",
        "User-Agent: GoogleHC/1.0",
        "User-Agent: ELB-HealthChecker/2.0",
        "X-Forwarded-User: alice",
        "Authorization: Bearer x",
        "Authorization: Bearer ",
        "Authorization: bearer",
        "Authorization: Basic YWxpY2U6eA==",
        "Cookie: ludgate=\u{ff}",
        "Origin: \u{ff}",
        "X-Ludgate-User: alice",
    ] {
        let bytes = with_host(
            &world,
            &format!("GET /apps/grp/?access_token=x HTTP/1.1\r\nHost: HOST\r\n{lie}\r\n\r\n"),
        );
        assert_eq!(send(&world, &bytes).await.0, 401, "{lie}");
    }
    let two = with_host(
        &world,
        "GET /apps/pub/ HTTP/1.1\r\nHost: HOST\r\nAuthorization: Basic x\r\nAuthorization: Basic y\r\n\r\n",
    );
    assert_eq!(send(&world, &two).await.0, 400);
    assert_eq!(world.reached(), 0);
    world.check_oracles().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_a_client_writes_is_reflected_unescaped_in_a_page_or_a_log_line() {
    let world = World::as_program("", "").await;
    for target in [
        "/apps/<script>alert(1)</script>/",
        "/apps/x%3Cscript%3E/",
        "/apps/none/?<script>",
    ] {
        let bytes = with_host(
            &world,
            &format!(
                "GET {target} HTTP/1.1\r\nHost: HOST\r\nAccept: text/html\r\nUser-Agent: \u{202e}\u{1b}\r\n\r\n"
            ),
        );
        let mut raw = Raw::connect(world.running.address).await;
        raw.send(&bytes).await;
        let answer = raw.answer().await.expect("an answer");
        assert!(answer.status() >= 400);
        assert!(!answer.text().contains("<script>"), "{}", answer.text());
    }
    world
        .exchange(&format!(
            "GET /apps/pub/{}?secret=CANARY-QUERY HTTP/1.1\r\nHost: HOST\r\n\r\n",
            "p".repeat(7000)
        ))
        .await;
    world.check_oracles().await;
    assert!(
        !world.log.text().contains("CANARY-QUERY"),
        "the query is not logged"
    );
    assert!(
        world.log.text().lines().all(|line| line.len() <= 4096),
        "a line is at most 4 KB"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_http_1_0_client_with_a_host_is_served() {
    let world = World::as_program("", "").await;
    let bytes = with_host(
        &world,
        "GET /apps/pub/chunked HTTP/1.0\r\nHost: HOST\r\n\r\n",
    );
    let mut raw = Raw::connect(world.running.address).await;
    raw.send(&bytes).await;
    let answer = raw.answer().await.expect("an answer");
    assert_eq!((answer.status(), answer.text().as_str()), (200, "abcdef"));
    assert_eq!(answer.header("transfer-encoding"), None);
}
