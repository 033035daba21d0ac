//! Hand-written bytes in, whatever comes out: for everything that no well-behaved client would send.

use std::net::SocketAddr;

use tokio::{
    io::AsyncWriteExt,
    net::{
        TcpStream,
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
        let (read, write) = TcpStream::connect(address).await.expect("the gateway listens").into_split();
        Raw { reader: Reader::new(read), writer: write }
    }

    pub async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        // The gateway may close while a hostile message is still being written; that is an answer too.
        let _ = self.writer.write_all(bytes.as_ref()).await;
    }

    /// The next answer; `None` when the connection was closed without one.
    pub async fn answer(&mut self) -> Option<Message> {
        self.reader.message(false).await.unwrap_or(None)
    }

    /// Sends a message and reads the answer, on a connection of its own.
    pub async fn exchange(address: SocketAddr, bytes: impl AsRef<[u8]>) -> Message {
        let mut raw = Raw::connect(address).await;
        raw.send(bytes).await;
        raw.answer().await.expect("an answer")
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
