//! HTTP/2 in tests: a well-behaved client (hyper's), and frames written by hand for everything that
//! none would send.

use std::net::SocketAddr;

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt, Full, combinators::BoxBody};
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadHalf, WriteHalf},
    net::TcpStream,
    time::timeout,
};

use super::{message::PATIENCE, world::World};

pub type Body = BoxBody<Bytes, std::io::Error>;

pub fn whole(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into())
        .map_err(|never| match never {})
        .boxed()
}

/// One connection of a client.
#[derive(Clone)]
pub struct Http2(pub SendRequest<Body>);

/// An answer, whole.
#[derive(Debug)]
pub struct Whole {
    pub head: http::response::Parts,
    pub body: Bytes,
    pub trailers: Option<HeaderMap>,
}

impl Whole {
    pub fn status(&self) -> u16 {
        self.head.status.as_u16()
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.head
            .headers
            .get(name)
            .map(|value| value.to_str().expect("a text"))
    }

    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("a text")
    }
}

impl Http2 {
    /// To a gateway that understands HTTP/2 without TLS.
    pub async fn connect(address: SocketAddr) -> Http2 {
        Http2::over(
            TcpStream::connect(address)
                .await
                .expect("the gateway listens"),
        )
        .await
    }

    pub async fn over(stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) -> Http2 {
        let shaken = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await;
        let (sender, connection) = shaken.expect("HTTP/2");
        tokio::spawn(async move {
            let _ = connection.await;
        });
        Http2(sender)
    }

    pub async fn send(
        &self,
        request: Request<Body>,
    ) -> hyper::Result<Response<hyper::body::Incoming>> {
        let mut sender = self.0.clone();
        timeout(PATIENCE, sender.send_request(request))
            .await
            .expect("an answer in time")
    }

    pub async fn whole(&self, request: Request<Body>) -> Whole {
        let (head, body) = self.send(request).await.expect("an answer").into_parts();
        let collected = timeout(PATIENCE, body.collect())
            .await
            .expect("in time")
            .expect("whole");
        let trailers = collected.trailers().cloned();
        Whole {
            head,
            body: collected.to_bytes(),
            trailers,
        }
    }
}

/// `http://<authority of the world><target>`.
pub fn get(world: &World, target: &str) -> http::request::Builder {
    Request::get(format!("http://{}{target}", world.host))
}

pub const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
pub const PRIORITY: u8 = 2;
pub const RST_STREAM: u8 = 3;
pub const SETTINGS: u8 = 4;
pub const PUSH_PROMISE: u8 = 5;
pub const PING: u8 = 6;
pub const GOAWAY: u8 = 7;
pub const WINDOW_UPDATE: u8 = 8;
pub const CONTINUATION: u8 = 9;

pub const END_STREAM: u8 = 1;
pub const ACK: u8 = 1;
pub const END_HEADERS: u8 = 4;
pub const PADDED: u8 = 8;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    pub kind: u8,
    pub flags: u8,
    pub stream: u32,
    pub payload: Vec<u8>,
}

impl Frame {
    pub fn new(kind: u8, flags: u8, stream: u32, payload: impl Into<Vec<u8>>) -> Frame {
        Frame {
            kind,
            flags,
            stream,
            payload: payload.into(),
        }
    }

    pub fn bytes(&self) -> Vec<u8> {
        let length = u32::try_from(self.payload.len()).expect("a frame");
        let mut bytes = length.to_be_bytes()[1..].to_vec();
        bytes.extend([self.kind, self.flags]);
        bytes.extend(self.stream.to_be_bytes());
        bytes.extend(&self.payload);
        bytes
    }

    /// The error code of a RST_STREAM or GOAWAY.
    pub fn code(&self) -> u32 {
        let at = if self.kind == GOAWAY { 4 } else { 0 };
        u32::from_be_bytes(self.payload[at..at + 4].try_into().expect("four bytes"))
    }
}

/// HPACK without a table: every field as a literal that is not indexed (RFC 7541 section 6.2.2).
pub fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, value) in fields {
        out.push(0);
        for text in [name, value] {
            integer(&mut out, text.len());
            out.extend(text.bytes());
        }
    }
    out
}

/// RFC 7541 section 5.1, with a prefix of seven bits.
fn integer(out: &mut Vec<u8>, mut value: usize) {
    if value < 127 {
        out.push(value as u8);
        return;
    }
    out.push(127);
    value -= 127;
    while value >= 128 {
        out.push((value % 128) as u8 | 128);
        value /= 128;
    }
    out.push(value as u8);
}

/// A connection whose frames are written by hand.
pub struct Frames<S> {
    stream: S,
}

impl Frames<TcpStream> {
    /// Both sides have told their settings.
    pub async fn connect(address: SocketAddr) -> Frames<TcpStream> {
        let mut frames = Frames::begin(address).await;
        frames.send(&Frame::new(SETTINGS, 0, 0, [])).await;
        let settings = frames.next().await.expect("settings");
        assert_eq!((settings.kind, settings.flags), (SETTINGS, 0));
        frames.send(&Frame::new(SETTINGS, ACK, 0, [])).await;
        frames
    }

    /// The preface was sent, and no settings.
    pub async fn begin(address: SocketAddr) -> Frames<TcpStream> {
        let mut stream = TcpStream::connect(address)
            .await
            .expect("the gateway listens");
        stream.set_nodelay(true).expect("a socket");
        stream
            .write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
            .await
            .expect("written");
        Frames { stream }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Frames<S> {
    /// To read and to write at the same time.
    pub fn split(self) -> (Frames<ReadHalf<S>>, Frames<WriteHalf<S>>) {
        let (read, write) = tokio::io::split(self.stream);
        (Frames { stream: read }, Frames { stream: write })
    }
}

impl<S: AsyncWrite + Unpin> Frames<S> {
    pub async fn send(&mut self, frame: &Frame) {
        self.raw(&frame.bytes()).await;
    }

    /// The gateway may close while a hostile frame is still being written; that is an answer too.
    pub async fn raw(&mut self, bytes: &[u8]) -> bool {
        self.stream.write_all(bytes).await.is_ok()
    }

    pub async fn headers(&mut self, stream: u32, flags: u8, fields: &[(&str, &str)]) {
        self.send(&Frame::new(
            HEADERS,
            flags | END_HEADERS,
            stream,
            block(fields),
        ))
        .await;
    }
}

impl<S: AsyncRead + Unpin> Frames<S> {
    /// The next frame; `None` at the end of the connection.
    pub async fn next(&mut self) -> Option<Frame> {
        let mut head = [0; 9];
        let read = timeout(PATIENCE, self.stream.read_exact(&mut head))
            .await
            .expect("a frame in time");
        read.ok()?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let mut payload = vec![0; usize::try_from(length).expect("small")];
        let read = timeout(PATIENCE, self.stream.read_exact(&mut payload))
            .await
            .expect("a frame in time");
        read.ok()?;
        let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]) & 0x7fff_ffff;
        Some(Frame {
            kind: head[3],
            flags: head[4],
            stream,
            payload,
        })
    }

    /// The next frame that is wanted; `None`: the connection ended before.
    pub async fn until(&mut self, wanted: impl Fn(&Frame) -> bool) -> Option<Frame> {
        loop {
            let frame = self.next().await?;
            if wanted(&frame) {
                return Some(frame);
            }
        }
    }
}
