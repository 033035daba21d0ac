//! Reads the header of a fresh connection from its socket.
//!
//! Only peers of `proxy_protocol_from` may send a header, and they must: section 5 of the
//! specification forbids guessing from the bytes. Exactly the header is taken from the socket.

use std::net::SocketAddr;

use tokio::{io::AsyncReadExt, net::TcpStream};

use super::parse::{MAX_LENGTH, Parsed, ProxyHeaderError, parse};

/// The address that the header names; `None` for a connection of the balancer itself. The caller
/// bounds the time.
///
/// # Errors
/// The connection must be closed: its client is unknown.
pub async fn read_header(stream: &mut TcpStream) -> Result<Option<SocketAddr>, ProxyHeaderError> {
    let mut header = vec![0; MAX_LENGTH];
    let mut held = 0;
    loop {
        // Bytes behind the header belong to TLS or HTTP, so they are only peeked at.
        let rest = header.get_mut(held..).unwrap_or_default();
        let peeked = stream.peek(rest).await;
        let seen = held + peeked.map_err(|_| ProxyHeaderError::Unfinished)?;
        if seen == held {
            return Err(ProxyHeaderError::Unfinished);
        }
        let parsed = parse(header.get(..seen).unwrap_or_default())?;
        let end = match parsed {
            Parsed::Complete { length, .. } => length,
            // All of it is header. It is consumed now, so that the next peek waits for more bytes
            // instead of spinning.
            Parsed::Incomplete => seen,
        };
        let part = header.get_mut(held..end).unwrap_or_default();
        stream
            .read_exact(part)
            .await
            .map_err(|_| ProxyHeaderError::Unfinished)?;
        held = end;
        if let Parsed::Complete { client, .. } = parsed {
            return Ok(client);
        }
    }
}
