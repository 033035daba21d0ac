//! A small console as Ludgate is put in front of: its own login, pages, an API, files, events and a
//! WebSocket.
//!
//! It keeps what it was sent as it came, and answers with hand-written bytes: nothing on its side
//! tidies up what a comparison is to see.

pub mod answers;
pub mod websocket;

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use tokio::{
    io::AsyncWriteExt,
    net::{TcpListener, TcpStream},
    sync::Semaphore,
};

use super::message::{Message, Reader};
use answers::{Answer, answer};

/// Cloning gives the same console.
#[derive(Clone)]
pub struct Console(Arc<Inner>);

struct Inner {
    address: SocketAddr,
    seen: Mutex<Vec<Message>>,
    /// One permit for each `POST /go`: a held answer goes on with such a request, not after a time.
    go: Semaphore,
}

impl Console {
    pub async fn start() -> Console {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let console = Console(Arc::new(Inner {
            address,
            seen: Mutex::default(),
            go: Semaphore::new(0),
        }));
        let serving = console.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let console = serving.clone();
                tokio::spawn(async move { console.serve(stream).await });
            }
        });
        console
    }

    pub fn address(&self) -> SocketAddr {
        self.0.address
    }

    /// What it was sent since it was last asked. The bytes of a WebSocket are a message of their
    /// own, that begins with `frames`.
    pub fn take_seen(&self) -> Vec<Message> {
        std::mem::take(&mut *self.0.seen.lock().expect("no panic"))
    }

    fn record(&self, message: Message) {
        self.0.seen.lock().expect("no panic").push(message);
    }

    async fn serve(&self, stream: TcpStream) {
        let (read, mut write) = stream.into_split();
        let mut reader = Reader::new(read);
        // A connection that breaks in the middle of a request gets no answer.
        while let Ok(Some(request)) = reader.message(false).await {
            self.record(request.clone());
            let bytes = match answer(&request) {
                Answer::Whole(bytes) => bytes,
                Answer::Go(bytes) => {
                    self.0.go.add_permits(1);
                    bytes
                }
                Answer::Held(first, rest) => {
                    if write.write_all(&first).await.is_err() {
                        return;
                    }
                    let Ok(go) = self.0.go.acquire().await else {
                        return;
                    };
                    go.forget();
                    rest
                }
                Answer::WebSocket(head) => {
                    let mut frames = Message {
                        start: "frames".to_owned(),
                        ..Message::default()
                    };
                    if write.write_all(&head).await.is_ok() {
                        let _ = websocket::echo(&mut reader, &mut write, &mut frames.body).await;
                    }
                    self.record(frames);
                    return;
                }
            };
            if write.write_all(&bytes).await.is_err() || closes(&bytes) {
                return;
            }
        }
    }
}

fn closes(answer: &[u8]) -> bool {
    const CLOSE: &[u8] = b"\r\nConnection: close\r\n";
    answer.windows(CLOSE.len()).any(|part| part == CLOSE)
}
