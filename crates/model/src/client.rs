//! Who counts as one client where clients are counted.

use std::net::{IpAddr, Ipv6Addr};

/// Who sends a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Client {
    /// For logs, and for the headers that apps get.
    pub address: IpAddr,
    /// What limits are counted under. `None`: a trusted proxy that names no client, behind which
    /// there may be many.
    pub limit_key: Option<IpAddr>,
}

impl Client {
    /// A client that is known by its address.
    pub fn at(address: IpAddr) -> Client {
        Client {
            address,
            limit_key: Some(one_client(address)),
        }
    }
}

impl std::fmt::Display for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.address.fmt(f)
    }
}

/// An IPv4 address, or a /64 of IPv6, of which one subscriber has all addresses.
pub fn one_client(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & !u128::from(u64::MAX))),
        v4 @ IpAddr::V4(_) => v4,
    }
}
