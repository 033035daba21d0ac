//! Sockets: one SO_REUSEPORT listener per data thread, TLS when configured, one hyper connection
//! each.
//!
//! Nothing here knows what a request means; a [`Service`](hyper::service::Service) is called with
//! it.

pub mod accept;
pub mod connection;
pub mod connection_limit;
mod exchange;
pub mod fd_limit;
mod http;
pub mod metrics;
mod preface;
pub mod socket_activation;
mod strict_head;
mod timeouts;
pub mod tls;
pub mod write_stall;

use std::{io, net::SocketAddr, time::Duration};

use ipnet::IpNet;
use socket_activation::ActivatedSockets;
use socket2::{Domain, Protocol, Socket, Type};
pub use timeouts::Timeouts;

/// How connections are taken.
#[derive(Clone, Debug)]
pub struct ListenerSettings {
    /// Where to listen; port 0 takes a free one.
    pub address: SocketAddr,
    /// Plain or TLS.
    pub tls: tls::TlsSettings,
    /// Balancers whose connections begin with a PROXY protocol header; never everybody.
    pub proxy_protocol_from: Vec<IpNet>,
    /// Proxies, which may have as many connections as there are.
    pub trusted_proxies: Vec<IpNet>,
    /// Deadline for the PROXY protocol header and the TLS handshake together.
    pub handshake: Duration,
    /// How long a connection may wait for what.
    pub timeouts: Timeouts,
    /// Whether HTTP/2 is understood without TLS, by clients that know it is (a balancer).
    pub h2c: bool,
    /// Everything is sent on to the site's https address, and nothing is served.
    pub redirects: bool,
    /// The port is shared with another process, which is leaving.
    pub takeover: bool,
    /// Requests at the same time on one HTTP/2 connection.
    pub streams: u32,
    /// A client may take nothing of an answer for this long.
    pub write_stall: Duration,
    /// Largest request head, in bytes.
    pub head_bytes: usize,
    /// Most header fields of a request.
    pub head_fields: usize,
    /// Open connections of this listener, all threads together.
    pub connections: usize,
    /// Of these, those of one client.
    pub connections_per_client: usize,
}

impl ListenerSettings {
    /// Whether a connection from there must begin with a PROXY protocol header.
    fn is_introduced(&self, peer: SocketAddr) -> bool {
        let address = peer.ip().to_canonical();
        self.proxy_protocol_from
            .iter()
            .any(|net| net.contains(&address))
    }
}

/// Why no listener could be opened.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// Somebody listens there already.
    #[error("{0} is in use")]
    InUse(SocketAddr),
    /// A socket was handed over for an address that is configured nowhere.
    #[error("a socket was handed over that listens on {0}, which is configured nowhere")]
    Unclaimed(SocketAddr),
    /// The system refused.
    #[error("cannot listen on {address}: {error}")]
    System {
        /// Where.
        address: SocketAddr,
        /// Why.
        error: io::Error,
    },
}

/// Listening sockets, one per data thread, all on the same port.
#[derive(Debug)]
pub struct Sockets {
    /// The sockets.
    pub list: Vec<std::net::TcpListener>,
    /// They were handed over, and another process goes on with them when this one ends.
    pub are_shared: bool,
}

/// Opens listening sockets: those that were handed over, or new ones.
///
/// SO_REUSEPORT would let a second process share the port without a word, so a socket without it
/// probes the port first, unless a `takeover` is meant: then it is shared with the process that is
/// leaving. The gap between probe and bind is harmless: it only decides which error is shown.
///
/// # Errors
/// [`ListenError::InUse`] is a mistake of the configuration; anything else is the machine's.
pub fn bind(
    address: SocketAddr,
    threads: usize,
    takeover: bool,
    activated: &mut ActivatedSockets,
) -> Result<Sockets, ListenError> {
    let system = |error: io::Error| {
        if error.kind() == io::ErrorKind::AddrInUse {
            ListenError::InUse(address)
        } else {
            ListenError::System { address, error }
        }
    };
    if let Some(sockets) = activated.claim(address, threads).map_err(system)? {
        return Ok(Sockets {
            list: sockets,
            are_shared: true,
        });
    }
    if address.port() != 0 && !takeover {
        drop(socket(address, false).map_err(system)?);
    }
    let first = socket(address, true).map_err(system)?;
    let bound = first
        .local_addr()
        .map_err(system)?
        .as_socket()
        .unwrap_or(address);
    let mut sockets = vec![first];
    for _ in 1..threads {
        sockets.push(socket(bound, true).map_err(system)?);
    }
    for socket in &sockets {
        socket.listen(1024).map_err(system)?;
    }
    Ok(Sockets {
        list: sockets.into_iter().map(Into::into).collect(),
        are_shared: false,
    })
}

fn socket(address: SocketAddr, shared: bool) -> io::Result<Socket> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    // A restart must not wait for connections in TIME_WAIT.
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(shared)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    if !shared {
        // Only listening shows whether another listener holds the port.
        socket.listen(1)?;
    }
    Ok(socket)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Something to start from.
    pub(crate) fn settings() -> ListenerSettings {
        ListenerSettings {
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
            tls: tls::TlsSettings::Off,
            proxy_protocol_from: vec![],
            trusted_proxies: vec![],
            handshake: Duration::from_secs(10),
            timeouts: Timeouts {
                first_byte: Duration::from_secs(10),
                head: Duration::from_secs(10),
                idle: Duration::from_secs(60),
                idle_http2: Duration::from_secs(300),
                age: Duration::from_secs(3600),
            },
            h2c: false,
            redirects: false,
            takeover: false,
            streams: 100,
            write_stall: Duration::from_secs(10),
            head_bytes: 64 << 10,
            head_fields: 100,
            connections: 100,
            connections_per_client: 100,
        }
    }

    #[test]
    fn only_listed_peers_introduce_their_connections() {
        let networks = ["10.0.0.0/8", "2001:db8::/32"].map(|net| net.parse().expect("a network"));
        let settings = ListenerSettings {
            proxy_protocol_from: networks.into(),
            ..settings()
        };
        for (peer, introduced) in [
            ("10.1.2.3:4", true),
            ("[::ffff:10.1.2.3]:4", true),
            ("[2001:db8::1]:4", true),
            ("11.1.2.3:4", false),
            ("[::1]:4", false),
        ] {
            assert_eq!(
                settings.is_introduced(peer.parse().expect("an address")),
                introduced,
                "{peer}"
            );
        }
    }
}
