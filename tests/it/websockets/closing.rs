//! A WebSocket that must end is told so, between two frames, and so is the app; the process that
//! stops does the same.

use std::time::Duration;

use tokio::{
    io::AsyncWriteExt,
    net::{
        TcpListener,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
};

use crate::support::{
    backend::accept_of,
    message::{PATIENCE, Reader},
    raw::Raw,
    until::{assert_soon, until},
    world::World,
};

const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";
const HALF_AN_HOUR: Duration = Duration::from_secs(30 * 60);

/// A WebSocket of alice's, and the app's side of it.
struct Both {
    world: World,
    client: Raw,
    app: (Reader<OwnedReadHalf>, OwnedWriteHalf),
}

impl Both {
    async fn open() -> Both {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let app =
            format!("[[apps]]\nid = \"own\"\naccess = \"user\"\nupstream = \"http://{address}\"\n");
        let world = World::with(&app, |_| {}).await.ready().await;
        let alice = world.signed_in("alice").await;
        let mut client = world.raw().await;
        client
            .send(format!(
                "GET /apps/own/ws HTTP/1.1\r\nHost: {host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                 Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {KEY}\r\nOrigin: http://{host}\r\n{}\r\n",
                alice.cookie_line("/apps/own/"),
                host = world.host,
            ))
            .await;
        let (stream, _) = listener.accept().await.expect("the gateway comes");
        let (read, mut write) = stream.into_split();
        let mut reader = Reader::new(read);
        reader.head().await.expect("readable").expect("a handshake");
        let accept = accept_of(KEY);
        let head = format!(
            "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: {accept}\r\n\r\n"
        );
        write.write_all(head.as_bytes()).await.expect("written");
        assert_eq!(
            client
                .reader
                .head()
                .await
                .expect("readable")
                .expect("a head")
                .status(),
            101
        );
        Both {
            world,
            client,
            app: (reader, write),
        }
    }

    async fn app_says(&mut self, bytes: &[u8]) {
        self.app.1.write_all(bytes).await.expect("written");
    }
}

/// What an app's side is left with: the code of a masked Close frame at its end, and what stood
/// before it.
fn close_of(bytes: &[u8]) -> (Vec<u8>, u16) {
    // The last word, and all of it: the bytes of a masked payload are any.
    let is_it = |at: &usize| {
        let length = bytes
            .get(at + 1)
            .map_or(0, |length| usize::from(length ^ 0x80));
        bytes[*at] == 0x88 && length > 0 && bytes.len() == at + 6 + length
    };
    let at = (0..bytes.len())
        .find(is_it)
        .unwrap_or_else(|| panic!("no Close frame ends {bytes:02x?}"));
    let (key, payload) = (&bytes[at + 2..at + 6], &bytes[at + 6..]);
    let code = [payload[0] ^ key[0], payload[1] ^ key[1]];
    (bytes[..at].to_vec(), u16::from_be_bytes(code))
}

#[tokio::test(flavor = "multi_thread")]
async fn both_sides_are_told_when_the_session_ends() {
    let mut both = Both::open().await;
    both.client.send(b"\x81\x85\x00\x00\x00\x00hello").await;
    assert_eq!(
        both.app.0.exactly(11).await.expect("a frame"),
        b"\x81\x85\x00\x00\x00\x00hello"
    );
    both.app_says(b"\x81\x02ok").await;
    assert_eq!(
        both.client.reader.exactly(4).await.expect("a frame"),
        b"\x81\x02ok"
    );
    both.world.manual_clock.advance(HALF_AN_HOUR);
    assert_eq!(both.client.farewell().await, Some(1008));
    let (before, code) = close_of(&both.app.0.rest().await.expect("the end"));
    assert_eq!((before.as_slice(), code), (&b""[..], 1008));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frame_under_way_comes_whole_and_nothing_behind_it() {
    let mut both = Both::open().await;
    // Half a frame each way when the session ends.
    both.client.send(b"\x82\x86\x00\x00\x00\x00abc").await;
    assert_eq!(
        both.app.0.exactly(9).await.expect("half a frame"),
        b"\x82\x86\x00\x00\x00\x00abc"
    );
    both.app_says(b"\x82\x06uvw").await;
    assert_eq!(
        both.client.reader.exactly(5).await.expect("half a frame"),
        b"\x82\x06uvw"
    );
    let ended = both.world.log.line_with("\"path\":\"/apps/own/ws\"");
    both.world.manual_clock.advance(HALF_AN_HOUR);
    let inside = both.world.running.internals();
    until("the end is decided", || inside.streams_cut() > 0).await;
    // The rest, and more that must not come through.
    both.client.send(b"def\x81\x84\x00\x00\x00\x00late").await;
    both.app
        .1
        .write_all(b"xyz\x81\x04late")
        .await
        .expect("written");
    let mut told = both.client.reader.exactly(3).await.expect("the rest");
    assert_eq!(told, b"xyz");
    told.clear();
    assert_eq!(both.client.farewell().await, Some(1008));
    let (before, code) = close_of(&both.app.0.rest().await.expect("the end"));
    assert_eq!((before.as_slice(), code), (&b"def"[..], 1008));
    let line = tokio::time::timeout(PATIENCE, ended).await.expect("a line");
    assert_eq!(line["outcome"], "session_ended", "{line}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frame_that_never_ends_is_cut_within_two_seconds() {
    let mut both = Both::open().await;
    both.app_says(b"\x82\x06uvw").await;
    assert_eq!(
        both.client.reader.exactly(5).await.expect("half a frame"),
        b"\x82\x06uvw"
    );
    let began = std::time::Instant::now();
    both.world.manual_clock.advance(HALF_AN_HOUR);
    assert!(
        both.client.reader.rest().await.expect("the end").is_empty(),
        "no Close frame in the middle of another"
    );
    assert_soon(Duration::from_secs(2), began.elapsed());
    // The other way stood between frames.
    assert_eq!(close_of(&both.app.0.rest().await.expect("the end")).1, 1008);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_stops_says_so_and_does_not_wait_for_long() {
    let Both {
        world,
        mut client,
        mut app,
    } = Both::open().await;
    let began = std::time::Instant::now();
    let World { running, .. } = world;
    let stopped = tokio::spawn(running.stop());
    assert_eq!(client.farewell().await, Some(1001));
    assert_eq!(close_of(&app.0.rest().await.expect("the end")).1, 1001);
    assert!(
        stopped.await.expect("no panic"),
        "everybody finished in time"
    );
    assert_soon(Duration::from_secs(5), began.elapsed());
}
