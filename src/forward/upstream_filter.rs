//! The reads of a connection to an app: notes received bytes and counts interim responses. The
//! connection counts as open until its stream is dropped.

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
use tokio::io::{AsyncRead, ReadBuf};

use super::interim::InterimCount;
use crate::{model::concurrency_limit::LoadGuard, net::read_filter::ReadFilter};

/// Notes received bytes. Too many interim responses fail the read.
///
/// The flag is atomic because hyper requires upgradable connections to be `Send`; only one thread
/// uses it.
pub(super) struct UpstreamFilter {
    has_received: Arc<AtomicBool>,
    interim: Option<InterimCount>,
    _open: OpenConnection,
}

impl UpstreamFilter {
    /// `interim` counts interim responses on HTTP/1.1.
    pub(super) fn new(
        has_received: Arc<AtomicBool>,
        interim: Option<InterimCount>,
        open: OpenConnection,
    ) -> UpstreamFilter {
        UpstreamFilter {
            has_received,
            interim,
            _open: open,
        }
    }
}

impl ReadFilter for UpstreamFilter {
    fn poll_read<S: AsyncRead + Unpin>(
        &mut self,
        stream: &mut S,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let result = Pin::new(stream).poll_read(cx, buf);
        let read = buf.filled().get(before..).unwrap_or_default();
        if read.is_empty() {
            return result;
        }
        // Not a swap, which would lock the bus: only one thread uses it.
        let is_first = !self.has_received.load(Ordering::Relaxed);
        self.has_received.store(true, Ordering::Relaxed);
        if let Some(interim) = &mut self.interim {
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
