//! Deadlines and bounds towards apps.

use std::{sync::Arc, time::Duration};

use crate::model::concurrency_limit::Limit;

/// Deadlines and bounds towards apps.
#[derive(Clone, Debug)]
pub struct ForwardSettings {
    /// Deadline for opening a connection, including TLS.
    pub connect: Duration,
    /// Deadline for a response head, unless the app has its own.
    pub response_head: Duration,
    /// Idle connections are closed after this long.
    pub idle: Duration,
    /// Largest response head, in bytes.
    pub head_bytes: usize,
    /// Longest gap in a request body, until the response begins.
    pub body_gap: Duration,
    /// Lowest rate of a request body, in bytes per second of waiting for the client.
    pub body_rate: u64,
    /// Longest gap in a response body.
    pub response_gap: Duration,
    /// Longest gap in streams: event streams, gRPC calls, WebSockets.
    pub stream_idle: Duration,
    /// Maximum number of requests that wait for a response of one app.
    pub requests_per_app: usize,
    /// Maximum number of open connections to one app.
    pub connections_per_app: usize,
    /// Share of both that one client may have, in percent.
    pub client_share: usize,
    /// Ports of this process' listeners, to which no route of a hub may lead. Known once they are
    /// open.
    pub own_ports: Arc<[u16]>,
}

impl ForwardSettings {
    /// The limit of requests that wait for one app.
    pub(super) fn requests(&self) -> Limit {
        Limit::new(self.requests_per_app, self.client_share)
    }

    /// The limit of connections to one app.
    pub(super) fn connections(&self) -> Limit {
        Limit::new(self.connections_per_app, self.client_share)
    }
}

impl Default for ForwardSettings {
    fn default() -> Self {
        ForwardSettings {
            connect: Duration::from_secs(3),
            response_head: Duration::from_secs(60),
            idle: Duration::from_secs(10),
            head_bytes: 64 * 1024,
            body_gap: Duration::from_secs(30),
            body_rate: 1024,
            response_gap: Duration::from_secs(300),
            stream_idle: Duration::from_secs(3600),
            requests_per_app: 1024,
            connections_per_app: 1024,
            client_share: 25,
            own_ports: Arc::default(),
        }
    }
}
