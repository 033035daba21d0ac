//! The client of a request, and the key under which limits count it.

use std::net::{IpAddr, Ipv6Addr};

/// The client of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Client {
    /// Address for logs and for the forwarded headers.
    pub address: IpAddr,
    /// Key of limits. `None`: a trusted proxy that names no client; many may share it.
    pub limit_key: Option<IpAddr>,
}

impl Client {
    /// A client by its address.
    pub fn at(address: IpAddr) -> Client {
        Client {
            address,
            limit_key: Some(limit_key(address)),
        }
    }
}

impl std::fmt::Display for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.address.fmt(f)
    }
}

/// The IPv4 address, or the /64 network of an IPv6 address: one subscriber has all of it.
pub fn limit_key(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & !u128::from(u64::MAX))),
        v4 @ IpAddr::V4(_) => v4,
    }
}
