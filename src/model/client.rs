//! Who counts as one client where clients are counted.

use std::net::{IpAddr, Ipv6Addr};

/// An IPv4 address, or a /64 of IPv6, of which one subscriber has all addresses.
pub fn one_client(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & !u128::from(u64::MAX))),
        v4 @ IpAddr::V4(_) => v4,
    }
}
