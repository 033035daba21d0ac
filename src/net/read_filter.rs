//! A stream whose reads pass through a filter. Writes pass through; several short slices
//! become one write.
//!
//! `tokio_util::io::InspectReader` only sees what was read. A filter can also replace it, or fail.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::joined_write::poll_write_joined;

/// Stands between a stream and its reader.
pub trait ReadFilter: Unpin {
    /// Reads from the stream, with the contract of [`AsyncRead::poll_read`].
    fn poll_read<S: AsyncRead + Unpin>(
        &mut self,
        stream: &mut S,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>>;
}

/// A stream with a filter. The stream is dropped first.
pub struct FilteredStream<S, F> {
    stream: S,
    filter: F,
}

impl<S, F> FilteredStream<S, F> {
    /// Filters the reads of the stream.
    pub fn new(stream: S, filter: F) -> FilteredStream<S, F> {
        FilteredStream { stream, filter }
    }
}

impl<S: AsyncRead + Unpin, F: ReadFilter> AsyncRead for FilteredStream<S, F> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        this.filter.poll_read(&mut this.stream, cx, buf)
    }
}

impl<S: AsyncWrite + Unpin, F: Unpin> AsyncWrite for FilteredStream<S, F> {
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
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        poll_write_joined(Pin::new(&mut self.stream), cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
