//! The reads of a client's HTTP/1.1 connection: notes activity, and checks heads before hyper reads
//! them.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use tokio::io::{AsyncRead, ReadBuf};

use super::{strict_head::StrictHead, timeouts::ConnectionActivity};
use crate::net::read_filter::ReadFilter;

/// Given to hyper in place of a refused head. No field name or target contains NUL, so hyper
/// answers 400, counts the request as malformed and closes the connection.
const MALFORMED_HEAD: &[u8] = b"\0\r\n\r\n";

/// Notes and checks reads.
pub(super) struct ActivityFilter {
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

impl ActivityFilter {
    /// Reports received bytes to `activity`.
    pub(super) fn new(activity: Arc<ConnectionActivity>) -> ActivityFilter {
        ActivityFilter {
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
                self.activity.set_in_body(check.is_in_body());
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

impl ReadFilter for ActivityFilter {
    fn poll_read<S: AsyncRead + Unpin>(
        &mut self,
        stream: &mut S,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !matches!(self.refusal, Refusal::None) {
            return self.refuse(buf);
        }
        let before = buf.filled().len();
        let result = Pin::new(stream).poll_read(cx, buf);
        if buf.filled().len() == before {
            return result;
        }
        self.activity.note_byte();
        self.check(buf, before)
    }
}
