//! Disconnects a client that reads nothing of its response for too long. Otherwise it could hold a
//! connection to the app, and memory, without end.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use prometheus_client::metrics::counter::Counter;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::Instant,
};

use crate::net::{joined_write::poll_write_joined, timer::ReusableTimer};

/// A stream whose writes have a deadline.
pub struct WriteStall<S> {
    stream: S,
    timeout: Duration,
    /// Runs while a write waits.
    timer: ReusableTimer,
    waits: bool,
    stalls: Counter,
}

impl<S> WriteStall<S> {
    /// `stalls` counts the disconnected clients.
    pub fn new(stream: S, timeout: Duration, stalls: Counter) -> WriteStall<S> {
        WriteStall {
            stream,
            timeout,
            timer: ReusableTimer::default(),
            waits: false,
            stalls,
        }
    }

    /// Starts the timer when a write becomes pending, and stops it when one is ready.
    fn timed<T>(
        &mut self,
        cx: &mut Context<'_>,
        result: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if result.is_ready() {
            self.waits = false;
            return result;
        }
        if !self.waits {
            self.waits = true;
            self.timer.set(Instant::now() + self.timeout);
        }
        ready!(self.timer.poll(cx));
        self.waits = false;
        self.stalls.inc();
        Poll::Ready(Err(io::Error::new(
            io::ErrorKind::TimedOut,
            "the client takes nothing of its answer",
        )))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WriteStall<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WriteStall<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.timed(cx, result)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let result = Pin::new(&mut self.stream).poll_flush(cx);
        self.timed(cx, result)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let result = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.timed(cx, result)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let result = poll_write_joined(Pin::new(&mut self.stream), cx, bufs);
        self.timed(cx, result)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn time_counts_only_while_nothing_is_taken() {
        let (near, mut far) = duplex(4);
        let stalls = Counter::default();
        let mut near = WriteStall::new(near, Duration::from_secs(30), stalls.clone());
        for _ in 0..5 {
            let (written, read) = tokio::join!(near.write_all(b"12345678"), async {
                let mut taken = [0; 8];
                for part in taken.chunks_mut(4) {
                    tokio::time::sleep(Duration::from_secs(29)).await;
                    far.read_exact(part).await?;
                }
                io::Result::Ok(taken)
            });
            assert!(written.is_ok() && read.is_ok_and(|taken| &taken == b"12345678"));
        }
        let began = Instant::now();
        let error = near
            .write_all(b"12345678")
            .await
            .expect_err("the peer reads nothing");
        assert_eq!(
            (error.kind(), began.elapsed().as_secs()),
            (io::ErrorKind::TimedOut, 30)
        );
        assert_eq!(stalls.get(), 1);
    }
}
