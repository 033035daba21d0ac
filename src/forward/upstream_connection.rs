//! An open connection to an app, or a place on a shared one, while it is pooled or used.

use std::{
    rc::Rc,
    sync::{Arc, atomic::AtomicBool},
    time::{Duration, Instant},
};

use super::{
    attestation::ConnectionProof,
    metrics::ForwardMetrics,
    pool::key::{MAX_STREAMS, PoolKey},
    sender::RequestSender,
};
use crate::{model::concurrency_limit::LoadGuard, net::timer::ReusableTimer};

/// A connection to an app, or a place on one. It stays in one box from its opening to its end,
/// since every request moves it.
pub struct UpstreamConnection {
    /// Sends the request.
    pub sender: RequestSender,
    /// Whether a byte came since this was last set to false.
    pub has_received: Arc<AtomicBool>,
    /// Its slot among the connections of the app, counted for its current client.
    pub slot: Arc<LoadGuard>,
    /// Mutual proof with the upstream.
    pub proof: Option<Rc<ConnectionProof>>,
    /// Whether a request was sent on it before.
    pub used_before: bool,
    /// The requests that it fits.
    pub key: PoolKey,
    /// Counts missed deadlines.
    pub metrics: Arc<ForwardMetrics>,
    /// Runs while a response, or more of it, is awaited.
    pub timer: ReusableTimer,
    /// When it was opened or last released.
    pub idle_since: Instant,
}

impl UpstreamConnection {
    /// Whether it may stay in the pool: open, and used lately or now.
    pub(super) fn is_reusable(&self, now: Instant, idle: Duration) -> bool {
        !self.sender.is_closed() && (self.is_in_use() || now.duration_since(self.idle_since) < idle)
    }

    /// Whether the app closed it without notice. HTTP/2 gives notice, and names the requests that
    /// were not handled.
    pub(super) fn was_closed_by_app(&self) -> bool {
        match &self.sender {
            RequestSender::Http1(connection) => connection.is_closed(),
            RequestSender::Http2(_) => false,
        }
    }

    /// Detects that the app closed it.
    pub(super) fn poll_idle(&mut self) {
        match &mut self.sender {
            RequestSender::Http1(connection) => connection.poll_idle(),
            RequestSender::Http2(_) => {}
        }
    }

    /// Whether requests are active on the pool's own place.
    pub(super) fn is_in_use(&self) -> bool {
        match &self.sender {
            RequestSender::Http1(_) => false,
            RequestSender::Http2(shared) => Rc::strong_count(&shared.slot) > 1,
        }
    }

    /// Whether it accepts another request.
    pub(super) fn has_capacity(&self) -> bool {
        match &self.sender {
            RequestSender::Http1(connection) => connection.is_ready(),
            RequestSender::Http2(shared) => Rc::strong_count(&shared.slot) <= MAX_STREAMS as usize,
        }
    }

    /// Another place on a shared connection; `None` for HTTP/1.1.
    pub(super) fn share(&self) -> Option<UpstreamConnection> {
        let RequestSender::Http2(shared) = &self.sender else {
            return None;
        };
        Some(UpstreamConnection {
            sender: RequestSender::Http2(shared.clone()),
            has_received: self.has_received.clone(),
            slot: self.slot.clone(),
            proof: self.proof.clone(),
            metrics: self.metrics.clone(),
            timer: ReusableTimer::default(),
            ..*self
        })
    }
}
