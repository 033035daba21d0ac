//! Detects HTTP/2 without TLS by its first bytes, with which no HTTP/1.1 request begins (RFC 9113
//! section 3.4).
//!
//! `hyper_util::server::conn::auto` does the same, but HTTP/1.1 and HTTP/2 have loops of their own
//! here.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
};

use tokio::io::{AsyncRead, AsyncReadExt, ReadBuf};

use crate::net::read_filter::{FilteredStream, ReadFilter};

const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Whether the client speaks HTTP/2, and the stream with all its bytes. The caller sets a deadline.
///
/// # Errors
/// When a read fails. A stream that ends early is not HTTP/2.
pub async fn detect_http2<S: AsyncRead + Unpin>(
    mut stream: S,
) -> io::Result<(bool, FilteredStream<S, Replay>)> {
    let (mut head, mut held) = ([0; PREFACE.len()], 0);
    let is_http2 = loop {
        let rest = head.get_mut(held..).unwrap_or_default();
        let read = if rest.is_empty() {
            0
        } else {
            stream.read(rest).await?
        };
        held += read;
        let seen = head.get(..held).unwrap_or_default();
        if read == 0 || !PREFACE.starts_with(seen) {
            break seen == PREFACE;
        }
    };
    let replay = Replay {
        head,
        taken: 0,
        held,
    };
    Ok((is_http2, FilteredStream::new(stream, replay)))
}

/// The first bytes of a stream, which are read again.
pub struct Replay {
    head: [u8; PREFACE.len()],
    taken: usize,
    held: usize,
}

impl ReadFilter for Replay {
    fn poll_read<S: AsyncRead + Unpin>(
        &mut self,
        stream: &mut S,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let first = self.head.get(self.taken..self.held).unwrap_or_default();
        if first.is_empty() {
            return Pin::new(stream).poll_read(cx, buf);
        }
        let part = first.get(..buf.remaining()).unwrap_or(first);
        buf.put_slice(part);
        self.taken += part.len();
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncWriteExt, duplex};

    use super::*;

    /// Sends the bytes one by one and gives back the verdict, and what is read afterwards.
    async fn sent(bytes: &[u8]) -> (bool, Vec<u8>) {
        let (mut far, near) = duplex(1);
        let (_, (is_http2, read)) = tokio::join!(
            async {
                far.write_all(bytes).await.expect("written");
                drop(far);
            },
            async {
                let (is_http2, mut stream) = detect_http2(near).await.expect("readable");
                let mut read = Vec::new();
                stream.read_to_end(&mut read).await.expect("readable");
                (is_http2, read)
            }
        );
        (is_http2, read)
    }

    #[tokio::test]
    async fn the_preface_is_known_and_no_byte_is_lost() {
        let with_more = [&PREFACE[..], b"\0\0\0\x04"].concat();
        for (bytes, expected) in [
            (&PREFACE[..], true),
            (&with_more[..], true),
            (b"GET / HTTP/1.1\r\n\r\n", false),
            (b"PRI * HTTP/2.0\r\n\r\nSX\r\n\r\nmore", false),
            (b"PRI * HTTP/2.0\r\n", false),
            (b"", false),
        ] {
            assert_eq!(
                sent(bytes).await,
                (expected, bytes.to_vec()),
                "{}",
                String::from_utf8_lossy(bytes)
            );
        }
    }
}
