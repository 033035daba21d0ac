//! The stream of a connection to an app: notes received bytes, counts interim responses, and counts
//! as an open connection until it is closed.

use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
};

use prometheus_client::metrics::gauge::Gauge;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::interim::InterimCount;
use crate::model::concurrency_limit::LoadGuard;

/// A stream whose reads are noted. `tokio_util::io::InspectReader` does not fit: too many interim
/// responses must fail the read.
///
/// The flag is atomic because hyper requires upgradable connections to be `Send`; only one thread
/// uses it.
pub(super) struct UpstreamStream<S> {
    stream: S,
    has_received: Arc<AtomicBool>,
    interim: Option<InterimCount>,
    _open: OpenConnection,
}

impl<S> UpstreamStream<S> {
    /// `interim` counts interim responses on HTTP/1.1.
    pub(super) fn new(
        stream: S,
        has_received: Arc<AtomicBool>,
        interim: Option<InterimCount>,
        open: OpenConnection,
    ) -> UpstreamStream<S> {
        UpstreamStream {
            stream,
            has_received,
            interim,
            _open: open,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for UpstreamStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let before = buf.filled().len();
        let result = Pin::new(&mut this.stream).poll_read(cx, buf);
        let read = buf.filled().get(before..).unwrap_or_default();
        if read.is_empty() {
            return result;
        }
        // Not a swap, which would lock the bus: only one thread uses it.
        let is_first = !this.has_received.load(Ordering::Relaxed);
        this.has_received.store(true, Ordering::Relaxed);
        if let Some(interim) = &mut this.interim {
            if is_first {
                interim.restart();
            }
            if let Err(error) = interim.read(read) {
                return Poll::Ready(Err(io::Error::other(error)));
            }
        }
        result
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for UpstreamStream<S> {
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

/// Counts a connection until its stream is closed, also as a WebSocket.
pub(super) struct OpenConnection {
    gauge: Gauge,
    /// Its slot among the connections of the app.
    pub(super) slot: Arc<LoadGuard>,
}

impl OpenConnection {
    /// Counts the connection in the gauge.
    pub(super) fn new(gauge: &Gauge, slot: LoadGuard) -> OpenConnection {
        gauge.inc();
        OpenConnection {
            gauge: gauge.clone(),
            slot: Arc::new(slot),
        }
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.gauge.dec();
    }
}
