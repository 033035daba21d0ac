//! Who connected, and who they say is behind them: trusted proxies only, and nobody is trusted by default.
//!
//! Forwarded headers name the client for logs and for the headers apps get; they never decide anything.

use std::net::{IpAddr, SocketAddr};

use http::{HeaderMap, HeaderName, HeaderValue};
use ipnet::IpNet;

/// `X-Forwarded-For`.
pub const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
/// Hops of a trusted chain that are read; more is an attack or a mistake.
const MAX_HOPS: usize = 32;

/// Whose forwarded headers are believed.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Networks of proxies in front of this listener; never everybody.
    pub trusted: Vec<IpNet>,
}

/// The other end of a connection.
#[derive(Clone, Debug)]
pub struct Peer {
    /// Its address; IPv4 in IPv6 is unwrapped.
    pub address: IpAddr,
    /// Whether it is one of our own proxies.
    pub trusted: bool,
    trusted_networks: Vec<IpNet>,
    /// `X-Forwarded-For` and `X-Real-IP` when the peer itself is the client: computed once per connection.
    pub address_header: HeaderValue,
}

impl Peer {
    /// Describes a fresh connection.
    pub fn new(socket: SocketAddr, settings: &Settings) -> Peer {
        let address = socket.ip().to_canonical();
        let trusted = settings.trusted.iter().any(|net| net.contains(&address));
        Peer {
            address,
            trusted,
            trusted_networks: if trusted { settings.trusted.clone() } else { Vec::new() },
            address_header: address_value(address),
        }
    }

    /// The client's address: the nearest hop that is none of our proxies.
    pub fn client(&self, headers: &HeaderMap) -> IpAddr {
        if !self.trusted {
            return self.address;
        }
        let mut hops: Vec<&str> = headers
            .get_all(X_FORWARDED_FOR)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .flat_map(|line| line.split(','))
            .map(str::trim)
            .collect();
        let mut client = self.address;
        for _ in 0..MAX_HOPS {
            let Some(hop) = hops.pop().and_then(|text| text.parse::<IpAddr>().ok()) else { break };
            client = hop.to_canonical();
            if !self.trusted_networks.iter().any(|net| net.contains(&client)) {
                break;
            }
        }
        client
    }

    /// The chain that a trusted peer sent, all its lines in order, with the peer itself at the end; `None`
    /// from anybody else.
    pub fn continued_chain(&self, headers: &HeaderMap) -> Option<HeaderValue> {
        if !self.trusted || !headers.contains_key(X_FORWARDED_FOR) {
            return None;
        }
        let mut lines: Vec<&[u8]> =
            headers.get_all(X_FORWARDED_FOR).iter().map(HeaderValue::as_bytes).collect();
        lines.push(self.address_header.as_bytes());
        HeaderValue::from_bytes(&lines.join(&b", "[..])).ok()
    }
}

/// An address as a header value.
pub fn address_value(address: IpAddr) -> HeaderValue {
    HeaderValue::from_str(&address.to_string()).unwrap_or_else(|_| HeaderValue::from_static("unknown"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client_of(peer: &str, trusted: &[&str], chain: &str) -> String {
        let settings =
            Settings { trusted: trusted.iter().map(|net| net.parse().expect("a network")).collect() };
        let mut headers = HeaderMap::new();
        headers.insert(X_FORWARDED_FOR, HeaderValue::from_str(chain).expect("a value"));
        Peer::new(peer.parse().expect("an address"), &settings).client(&headers).to_string()
    }

    #[test]
    fn only_a_trusted_peer_may_name_the_client() {
        assert_eq!(client_of("192.0.2.9:1", &[], "203.0.113.1"), "192.0.2.9");
        assert_eq!(client_of("10.0.0.1:1", &["10.0.0.0/8"], "203.0.113.1"), "203.0.113.1");
        assert_eq!(client_of("10.0.0.1:1", &["10.0.0.0/8"], "6.6.6.6, 203.0.113.1, 10.0.0.7"), "203.0.113.1");
        assert_eq!(client_of("[::ffff:10.0.0.1]:1", &["10.0.0.0/8"], "203.0.113.1"), "203.0.113.1");
        for nonsense in ["", "a", "::1%e", "127.0.0.1:80", ",,,"] {
            assert_eq!(client_of("10.0.0.1:1", &["10.0.0.0/8"], nonsense), "10.0.0.1", "{nonsense:?}");
        }
    }
}
