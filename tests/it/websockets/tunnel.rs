//! Traffic of a WebSocket is not interpreted: every frame comes out as it went in, with any
//! content and in any fragments, over both versions of HTTP on either side. Cases are those of
//! RFC 6455 sections 5 and 7.

use std::net::SocketAddr;

use http::Request;
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    time::timeout,
};

use crate::{
    forwarding::upstreams::handshake,
    support::{
        backend::accept_of,
        http2::{Http2, whole},
        http2_app::Http2App,
        message::{PATIENCE, Reader},
        until::in_time,
        world::World,
    },
};

/// A frame of a client: masked with a key of four known bytes.
fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut out = vec![first];
    match payload.len() {
        short @ 0..=125 => out.push(0x80 | short as u8),
        medium @ 126..=0xffff => {
            out.push(0x80 | 126);
            out.extend((medium as u16).to_be_bytes());
        }
        long => {
            out.push(0x80 | 127);
            out.extend((long as u64).to_be_bytes());
        }
    }
    let key = [0x11, 0x22, 0x33, 0x44];
    out.extend(key);
    out.extend(
        payload
            .iter()
            .zip(key.iter().cycle())
            .map(|(byte, key)| byte ^ key),
    );
    out
}

fn close(code: u16, reason: &str) -> Vec<u8> {
    frame(0x88, &[&code.to_be_bytes()[..], reason.as_bytes()].concat())
}

trait Both: AsyncRead + AsyncWrite + Unpin + Send {}
impl<S: AsyncRead + AsyncWrite + Unpin + Send> Both for S {}

/// An open tunnel to the app, by either version.
async fn open(world: &World, app: &str, http2: bool) -> Box<dyn Both> {
    if http2 {
        let client = Http2::connect(world.running.address).await;
        let request = Request::connect(format!("http://{}/apps/{app}/ws", world.host))
            .header("sec-websocket-version", "13")
            .extension(hyper::ext::Protocol::from_static("websocket"));
        let answer = client
            .send(request.body(whole("")).expect("a request"))
            .await
            .expect("an answer");
        assert_eq!(answer.status(), 200, "{app}");
        return Box::new(TokioIo::new(
            hyper::upgrade::on(answer).await.expect("a tunnel"),
        ));
    }
    let mut stream = TcpStream::connect(world.running.address)
        .await
        .expect("connected");
    stream.set_nodelay(true).expect("a socket");
    stream
        .write_all(handshake(world, &format!("/apps/{app}/ws")).as_bytes())
        .await
        .expect("written");
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let byte = in_time("a head", stream.read_u8()).await;
        head.push(byte.expect("a head"));
    }
    assert!(
        head.starts_with(b"HTTP/1.1 101"),
        "{app}: {}",
        String::from_utf8_lossy(&head)
    );
    Box::new(stream)
}

/// Writes and reads at the same time; what comes back must be what went in.
async fn echoes(stream: &mut Box<dyn Both>, bytes: &[u8], piece: usize, name: &str) {
    let (mut read, mut write) = tokio::io::split(stream);
    let send = async {
        for piece in bytes.chunks(piece) {
            write.write_all(piece).await.expect("written");
            write.flush().await.expect("written");
        }
    };
    let mut back = vec![0; bytes.len()];
    let receive = async {
        timeout(3 * PATIENCE, read.read_exact(&mut back))
            .await
            .expect("in time")
            .expect("all of it")
    };
    tokio::join!(send, receive);
    assert!(back == bytes, "{name}: byte for byte");
}

async fn world(more: &str) -> World {
    let app = Http2App::start().await;
    let toml = format!(
        "[[apps]]\nid = \"h2\"\naccess = \"public\"\nupstream = \"http://{}\"\nprotocol = \"h2\"\n{more}",
        app.address()
    );
    World::with(&toml, |settings| settings.listen.h2c = true).await
}

const ROADS: [(&str, bool); 4] = [("pub", false), ("pub", true), ("h2", false), ("h2", true)];

