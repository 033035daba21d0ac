//! A recording app: keeps every byte it was sent, and answers what its path asks for.

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use base64::{Engine, engine::general_purpose::STANDARD};
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt},
    net::TcpListener,
};

use super::{
    message::{Message, Reader},
    world::free_port,
};

/// A recording app. Cloning gives the same one.
#[derive(Clone)]
pub struct Backend(Arc<Inner>);

struct Inner {
    name: &'static str,
    address: SocketAddr,
    seen: Mutex<Vec<Message>>,
    connections: AtomicUsize,
    /// Raw bytes to answer every request with, instead of the usual answers.
    script: Mutex<Option<Vec<u8>>>,
    dying: AtomicBool,
}

impl Backend {
    pub async fn start(name: &'static str) -> Backend {
        Backend::on(
            name,
            std::net::TcpListener::bind("127.0.0.1:0").expect("a port"),
        )
    }

    /// On a socket that was opened somewhere else.
    pub fn on(name: &'static str, listener: std::net::TcpListener) -> Backend {
        listener.set_nonblocking(true).expect("a socket");
        let listener = TcpListener::from_std(listener).expect("a socket");
        let backend = Backend::nowhere(name, listener.local_addr().expect("an address"));
        let serving = backend.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let backend = serving.clone();
                tokio::spawn(async move { backend.serve(stream).await });
            }
        });
        backend
    }

    /// A backend without a listener: the test accepts its connections.
    pub fn nowhere(name: &'static str, address: SocketAddr) -> Backend {
        Backend(Arc::new(Inner {
            name,
            address,
            seen: Mutex::default(),
            connections: AtomicUsize::new(0),
            script: Mutex::new(None),
            dying: AtomicBool::new(false),
        }))
    }

    pub fn address(&self) -> SocketAddr {
        self.0.address
    }

    /// Every request so far, as it came.
    pub fn seen(&self) -> Vec<Message> {
        self.0.seen.lock().expect("no panic").clone()
    }

    pub fn count(&self) -> usize {
        self.0.seen.lock().expect("no panic").len()
    }

    pub fn last(&self) -> Message {
        self.seen()
            .pop()
            .unwrap_or_else(|| panic!("{} was not reached", self.0.name))
    }

    pub fn connections(&self) -> usize {
        self.0.connections.load(Ordering::SeqCst)
    }

    /// Answers every further request with these bytes, then closes when `Connection: close` is in
    /// them.
    pub fn script(&self, bytes: impl Into<Option<Vec<u8>>>) {
        *self.0.script.lock().expect("no panic") = bytes.into();
    }

    /// From now on a connection ends without a word when a request comes on it, as if the process
    /// had gone.
    pub fn die(&self) {
        self.0.dying.store(true, Ordering::SeqCst);
    }

    fn record(&self, message: &Message) {
        self.0.seen.lock().expect("no panic").push(message.clone());
    }

    /// Answers on one connection until it ends.
    pub async fn serve(&self, stream: impl AsyncRead + AsyncWrite) {
        self.0.connections.fetch_add(1, Ordering::SeqCst);
        let (read, mut write) = tokio::io::split(stream);
        let mut reader = Reader::new(read);
        loop {
            // A streaming answer begins before the body is complete, so `early` is answered from
            // the head.
            let Ok(Some(message)) = reader.message(false).await else {
                return;
            };
            if message.truncated {
                self.record(&message);
                return;
            }
            let script = self.0.script.lock().expect("no panic").clone();
            self.record(&message);
            if self.0.dying.load(Ordering::SeqCst) {
                return;
            }
            if let Some(script) = script {
                let _ = write.write_all(&script).await;
                if script
                    .windows(17)
                    .any(|w| w.eq_ignore_ascii_case(b"connection: close"))
                {
                    return;
                }
                continue;
            }
            let path = message
                .target()
                .split('?')
                .next()
                .unwrap_or_default()
                .to_owned();
            let verb = path.rsplit('/').next().unwrap_or_default();
            let answer = match verb {
                "echo" => answer(&message.body, ""),
                "cookies" => answer(b"set", "Set-Cookie: own=1; Path=/; Domain=test\r\nSet-Cookie: ludgate=evil; Path=/\r\nSet-Cookie: phapplication-session-id=evil\r\n"),
                "reason" => b"HTTP/1.1 299 Quite All Right\r\nX-A: 1\r\nX-A: 2\r\nContent-Length: 0\r\n\r\n".to_vec(),
                "origin-wide" => answer(b"x", "Clear-Site-Data: \"*\"\r\nStrict-Transport-Security: max-age=1\r\nAlt-Svc: x\r\nNEL: {}\r\nReport-To: {}\r\nReporting-Endpoints: a\r\nSet-Login: x\r\nService-Worker-Allowed: /\r\nConnection: X-Hop\r\nX-Hop: 1\r\nKeep-Alive: timeout=5\r\nX-Kept: 1\r\n"),
                "chunked" => b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n3\r\ndef\r\n0\r\n\r\n".to_vec(),
                "trailers" => b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n3\r\nabc\r\n0\r\nX-Sum: 6\r\n\r\n".to_vec(),
                "range" => b"HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 0-1/6\r\nContent-Length: 2\r\n\r\nab".to_vec(),
                "early-hints" => b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".to_vec(),
                "close" => return,
                "cut" => {
                    let _ = write.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n0123456789").await;
                    return;
                }
                "cut-chunked" => {
                    let _ = write.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n").await;
                    return;
                }
                "hang" => {
                    let _ = reader.rest().await;
                    return;
                }
                "sse" => {
                    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
                    let _ = write.write_all(format!("{head}9\r\ndata: 1\n\n\r\n").as_bytes()).await;
                    let _ = reader.rest().await;
                    return;
                }
                "ws" | "ws-data" => {
                    self.websocket(&message, &mut reader, &mut write, verb == "ws-data").await;
                    return;
                }
                _ => answer(format!("{} {path}", self.0.name).as_bytes(), ""),
            };
            let head_only = message.start.starts_with("HEAD ");
            let end = answer
                .windows(4)
                .position(|w| w == b"\r\n\r\n")
                .map_or(answer.len(), |at| at + 4);
            let answer = if head_only {
                &answer[..end]
            } else {
                &answer[..]
            };
            if write.write_all(answer).await.is_err() || write.flush().await.is_err() {
                return;
            }
        }
    }

    /// Accepts the handshake and sends every byte back.
    async fn websocket(
        &self,
        message: &Message,
        reader: &mut Reader<impl AsyncRead + Unpin>,
        write: &mut (impl AsyncWrite + Unpin),
        speaks_first: bool,
    ) {
        let accept = accept_of(&message.header("sec-websocket-key").unwrap_or_default());
        let extra = if speaks_first {
            "X-Hop: 1\r\nAlt-Svc: x\r\n"
        } else {
            ""
        };
        let hop = if speaks_first { ", X-Hop" } else { "" };
        let head = format!(
            "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade{hop}\r\nUpgrade: websocket\r\n{extra}Sec-WebSocket-Accept: {accept}\r\n\r\n"
        );
        if write.write_all(head.as_bytes()).await.is_err() {
            return;
        }
        while let Ok(bytes) = reader.some().await {
            if bytes.is_empty() || write.write_all(&bytes).await.is_err() {
                return;
            }
        }
    }
}

/// RFC 6455 section 1.3.
pub fn accept_of(key: &str) -> String {
    let mut hash = aws_lc_rs::digest::Context::new(&aws_lc_rs::digest::SHA1_FOR_LEGACY_USE_ONLY);
    hash.update(key.as_bytes());
    hash.update(b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11");
    STANDARD.encode(hash.finish())
}

fn answer(body: &[u8], headers: &str) -> Vec<u8> {
    let mut out = format!(
        "HTTP/1.1 200 OK\r\n{headers}Content-Length: {}\r\n\r\n",
        body.len()
    )
    .into_bytes();
    out.extend_from_slice(body);
    out
}

/// A port without a listener, which no outgoing connection gets either.
pub async fn refused_port() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], free_port()))
}
