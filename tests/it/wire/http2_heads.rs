//! Heads and bodies over HTTP/2 that RFC 9113 forbids, and heads without end.

use super::http2_frames::Ends::{Answered, Stream};
use super::http2_frames::{CALM, COMPRESSION, Ends, PROTOCOL, check, head, world};
use crate::support::http2::{
    CONTINUATION, DATA, END_HEADERS, END_STREAM, Frame, Frames, GOAWAY, HEADERS, block,
};

#[tokio::test(flavor = "multi_thread")]
async fn every_wrong_head_or_body_ends_its_stream_and_reaches_no_app() {
    let world = world().await;
    let host = world.host.clone();
    let method = (":method", "POST");
    let (scheme, path, authority) = (
        (":scheme", "http"),
        (":path", "/apps/pub/x"),
        (":authority", host.as_str()),
    );
    let all = [method, scheme, path, authority];
    let with = |more: &[(&'static str, &'static str)]| [&all[..], more].concat();
    type Case<'c> = (&'c str, Vec<(&'c str, &'c str)>, Ends);
    let cases: Vec<Case<'_>> = vec![
        (
            "8.2.1 a name in upper case",
            with(&[("X-A", "1")]),
            Stream(&[PROTOCOL]),
        ),
        (
            "8.2.1 a name with a blank",
            with(&[("x a", "1")]),
            Stream(&[PROTOCOL]),
        ),
        (
            "8.2.1 a value with a line end",
            with(&[("x-a", "1\r\nx-b: 2")]),
            Stream(&[PROTOCOL]),
        ),
        (
            "8.2.1 a value with a zero",
            with(&[("x-a", "1\u{0}2")]),
            Stream(&[PROTOCOL]),
        ),
        (
            "8.2.2 Connection",
            with(&[("connection", "keep-alive")]),
            Stream(&[PROTOCOL]),
        ),
        (
            "8.2.2 Transfer-Encoding",
            with(&[("transfer-encoding", "chunked")]),
            Stream(&[PROTOCOL]),
        ),
        (
            "8.2.2 Upgrade",
            with(&[("upgrade", "websocket")]),
            Stream(&[PROTOCOL]),
        ),
        (
            "8.2.2 Keep-Alive",
            with(&[("keep-alive", "5")]),
            Stream(&[PROTOCOL]),
        ),
        (
            "8.2.2 TE with more than trailers",
            with(&[("te", "gzip")]),
            Stream(&[PROTOCOL]),
        ),
        (
            "8.3 an unknown pseudo field",
            with(&[(":test", "x")]),
            Stream(&[PROTOCOL]),
        ),
        (
            "8.3 a pseudo field of answers",
            with(&[(":status", "200")]),
            Stream(&[PROTOCOL]),
        ),
        (
            "8.3 a pseudo field behind others",
            vec![method, scheme, authority, ("x-a", "1"), path],
            Stream(&[PROTOCOL]),
        ),
        (
            "8.3.1 no method",
            vec![scheme, path, authority],
            Stream(&[PROTOCOL]),
        ),
        (
            "8.3.1 no scheme",
            vec![method, path, authority],
            Stream(&[PROTOCOL]),
        ),
        (
            "8.3.1 no path",
            vec![method, scheme, authority],
            Stream(&[PROTOCOL]),
        ),
        (
            "8.3.1 an empty path",
            vec![method, scheme, (":path", ""), authority],
            Stream(&[PROTOCOL]),
        ),
        (
            "8.3.1 two methods",
            vec![method, method, scheme, path, authority],
            Stream(&[PROTOCOL]),
        ),
        (
            "8.3.1 two paths",
            vec![method, scheme, path, path, authority],
            Stream(&[PROTOCOL]),
        ),
        (
            "two lengths",
            with(&[("content-length", "1"), ("content-length", "2")]),
            Stream(&[PROTOCOL]),
        ),
        (
            "a length and no body",
            with(&[("content-length", "5")]),
            Stream(&[PROTOCOL]),
        ),
        ("all is fine", with(&[("te", "trailers")]), Answered),
    ];
    for (name, fields, ends) in cases {
        let (reached, is_answered) = (world.reached(), matches!(ends, Answered));
        check(
            &world,
            name,
            &[Frame::new(
                HEADERS,
                END_HEADERS | END_STREAM,
                1,
                block(&fields),
            )],
            ends,
        )
        .await;
        assert!(
            is_answered || world.reached() == reached,
            "{name}: nothing reaches an app"
        );
    }
    let opens = Frame::new(
        HEADERS,
        END_HEADERS,
        1,
        head(&world, &[("content-length", "5")]),
    );
    let data = |flags, bytes: &[u8]| Frame::new(DATA, flags, 1, bytes);
    for (name, frames, ends) in [
        (
            "a body shorter than its length",
            vec![opens.clone(), data(END_STREAM, b"abc")],
            Stream(&[PROTOCOL]),
        ),
        (
            "a body longer than its length",
            vec![opens.clone(), data(0, b"abcdefg")],
            Stream(&[PROTOCOL]),
        ),
        (
            "a body of its length",
            vec![opens.clone(), data(0, b"abc"), data(END_STREAM, b"de")],
            Answered,
        ),
        (
            "8.1 trailers that do not end the stream",
            vec![
                opens.clone(),
                data(0, b"abcde"),
                Frame::new(HEADERS, END_HEADERS, 1, block(&[("x-a", "1")])),
            ],
            Stream(&[PROTOCOL]),
        ),
        (
            "8.1 a pseudo field in trailers is dropped with them",
            vec![
                opens.clone(),
                data(0, b"abcde"),
                Frame::new(
                    HEADERS,
                    END_HEADERS | END_STREAM,
                    1,
                    block(&[(":path", "/")]),
                ),
            ],
            Answered,
        ),
        (
            "8.1 trailers",
            vec![
                opens.clone(),
                data(0, b"abcde"),
                Frame::new(
                    HEADERS,
                    END_HEADERS | END_STREAM,
                    1,
                    block(&[("x-forwarded-user", "root")]),
                ),
            ],
            Answered,
        ),
    ] {
        check(&world, name, &frames, ends).await;
    }
    for seen in world.backend("pub").seen() {
        let whole = seen.truncated || seen.body.is_empty() || seen.body == b"abcde";
        assert!(
            whole
                && seen.trailers.is_empty()
                && !String::from_utf8_lossy(&seen.raw).contains("root"),
            "{seen:?}"
        );
    }
    world.check_oracles_of_framing().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_head_in_many_pieces_is_one_head_and_an_endless_one_ends() {
    let world = world().await;
    let bytes = head(&world, &[("x-a", &"a".repeat(500))]);
    let (first, rest) = bytes.split_at(3);
    let mut pieces = vec![Frame::new(HEADERS, END_STREAM, 1, first)];
    pieces.extend(
        rest.chunks(200)
            .map(|piece| Frame::new(CONTINUATION, 0, 1, piece)),
    );
    pieces.last_mut().expect("pieces").flags = END_HEADERS;
    check(&world, "6.10 in pieces", &pieces, Answered).await;
    // More than any head may be, in frames that each are fine.
    for piece in [1, 1024] {
        let mut client = Frames::connect(world.running.address).await;
        client
            .send(&Frame::new(HEADERS, END_STREAM, 1, first))
            .await;
        let flood = Frame::new(CONTINUATION, 0, 1, block(&[("x-b", &"b".repeat(piece))])).bytes();
        let mut sent = 0;
        while client.raw(&flood).await && sent < 4 << 20 {
            sent += flood.len();
        }
        let ended = client.until(|frame| frame.kind == GOAWAY).await;
        assert!(
            ended.is_none_or(|frame| matches!(frame.code(), PROTOCOL | CALM | COMPRESSION)),
            "{piece}"
        );
        assert!(sent < 4 << 20, "{piece}: closed after {sent} bytes");
    }
    world.check_oracles().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_head_that_is_too_large_is_431() {
    let world = world().await;
    let mut client = Frames::connect(world.running.address).await;
    let host = world.host.clone();
    let big = "a".repeat(30_000);
    let fields = [
        (":method", "GET"),
        (":scheme", "http"),
        (":path", "/apps/pub/x"),
        (":authority", &*host),
        ("x-a", &big),
        ("x-b", &big),
        ("x-c", &big),
    ];
    let bytes = block(&fields);
    for (index, piece) in bytes.chunks(16_000).enumerate() {
        let last = if (index + 1) * 16_000 >= bytes.len() {
            END_HEADERS
        } else {
            0
        };
        let (kind, flags) = if index == 0 {
            (HEADERS, END_STREAM)
        } else {
            (CONTINUATION, 0)
        };
        client.send(&Frame::new(kind, flags | last, 1, piece)).await;
    }
    let answer = client
        .until(|frame| frame.stream == 1)
        .await
        .expect("an answer");
    // `:status` 431 as a literal with the name of index 8: 48, and three digits in two bytes of
    // Huffman code.
    assert_eq!(
        (answer.kind, answer.payload.first()),
        (HEADERS, Some(&0x48)),
        "{answer:?}"
    );
    assert_eq!(world.reached(), 0);
    world.check_oracles().await;
}
