//! HTTP/2 frames that no client should send: each ends its stream or its connection with the code
//! that RFC 9113 names, and never reaches an app. The sections are those of the RFC; V101-V106 are
//! rows of security.md.

use crate::support::{
    http2::{
        ACK, CONTINUATION, DATA, END_HEADERS, END_STREAM, Frame, Frames, GOAWAY, HEADERS, PADDED,
        PING, PRIORITY, PUSH_PROMISE, RST_STREAM, SETTINGS, WINDOW_UPDATE, block,
    },
    message::PATIENCE,
    world::World,
};

const PROTOCOL: u32 = 1;
const FLOW_CONTROL: u32 = 3;
const CLOSED: u32 = 5;
/// h2 says the general word for some of them.
const SIZE: &[u32] = &[6, PROTOCOL];
const REFUSED: u32 = 7;
const COMPRESSION: u32 = 9;
const CALM: u32 = 11;

/// What a case ends with. h2 says PROTOCOL_ERROR where section 4.3 would have COMPRESSION_ERROR;
/// both end the connection.
enum Ends {
    /// The connection, with this code; or with it gone without a word, where the RFC allows that.
    Connection(&'static [u32]),
    /// Stream 1 with this code, or with it the connection.
    Stream(&'static [u32]),
    /// Stream 1 is answered, with success.
    Answered,
}
use Ends::{Answered, Connection, Stream};

async fn world() -> World {
    World::with("", |settings| settings.listen.h2c = true).await
}

/// A head for the public app.
fn head(world: &World, more: &[(&str, &str)]) -> Vec<u8> {
    let usual = [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", "/apps/pub/x"),
        (":authority", world.host.as_str()),
    ];
    block(&[&usual[..], more].concat())
}

fn opens(world: &World, flags: u8) -> Frame {
    Frame::new(HEADERS, flags | END_HEADERS, 1, head(world, &[]))
}

async fn check(world: &World, name: &str, frames: &[Frame], ends: Ends) {
    let mut client = Frames::connect(world.running.address).await;
    for frame in frames {
        client.send(frame).await;
    }
    // An answer to this shows what came before it was survived.
    client.send(&Frame::new(PING, 0, 0, *b"the last")).await;
    let wanted = |frame: &Frame| match ends {
        Connection(_) => frame.kind == GOAWAY,
        Stream(_) => frame.kind == GOAWAY || (frame.kind == RST_STREAM && frame.stream == 1),
        Answered => {
            frame.kind == GOAWAY
                || (frame.stream == 1 && (frame.kind == HEADERS || frame.kind == RST_STREAM))
        }
    };
    let waited = tokio::time::timeout(PATIENCE / 2, client.until(wanted)).await;
    let Some(frame) = waited.unwrap_or_else(|_| panic!("{name}: nothing happened")) else {
        assert!(
            matches!(ends, Connection(_)),
            "{name}: the connection ended without a word"
        );
        return;
    };
    match ends {
        Connection(code) | Stream(code) => {
            assert!(code.contains(&frame.code()), "{name}: {frame:?}")
        }
        Answered => {
            assert_eq!(
                (frame.kind, frame.payload.first()),
                (HEADERS, Some(&0x88)),
                "{name}: {frame:?}"
            )
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn frames_streams_and_settings() {
    let world = world().await;
    let window = |stream, by: u32| Frame::new(WINDOW_UPDATE, 0, stream, by.to_be_bytes());
    let setting = |id: u8, value: u32| {
        Frame::new(
            SETTINGS,
            0,
            0,
            [&[0, id][..], &value.to_be_bytes()].concat(),
        )
    };
    let whole = opens(&world, END_STREAM);
    let open = opens(&world, 0);
    let never = [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", "/apps/pub/never"),
        (":authority", world.host.as_str()),
    ];
    let begun = Frame::new(HEADERS, 0, 1, block(&never));
    let data = |stream, flags, bytes: &[u8]| Frame::new(DATA, flags, stream, bytes);
    let on = |stream: u32, frame: &Frame| Frame {
        stream,
        ..frame.clone()
    };
    let cases: Vec<(&str, Vec<Frame>, Ends)> = vec![
        (
            "4.1 an unknown frame is ignored",
            vec![Frame::new(22, 255, 0, *b"x"), whole.clone()],
            Answered,
        ),
        (
            "4.2 a frame larger than allowed",
            vec![open.clone(), data(1, 0, &[0; 16_385])],
            Connection(SIZE),
        ),
        (
            "4.3 an index that is none",
            vec![Frame::new(HEADERS, END_HEADERS | END_STREAM, 1, [0x80])],
            Connection(&[PROTOCOL]),
        ),
        (
            "4.3 an index beyond the table",
            vec![Frame::new(
                HEADERS,
                END_HEADERS | END_STREAM,
                1,
                [0xff, 0xff, 0x7f],
            )],
            Connection(&[PROTOCOL]),
        ),
        (
            "4.3 a literal that ends early",
            vec![Frame::new(
                HEADERS,
                END_HEADERS | END_STREAM,
                1,
                [0, 5, b'x'],
            )],
            Connection(&[PROTOCOL]),
        ),
        (
            "5.1 DATA on an idle stream",
            vec![data(1, 0, b"x")],
            Connection(&[PROTOCOL]),
        ),
        (
            "5.1 RST_STREAM on an idle stream",
            vec![Frame::new(RST_STREAM, 0, 1, 8_u32.to_be_bytes())],
            Connection(&[PROTOCOL]),
        ),
        (
            "5.1 WINDOW_UPDATE on an idle stream",
            vec![window(1, 1)],
            Connection(&[PROTOCOL]),
        ),
        (
            "5.1 CONTINUATION on an idle stream",
            vec![Frame::new(CONTINUATION, END_HEADERS, 1, head(&world, &[]))],
            Connection(&[PROTOCOL]),
        ),
        (
            "5.1 DATA behind the end",
            vec![whole.clone(), data(1, 0, b"x")],
            Stream(&[CLOSED, PROTOCOL]),
        ),
        (
            "5.1.1 a stream of the server's",
            vec![on(2, &whole)],
            Connection(&[PROTOCOL]),
        ),
        (
            "5.1.1 a smaller stream than before",
            vec![on(5, &whole), on(3, &whole)],
            Connection(&[PROTOCOL]),
        ),
        (
            "5.5 an unknown frame inside a head",
            vec![begun.clone(), Frame::new(22, 0, 1, [])],
            Connection(&[PROTOCOL]),
        ),
        (
            "6.1 DATA on stream 0",
            vec![data(0, 0, b"x")],
            Connection(&[PROTOCOL]),
        ),
        (
            "6.1 more padding than there is",
            vec![open.clone(), data(1, PADDED, &[9, 0, 0])],
            Connection(&[PROTOCOL]),
        ),
        (
            "6.1 padding is not part of the body",
            vec![open.clone(), data(1, PADDED | END_STREAM, &[2, b'x', 0, 0])],
            Answered,
        ),
        (
            "6.2 HEADERS on stream 0",
            vec![on(0, &whole)],
            Connection(&[PROTOCOL]),
        ),
        (
            "6.2 a head that another frame interrupts",
            vec![begun.clone(), data(1, 0, b"x")],
            Connection(&[PROTOCOL]),
        ),
        (
            "6.2 a head that another head interrupts",
            vec![begun.clone(), on(3, &whole)],
            Connection(&[PROTOCOL]),
        ),
        (
            "6.2 more padding than there is",
            vec![Frame::new(HEADERS, END_HEADERS | PADDED, 1, [200, 0x82])],
            Connection(&[PROTOCOL]),
        ),
        (
            "6.3 PRIORITY on stream 0",
            vec![Frame::new(PRIORITY, 0, 0, [0, 0, 0, 3, 1])],
            Connection(&[PROTOCOL]),
        ),
        (
            "6.4 RST_STREAM on stream 0",
            vec![Frame::new(RST_STREAM, 0, 0, 8_u32.to_be_bytes())],
            Connection(&[PROTOCOL]),
        ),
        (
            "6.4 RST_STREAM of another length",
            vec![open.clone(), Frame::new(RST_STREAM, 0, 1, [0; 3])],
            Connection(SIZE),
        ),
        (
            "6.5 SETTINGS on a stream",
            vec![Frame::new(SETTINGS, 0, 1, [])],
            Connection(&[PROTOCOL]),
        ),
        (
            "6.5 SETTINGS of another length",
            vec![Frame::new(SETTINGS, 0, 0, [0; 5])],
            Connection(SIZE),
        ),
        (
            "6.5 an acknowledgement that says something",
            vec![Frame::new(SETTINGS, ACK, 0, [0; 6])],
            Connection(SIZE),
        ),
        (
            "6.5.2 push neither on nor off",
            vec![setting(2, 2)],
            Connection(&[PROTOCOL]),
        ),
        (
            "6.5.2 a window beyond all",
            vec![setting(4, 0x8000_0000)],
            Connection(&[FLOW_CONTROL, PROTOCOL]),
        ),
        (
            "6.5.2 frames too small",
            vec![setting(5, 16_383)],
            Connection(&[PROTOCOL]),
        ),
        (
            "6.5.2 frames too large",
            vec![setting(5, 1 << 24)],
            Connection(&[PROTOCOL]),
        ),
        (
            "6.5.2 an unknown setting is ignored",
            vec![setting(99, 1), whole.clone()],
            Answered,
        ),
        (
            "6.6 PUSH_PROMISE from a client",
            vec![
                open.clone(),
                Frame::new(PUSH_PROMISE, END_HEADERS, 1, [0, 0, 0, 2, 0x82]),
            ],
            Connection(&[PROTOCOL]),
        ),
        (
            "6.7 PING on a stream",
            vec![Frame::new(PING, 0, 1, [0; 8])],
            Connection(&[PROTOCOL]),
        ),
        (
            "6.7 PING of another length",
            vec![Frame::new(PING, 0, 0, [0; 7])],
            Connection(SIZE),
        ),
        (
            "6.8 GOAWAY on a stream",
            vec![Frame::new(GOAWAY, 0, 1, [0; 8])],
            Connection(&[PROTOCOL]),
        ),
        (
            "6.9 a window by nothing",
            vec![window(0, 0)],
            Connection(&[PROTOCOL]),
        ),
        (
            "6.9 a stream's window by nothing",
            vec![open.clone(), window(1, 0)],
            Stream(&[PROTOCOL]),
        ),
        (
            "6.9 WINDOW_UPDATE of another length",
            vec![Frame::new(WINDOW_UPDATE, 0, 0, [0; 3])],
            Connection(SIZE),
        ),
        (
            "6.9.1 a window beyond all",
            vec![window(0, 0x7fff_ffff)],
            Connection(&[FLOW_CONTROL, PROTOCOL]),
        ),
        (
            "6.9.1 a stream's window beyond all",
            vec![open.clone(), window(1, 0x7fff_ffff)],
            Stream(&[FLOW_CONTROL]),
        ),
        (
            "6.10 CONTINUATION on stream 0",
            vec![begun.clone(), Frame::new(CONTINUATION, END_HEADERS, 0, [])],
            Connection(&[PROTOCOL]),
        ),
        (
            "6.10 CONTINUATION behind the end of a head",
            vec![
                open.clone(),
                Frame::new(CONTINUATION, END_HEADERS, 1, [0x82]),
            ],
            Connection(&[PROTOCOL]),
        ),
        (
            "6.10 CONTINUATION on another stream",
            vec![begun.clone(), Frame::new(CONTINUATION, END_HEADERS, 3, [])],
            Connection(&[PROTOCOL]),
        ),
    ];
    for (name, frames, ends) in cases {
        check(&world, name, &frames, ends).await;
        let seen = world.backend("pub").seen();
        assert!(
            !seen.iter().any(|seen| seen.target().ends_with("/never")),
            "{name}: half a head reaches no app"
        );
    }
    world.check_oracles().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn heads_and_bodies() {
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
            "V85 two lengths",
            with(&[("content-length", "1"), ("content-length", "2")]),
            Stream(&[PROTOCOL]),
        ),
        (
            "V92 a length and no body",
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
            "V92 a body shorter than its length",
            vec![opens.clone(), data(END_STREAM, b"abc")],
            Stream(&[PROTOCOL]),
        ),
        (
            "V92 a body longer than its length",
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
    // V103: more than any head may be, in frames that each are fine.
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
            "V103 {piece}"
        );
        assert!(sent < 4 << 20, "V103 {piece}: closed after {sent} bytes");
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

#[tokio::test(flavor = "multi_thread")]
async fn more_streams_than_agreed_are_refused_and_the_others_go_on() {
    let world = World::with("", |settings| {
        settings.listen.h2c = true;
        settings.listen.streams = 3;
    })
    .await;
    let mut client = Frames::connect(world.running.address).await;
    let hang = |stream: u32| {
        Frame::new(
            HEADERS,
            END_HEADERS | END_STREAM,
            stream,
            block(&[
                (":method", "GET"),
                (":scheme", "http"),
                (":path", "/apps/pub/hang"),
                (":authority", &world.host),
            ]),
        )
    };
    for stream in [1, 3, 5, 7] {
        client.send(&hang(stream)).await;
    }
    let refused = client
        .until(|frame| frame.kind == RST_STREAM || frame.kind == GOAWAY)
        .await
        .expect("refused");
    assert_eq!(
        (refused.kind, refused.stream, refused.code()),
        (RST_STREAM, 7, REFUSED)
    );
    client
        .send(&Frame::new(RST_STREAM, 0, 1, 8_u32.to_be_bytes()))
        .await;
    client
        .send(&Frame::new(
            HEADERS,
            END_HEADERS | END_STREAM,
            9,
            head(&world, &[]),
        ))
        .await;
    let answer = client
        .until(|frame| frame.stream == 9)
        .await
        .expect("an answer");
    assert_eq!(
        (answer.kind, answer.payload.first()),
        (HEADERS, Some(&0x88))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn floods_end_the_connection_and_nobody_else_notices() {
    let world = world().await;
    let get = |stream: u32| {
        Frame::new(
            HEADERS,
            END_HEADERS | END_STREAM,
            stream,
            block(&[
                (":method", "GET"),
                (":scheme", "http"),
                (":path", "/apps/pub/x"),
                (":authority", &world.host),
            ]),
        )
        .bytes()
    };
    let open = |stream: u32| {
        opens(&world, 0)
            .bytes()
            .into_iter()
            .take(5)
            .chain(stream.to_be_bytes())
            .chain(head(&world, &[]))
            .collect::<Vec<u8>>()
    };
    let reset = |stream: u32| Frame::new(RST_STREAM, 0, stream, 8_u32.to_be_bytes()).bytes();
    let nothing = |stream: u32| Frame::new(WINDOW_UPDATE, 0, stream, [0; 4]).bytes();
    // Each round of a flood, and more rounds than the buffers on the way hold.
    type Round<'r> = Box<dyn Fn(u32) -> Vec<u8> + 'r>;
    let floods: [(&str, Round<'_>, u32); 2] = [
        (
            "V101 opened and reset",
            Box::new(|round| [get(1 + 2 * round), reset(1 + 2 * round)].concat()),
            100_000,
        ),
        (
            "V102 reset by us",
            Box::new(|round| [open(1 + 2 * round), nothing(1 + 2 * round)].concat()),
            100_000,
        ),
    ];
    for (name, round, most) in floods {
        let client = Frames::connect(world.running.address).await;
        let (mut read, mut write) = client.split();
        let ended = tokio::spawn(async move { read.until(|frame| frame.kind == GOAWAY).await });
        let mut rounds = 0;
        while rounds < most && !ended.is_finished() && write.raw(&round(rounds)).await {
            rounds += 1;
        }
        let ended = ended.await.expect("no panic");
        assert!(
            ended.is_none_or(|frame| matches!(frame.code(), CALM | PROTOCOL | CLOSED)),
            "{name}"
        );
        assert!(rounds < most, "{name}: {rounds} rounds");
        world.check_oracles_of_framing().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn cheap_frames_without_end_hold_up_nobody() {
    let world = world().await;
    let empty = Frame::new(DATA, 0, 1, []).bytes();
    let ping = Frame::new(PING, 0, 0, [7; 8]).bytes();
    let settings = Frame::new(SETTINGS, 0, 0, []).bytes();
    let priority = Frame::new(PRIORITY, 0, 1, [0, 0, 0, 0, 1]).bytes();
    for frame in [empty, ping, settings, priority] {
        let mut client = Frames::connect(world.running.address).await;
        client.send(&opens(&world, 0)).await;
        let (mut read, mut write) = client.split();
        let drained = tokio::spawn(async move { while read.next().await.is_some() {} });
        let many = frame.repeat(1000);
        for _ in 0..50 {
            if !write.raw(&many).await {
                break;
            }
        }
        // Whatever became of that connection, others are served.
        world.check_oracles_of_framing().await;
        drop(write);
        drained.abort();
    }
}
