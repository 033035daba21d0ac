//! The PROXY protocol: a balancer in front names the client before the first byte of TLS or HTTP.
//!
//! Only peers of `proxy_protocol_from` are asked for it, and they must send it: whether there is a
//! header is never guessed from what came (section 5 of the specification). Exactly the header is
//! taken from the socket, not a byte of what follows. [`parse`] knows the two formats.

mod parse;

use std::net::SocketAddr;

use tokio::{io::AsyncReadExt, net::TcpStream};

pub use parse::ProxyHeaderError;
use parse::{MAX_LENGTH, Parsed, parse};

/// Takes the header; the address it names, `None` where the connection speaks for itself.
///
/// The caller bounds the time.
///
/// # Errors
/// The connection must be closed: what it carries belongs to nobody who is known.
pub async fn read(stream: &mut TcpStream) -> Result<Option<SocketAddr>, ProxyHeaderError> {
    let mut header = vec![0; MAX_LENGTH];
    let mut held = 0;
    loop {
        // What is looked at but not taken yet may already be TLS or HTTP, and is left for them.
        let rest = header.get_mut(held..).unwrap_or_default();
        let seen = held
            + stream
                .peek(rest)
                .await
                .map_err(|_| ProxyHeaderError::Unfinished)?;
        if seen == held {
            return Err(ProxyHeaderError::Unfinished);
        }
        let parsed = parse(header.get(..seen).unwrap_or_default())?;
        let take = match parsed {
            Parsed::Complete { length, .. } => length,
            // All of it is header. Taken now, so that the next look waits for more instead of
            // spinning.
            Parsed::Incomplete => seen,
        };
        let part = header.get_mut(held..take).unwrap_or_default();
        stream
            .read_exact(part)
            .await
            .map_err(|_| ProxyHeaderError::Unfinished)?;
        held = take;
        if let Parsed::Complete { client, .. } = parsed {
            return Ok(client);
        }
    }
}
