//! Which pooled connections fit a request.

use std::net::SocketAddr;

/// Maximum number of concurrent requests on one HTTP/2 connection: one lost packet, or a closed
/// connection, delays all of them.
pub const MAX_STREAMS: u32 = 32;

/// The connections of an app that fit a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolKey {
    /// Index of the pod, or of the upstream of an app that has several.
    pub server: usize,
    /// The client, if the app gets a PROXY header: then clients do not share connections.
    pub client: Option<SocketAddr>,
}
