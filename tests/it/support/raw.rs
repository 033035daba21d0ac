//! Hand-written bytes in, whatever comes out: for everything that no well-behaved client would
//! send.

use std::net::{IpAddr, SocketAddr};

use tokio::{
    io::AsyncWriteExt,
    net::{
        TcpSocket, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
};

use super::message::{Message, Reader};

/// One connection to the gateway.
pub struct Raw {
    pub reader: Reader<OwnedReadHalf>,
    pub writer: OwnedWriteHalf,
}

impl Raw {
    pub async fn connect(address: SocketAddr) -> Raw {
        Raw::on(
            TcpStream::connect(address)
                .await
                .expect("the gateway listens"),
        )
    }

    /// From an address of the test's own: all of 127.0.0.0/8 is this machine's.
    pub async fn connect_from(source: &str, address: SocketAddr) -> Raw {
        let source: IpAddr = source.parse().expect("an address");
        let socket = TcpSocket::new_v4().expect("a socket");
        socket
            .bind(SocketAddr::new(source, 0))
            .expect("an address of this machine");
        let stream = socket.connect(address).await.expect("the gateway listens");
        // Bytes that are sent one by one arrive one by one.
        stream.set_nodelay(true).expect("a connection");
        Raw::on(stream)
    }

    fn on(stream: TcpStream) -> Raw {
        let (read, write) = stream.into_split();
        Raw {
            reader: Reader::new(read),
            writer: write,
        }
    }

    pub async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        // The gateway may close while a hostile message is still being written; that is an answer
        // too.
        let _ = self.writer.write_all(bytes.as_ref()).await;
    }

    /// The next answer; `None` when the connection was closed without one.
    pub async fn answer(&mut self) -> Option<Message> {
        self.reader.message(false).await.unwrap_or(None)
    }

    /// The head of the next answer; its body is left to be read.
    pub async fn head(&mut self) -> Message {
        let head = self.reader.head().await.expect("readable");
        head.expect("a head")
    }

    /// Sends a message and reads the answer, on a connection of its own.
    pub async fn exchange(address: SocketAddr, bytes: impl AsRef<[u8]>) -> Message {
        let mut raw = Raw::connect(address).await;
        raw.send(bytes).await;
        raw.answer().await.expect("an answer")
    }

    /// The code of the Close frame that a WebSocket ends with; `None`: it ended, or goes on,
    /// without one.
    pub async fn farewell(&mut self) -> Option<u16> {
        let rest = self.reader.rest().await.ok()?;
        let mut rest = rest.as_slice();
        while let [first, second, tail @ ..] = rest {
            let (masked, short) = (second & 0x80 != 0, usize::from(second & 0x7f));
            let (length, tail) = match short {
                126 => (
                    usize::from(u16::from_be_bytes(*tail.first_chunk()?)),
                    tail.get(2..)?,
                ),
                127 => (
                    usize::try_from(u64::from_be_bytes(*tail.first_chunk()?)).ok()?,
                    tail.get(8..)?,
                ),
                short => (short, tail),
            };
            let tail = tail.get(if masked { 4 } else { 0 }..)?;
            if first & 0x0f == 8 {
                // The last word: nothing comes behind it.
                return (tail.len() == length)
                    .then(|| tail.first_chunk().copied())
                    .flatten()
                    .map(u16::from_be_bytes);
            }
            rest = tail.get(length..)?;
        }
        None
    }

    /// O3: after a framing error nothing more is answered and the connection is closed.
    pub async fn is_closed(&mut self) -> bool {
        match self.reader.rest().await {
            Ok(rest) => rest.is_empty(),
            // One that is still open and silent is not closed.
            Err(error) => error.kind() != std::io::ErrorKind::TimedOut,
        }
    }
}
