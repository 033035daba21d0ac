//! The client's stream on HTTP/1.1: notes activity, and checks heads before hyper reads them.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::{strict_head::StrictHead, timeouts::ConnectionActivity};

/// Given to hyper in place of a refused head. No field name or target contains NUL, so hyper
/// answers 400, counts the request as malformed and closes the connection.
const MALFORMED_HEAD: &[u8] = b"\0\r\n\r\n";

/// A stream whose reads are noted and checked.
///
/// `tokio_util::io::InspectReader` does not fit: a refusal replaces the bytes that were read.
pub(super) struct ActivityStream<S> {
    stream: S,
    activity: Arc<ConnectionActivity>,
    /// `None` once the connection has become a WebSocket.
    check: Option<StrictHead>,
    refusal: Refusal,
}

/// The result of a failed check.
#[derive(Clone, Copy, Debug)]
enum Refusal {
    None,
    /// Of a head; so many bytes of [`MALFORMED_HEAD`] were given to hyper.
    Head(usize),
    /// Of a body.
    Body,
}

impl<S> ActivityStream<S> {
    /// Reports to `activity` what is read.
    pub(super) fn new(stream: S, activity: Arc<ConnectionActivity>) -> ActivityStream<S> {
        ActivityStream {
            stream,
            activity,
            check: Some(StrictHead::default()),
            refusal: Refusal::None,
        }
    }

    /// Checks what was just read. Bytes from a violation on do not reach hyper.
    fn check(&mut self, buf: &mut ReadBuf<'_>, before: usize) -> Poll<io::Result<()>> {
        let Some(check) = &mut self.check else {
            return Poll::Ready(Ok(()));
        };
        if self.activity.is_tunnel() {
            check.switch_off();
            self.check = None;
            return Poll::Ready(Ok(()));
        }
        let violation = match check.check(&buf.filled()[before..]) {
            Ok(ends) => {
                if ends {
                    self.activity.leave();
                }
                return Poll::Ready(Ok(()));
            }
            Err(violation) => violation,
        };
        buf.set_filled(before + violation.at);
        if violation.in_head {
            self.refusal = Refusal::Head(0);
            return self.refuse(buf);
        }
        self.refusal = Refusal::Body;
        if violation.at == 0 {
            self.refuse(buf)
        } else {
            Poll::Ready(Ok(()))
        }
    }

    /// The read after a refusal.
    fn refuse(&mut self, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.refusal {
            Refusal::None => {}
            Refusal::Head(given) => {
                let rest = MALFORMED_HEAD.get(given..).unwrap_or_default();
                let length = rest.len().min(buf.remaining());
                buf.put_slice(&rest[..length]);
                self.refusal = Refusal::Head(given + length);
            }
            Refusal::Body => return Poll::Ready(Err(io::ErrorKind::InvalidData.into())),
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for ActivityStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if !matches!(this.refusal, Refusal::None) {
            return this.refuse(buf);
        }
        let before = buf.filled().len();
        let result = Pin::new(&mut this.stream).poll_read(cx, buf);
        if buf.filled().len() == before {
            return result;
        }
        this.activity.note_byte();
        this.check(buf, before)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for ActivityStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
