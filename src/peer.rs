//! The peer of a connection, and the client behind it as forwarded headers of trusted proxies name
//! it. No proxy is trusted by default.
//!
//! The named client is for logs, limits and the headers of apps; access never depends on it.

use std::net::{IpAddr, SocketAddr};

use http::{HeaderMap, HeaderName, HeaderValue};
use ipnet::IpNet;

use crate::model::client::Client;

/// `X-Forwarded-For`.
pub const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
/// Maximum number of hops of a chain that are read; more are an attack or a configuration error.
const MAX_HOPS: usize = 32;

/// The proxies whose forwarded headers are trusted.
#[derive(Clone, Debug, Default)]
pub struct PeerSettings {
    /// Networks of the proxies in front of this listener.
    pub trusted: Vec<IpNet>,
}

/// The other end of a connection.
#[derive(Clone, Debug)]
pub struct Peer {
    /// Its address; IPv4-mapped IPv6 becomes IPv4.
    pub address: IpAddr,
    /// Whether it is one of our own proxies.
    pub trusted: bool,
    trusted_networks: Vec<IpNet>,
    /// `X-Forwarded-For` and `X-Real-IP` when the peer itself is the client: computed once per
    /// connection.
    pub address_header: HeaderValue,
}

impl Peer {
    /// The peer of a new connection.
    pub fn new(socket: SocketAddr, settings: &PeerSettings) -> Peer {
        let address = socket.ip().to_canonical();
        let trusted = settings.trusted.iter().any(|net| net.contains(&address));
        Peer {
            address,
            trusted,
            trusted_networks: if trusted {
                settings.trusted.clone()
            } else {
                Vec::new()
            },
            address_header: address_value(address),
        }
    }

    /// The client: the nearest hop of the chain that is not a trusted proxy.
    ///
    /// The chain is read as bytes and from its end, so that bytes the client wrote before its
    /// proxy's entry cannot change the result. An unreadable hop ends the chain: the client is then
    /// counted under the proxy that wrote the hop.
    pub fn client(&self, headers: &HeaderMap) -> Client {
        if !self.trusted {
            return Client::at(self.address);
        }
        let mut lines = headers.get_all(X_FORWARDED_FOR).iter().rev().peekable();
        if lines.peek().is_none() {
            return Client {
                address: self.address,
                limit_key: None,
            };
        }
        let hops = lines.flat_map(|line| line.as_bytes().rsplit(|byte| *byte == b','));
        let mut address = self.address;
        for hop in hops.take(MAX_HOPS).map_while(parse_hop) {
            address = hop;
            if !self
                .trusted_networks
                .iter()
                .any(|net| net.contains(&address))
            {
                break;
            }
        }
        Client::at(address)
    }

    /// The chain that a trusted peer sent, all lines in order, with the peer appended; `None` for
    /// any other peer.
    pub fn continued_chain(&self, headers: &HeaderMap) -> Option<HeaderValue> {
        if !self.trusted {
            return None;
        }
        let mut lines: Vec<&[u8]> = headers
            .get_all(X_FORWARDED_FOR)
            .iter()
            .map(HeaderValue::as_bytes)
            .collect();
        if lines.is_empty() {
            return None;
        }
        lines.push(self.address_header.as_bytes());
        HeaderValue::try_from(lines.join(&b", "[..])).ok()
    }
}

/// One hop as proxies write it: `ip`, `ip:port`, `[ip]` or `[ip]:port`.
fn parse_hop(hop: &[u8]) -> Option<IpAddr> {
    let hop = std::str::from_utf8(hop.trim_ascii()).ok()?;
    let bare = hop
        .strip_prefix('[')
        .and_then(|hop| hop.strip_suffix(']'))
        .unwrap_or(hop);
    let address = bare
        .parse()
        .or_else(|_| hop.parse::<SocketAddr>().map(|socket| socket.ip()));
    address.ok().map(|address| address.to_canonical())
}

/// An address as a header value.
pub fn address_value(address: IpAddr) -> HeaderValue {
    HeaderValue::try_from(address.to_string())
        .unwrap_or_else(|_| HeaderValue::from_static("unknown"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client_of(peer: &str, trusted: &[&str], lines: &[&[u8]]) -> Client {
        let settings = PeerSettings {
            trusted: trusted
                .iter()
                .map(|net| net.parse().expect("a network"))
                .collect(),
        };
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(
                X_FORWARDED_FOR,
                HeaderValue::from_bytes(line).expect("a value"),
            );
        }
        Peer::new(peer.parse().expect("an address"), &settings).client(&headers)
    }

    fn behind_proxy(lines: &[&[u8]]) -> String {
        client_of("10.0.0.1:1", &["10.0.0.0/8"], lines)
            .address
            .to_string()
    }

    #[test]
    fn only_a_trusted_peer_may_name_the_client() {
        assert_eq!(
            client_of("192.0.2.9:1", &[], &[b"203.0.113.1"])
                .address
                .to_string(),
            "192.0.2.9"
        );
        assert_eq!(behind_proxy(&[b"203.0.113.1"]), "203.0.113.1");
        assert_eq!(
            behind_proxy(&[b"6.6.6.6, 203.0.113.1, 10.0.0.7"]),
            "203.0.113.1"
        );
        assert_eq!(
            behind_proxy(&[b"6.6.6.6, 203.0.113.1", b"10.0.0.7"]),
            "203.0.113.1"
        );
        let mapped = client_of("[::ffff:10.0.0.1]:4", &["10.0.0.0/8"], &[b"203.0.113.1"]);
        assert_eq!(mapped.address.to_string(), "203.0.113.1");
    }

    #[test]
    fn a_hop_may_have_a_port_and_brackets() {
        for (hop, address) in [
            ("203.0.113.8:4711", "203.0.113.8"),
            ("[2001:db8::1]:4711", "2001:db8::1"),
            ("[2001:db8::1]", "2001:db8::1"),
            ("2001:db8::1", "2001:db8::1"),
            (" 203.0.113.8\t", "203.0.113.8"),
            ("::ffff:203.0.113.8", "203.0.113.8"),
        ] {
            assert_eq!(behind_proxy(&[hop.as_bytes()]), address, "{hop:?}");
        }
    }

    #[test]
    fn a_client_behind_a_hop_that_cannot_be_read_is_counted_under_the_proxy() {
        let proxy = Client::at("10.0.0.1".parse().expect("an address"));
        for nonsense in [
            &b""[..],
            b"a",
            b"::1%e",
            b",,,",
            b"\"203.0.113.1\"",
            b"203.0.113.1,",
            b"203.0.113.1, \xff",
            b"unknown",
        ] {
            let found = client_of("10.0.0.1:1", &["10.0.0.0/8"], &[nonsense]);
            assert_eq!(found, proxy, "{}", String::from_utf8_lossy(nonsense));
        }
        let unnamed = client_of("10.0.0.1:1", &["10.0.0.0/8"], &[]);
        assert_eq!(
            unnamed.limit_key, None,
            "many clients may be behind a proxy that names none"
        );
    }

    proptest::proptest! {
        #[test]
        fn what_the_client_wrote_before_its_proxy_changes_nothing(
            before in proptest::collection::vec(
                proptest::prop_oneof![proptest::prelude::Just(b','), 0x20..=0x7e_u8, 0x80..=0xff_u8], 0..60),
        ) {
            let line = [&before[..], b", 203.0.113.1"].concat();
            proptest::prop_assert_eq!(behind_proxy(&[&line]), "203.0.113.1");
            proptest::prop_assert_eq!(behind_proxy(&[&before, b"203.0.113.1"]), "203.0.113.1");
        }
    }
}
