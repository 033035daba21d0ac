//! The settings of one listener.

use std::{net::SocketAddr, time::Duration};

use ipnet::IpNet;

use super::{timeouts::Timeouts, tls::TlsSettings};

/// One listener: its address, TLS, deadlines and bounds.
#[derive(Clone, Debug)]
pub struct ListenerSettings {
    /// The address to listen on; port 0 means a free one.
    pub address: SocketAddr,
    /// Plain HTTP, or TLS with its certificates.
    pub tls: TlsSettings,
    /// Networks of balancers whose connections begin with a PROXY protocol header.
    pub proxy_protocol_from: Vec<IpNet>,
    /// Networks of proxies, to which the limit per client does not apply.
    pub trusted_proxies: Vec<IpNet>,
    /// Deadline for the PROXY protocol header and the TLS handshake together.
    pub handshake: Duration,
    /// Deadlines of a connection that waits for its client.
    pub timeouts: Timeouts,
    /// Accept HTTP/2 without TLS from clients with prior knowledge, such as a balancer.
    pub h2c: bool,
    /// Answer every request with a redirect to the site's https address.
    pub redirects: bool,
    /// Share the port with another process, which is stopping.
    pub takeover: bool,
    /// Maximum number of concurrent requests on one HTTP/2 connection.
    pub streams: u32,
    /// Longest time in which a client takes no byte of a response.
    pub write_stall: Duration,
    /// Largest request head, in bytes.
    pub head_bytes: usize,
    /// Maximum number of header fields of a request.
    pub head_fields: usize,
    /// Maximum number of open connections of this listener, all threads together.
    pub connections: usize,
    /// Maximum number of open connections of one client.
    pub connections_per_client: usize,
}

impl ListenerSettings {
    /// Whether a connection from this peer must begin with a PROXY protocol header.
    pub(super) fn expects_proxy_header(&self, peer: SocketAddr) -> bool {
        let address = peer.ip().to_canonical();
        self.proxy_protocol_from
            .iter()
            .any(|net| net.contains(&address))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Plain HTTP on a free port.
    pub(in crate::listener) fn settings() -> ListenerSettings {
        ListenerSettings {
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
            tls: TlsSettings::Off,
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
                settings.expects_proxy_header(peer.parse().expect("an address")),
                introduced,
                "{peer}"
            );
        }
    }
}