#[tokio::test(flavor = "multi_thread")]
async fn frames_of_every_kind_and_length_come_out_as_they_went_in() {
    let world = world("").await;
    let data =
        |length: usize| -> Vec<u8> { (0..length).map(|at| (at * 7 + at / 251) as u8).collect() };
    let mut cases: Vec<(String, Vec<u8>)> =
        [0, 1, 125, 126, 127, 128, 65_535, 65_536, 65_537, 1 << 20]
            .map(|length| (format!("a message of {length}"), frame(0x82, &data(length))))
            .into();
    let parts = [
        frame(0x01, b"frag"),
        frame(0x00, b"men"),
        frame(0x89, b"ping between"),
        frame(0x00, b""),
        frame(0x80, b"ted"),
    ];
    cases.push((
        "a fragmented message with a ping inside".into(),
        parts.concat(),
    ));
    cases.push(("an unsolicited pong".into(), frame(0x8a, b"x")));
    cases.push(("an opcode that means nothing yet".into(), frame(0x83, b"x")));
    cases.push(("bits of an extension".into(), frame(0xf2, b"compressed?")));
    cases.push((
        "a text that is no UTF-8".into(),
        frame(0x81, b"\xff\xfe\xc0\x80"),
    ));
    cases.push(("a continuation of nothing".into(), frame(0x80, b"x")));
    for (app, http2) in ROADS {
        let mut stream = open(&world, app, http2).await;
        for (name, bytes) in &cases {
            echoes(
                &mut stream,
                bytes,
                usize::MAX,
                &format!("{name} to {app}, h2: {http2}"),
            )
            .await;
        }
        let small: Vec<u8> = cases[..4]
            .iter()
            .flat_map(|(_, bytes)| bytes.clone())
            .collect();
        echoes(
            &mut stream,
            &small,
            1,
            &format!("one byte at a time to {app}, h2: {http2}"),
        )
        .await;
        echoes(
            &mut stream,
            &cases[9].1,
            1021,
            &format!("in pieces to {app}, h2: {http2}"),
        )
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sixteen_mebibytes_in_one_message() {
    let world = world("").await;
    let message = frame(0x82, &vec![0x5a; 16 << 20]);
    for (app, http2) in ROADS {
        let mut stream = open(&world, app, http2).await;
        echoes(
            &mut stream,
            &message,
            1 << 16,
            &format!("{app}, h2: {http2}"),
        )
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn close_codes_and_reasons_are_the_app_s_and_the_client_s_own() {
    let world = world("").await;
    for (app, http2) in ROADS {
        for bytes in [
            1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 3000, 4999, 0, 999, 65_535,
        ]
        .map(|code| close(code, "because"))
        .into_iter()
        .chain([
            frame(0x88, b""),
            frame(0x88, b"x"),
            close(1000, &"r".repeat(123)),
        ]) {
            let mut stream = open(&world, app, http2).await;
            echoes(
                &mut stream,
                &bytes,
                usize::MAX,
                &format!("{app}, h2: {http2}, {bytes:?}"),
            )
            .await;
        }
    }
}

/// An app that takes everything until its client has ended, and then says how much it was.
async fn counting_app() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let (read, mut write) = stream.into_split();
                let mut reader = Reader::new(read);
                let Ok(Some(head)) = reader.head().await else {
                    return;
                };
                let accept = accept_of(&head.header("sec-websocket-key").unwrap_or_default());
                let head = format!(
                    "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: {accept}\r\n\r\n"
                );
                write.write_all(head.as_bytes()).await.expect("written");
                let all = reader.rest().await.expect("to its end");
                let said = format!("{} bytes", all.len());
                let mut last = vec![0x81, said.len() as u8];
                last.extend(said.bytes());
                let _ = write.write_all(&last).await;
            });
        }
    });
    address
}

#[tokio::test(flavor = "multi_thread")]
async fn who_has_said_all_may_still_listen() {
    let app = counting_app().await;
    let world = world(&format!(
        "[[apps]]\nid = \"half\"\naccess = \"public\"\nupstream = \"http://{app}\"\n"
    ))
    .await;
    for http2 in [false, true] {
        let mut stream = open(&world, "half", http2).await;
        for _ in 0..10 {
            stream
                .write_all(&frame(0x82, &[1; 1000]))
                .await
                .expect("written");
        }
        stream.shutdown().await.expect("half closed");
        let mut last = Vec::new();
        timeout(PATIENCE, stream.read_to_end(&mut last))
            .await
            .expect("in time")
            .expect("readable");
        assert_eq!(
            last,
            [&[0x81, 11][..], b"10080 bytes"].concat(),
            "h2: {http2}"
        );
    }
}
