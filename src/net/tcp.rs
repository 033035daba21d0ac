//! Options of TCP connections.

use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::net::TcpStream;

/// A quiet connection is probed after this long.
const KEEPALIVE: Duration = Duration::from_secs(60);

/// Sets the options of a connection to a client or to an app. A connection without them works too,
/// so failures are ignored.
pub fn set_options(stream: &TcpStream) {
    // Messages are written whole; waiting to fill a segment would only delay the last one.
    let _ = stream.set_nodelay(true);
    // Detects a peer that vanished silently, also behind an idle WebSocket.
    let _ = SockRef::from(stream).set_tcp_keepalive(&TcpKeepalive::new().with_time(KEEPALIVE));
}
