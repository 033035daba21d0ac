//! HTTP/2 frames that no client should send: each ends its stream or its connection with the code
//! that RFC 9113 names, and never reaches an app. The sections are those of the RFC.

use crate::support::{
    http2::{
        ACK, CONTINUATION, DATA, END_HEADERS, END_STREAM, Frame, Frames, GOAWAY, HEADERS, PADDED,
        PING, PRIORITY, PUSH_PROMISE, RST_STREAM, SETTINGS, WINDOW_UPDATE, block,
    },
    message::PATIENCE,
    world::World,
};
use Ends::{Answered, Connection, Stream};

pub(super) const PROTOCOL: u32 = 1;

const FLOW_CONTROL: u32 = 3;

pub(super) const CLOSED: u32 = 5;

/// h2 says the general word for some of them.
const SIZE: &[u32] = &[6, PROTOCOL];

pub(super) const REFUSED: u32 = 7;

pub(super) const COMPRESSION: u32 = 9;

pub(super) const CALM: u32 = 11;

/// What a case ends with. h2 says PROTOCOL_ERROR where section 4.3 would have COMPRESSION_ERROR;
/// both end the connection.
pub(super) enum Ends {
    /// The connection, with this code; or with it gone without a word, where the RFC allows that.
    Connection(&'static [u32]),
    /// Stream 1 with this code, or with it the connection.
    Stream(&'static [u32]),
    /// Stream 1 is answered, with success.
    Answered,
}

pub(super) async fn world() -> World {
    World::as_program("h2c = true\n", "").await
}

/// A head for the public app.
pub(super) fn head(world: &World, more: &[(&str, &str)]) -> Vec<u8> {
    let usual = [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", "/apps/pub/x"),
        (":authority", world.host.as_str()),
    ];
    block(&[&usual[..], more].concat())
}

pub(super) fn opens(world: &World, flags: u8) -> Frame {
    Frame::new(HEADERS, flags | END_HEADERS, 1, head(world, &[]))
}

pub(super) async fn check(world: &World, name: &str, frames: &[Frame], ends: Ends) {
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
async fn every_wrong_frame_ends_what_rfc_9113_says_it_ends() {
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
