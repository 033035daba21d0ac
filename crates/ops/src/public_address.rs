//! Which addresses are of the public Internet.
//!
//! An address that is not known to be public is refused where people name the server of a download:
//! in a cluster, others lead to its API, its pods, its nodes, and to the cloud's metadata.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Whether an address is of the public Internet (IANA's registries of special addresses). An IPv4
/// address in the form of IPv6 is not: callers that permit it use [`IpAddr::to_canonical`].
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    !matches!(
        address.octets(),
        // This network, private, loopback; multicast, reserved, broadcast.
        [0 | 10 | 127 | 224..=255, ..]
            // Shared by a provider's customers, and by some clusters' pods.
            | [100, 64..=127, ..]
            // Link-local, with the metadata of clouds.
            | [169, 254, ..]
            | [172, 16..=31, ..]
            | [192, 168, ..]
            // Protocols, documentation, relays, benchmarks.
            | [192, 0, 0 | 2, _]
            | [192, 88, 99, _]
            | [198, 18 | 19, ..]
            | [198, 51, 100, _]
            | [203, 0, 113, _]
    )
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let segments = address.segments();
    // NAT64 (RFC 6052): networks without IPv4 reach its servers so.
    if let [0x64, 0xff9b, 0, 0, 0, 0, high, low] = segments {
        let [a, b] = high.to_be_bytes();
        let [c, d] = low.to_be_bytes();
        return is_public_v4(Ipv4Addr::new(a, b, c, d));
    }
    // Only these are global unicast. So IPv4 in IPv6 (mapped, compatible), unique local,
    // link-local and multicast addresses are not.
    let is_global = matches!(segments[0], 0x2000..=0x3fff);
    let is_special = matches!(
        segments,
        // Protocols, Teredo among them; documentation; 6to4, which contains an IPv4 address.
        [0x2001, 0..=0x1ff, ..] | [0x2001, 0xdb8, ..] | [0x2002, ..] | [0x3fff, 0..=0xfff, ..]
    );
    is_global && !is_special
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_of_the_internet_are_public() {
        for (address, wanted) in [
            ("93.184.216.34", true),
            ("1.1.1.1", true),
            ("100.63.255.255", true),
            ("100.128.0.0", true),
            ("172.15.0.1", true),
            ("172.32.0.1", true),
            ("192.0.1.1", true),
            ("223.255.255.255", true),
            ("2606:4700::1111", true),
            ("2a00:1450:4001::1", true),
            ("2001:4860:4860::8888", true),
            ("2001:200::1", true),
            ("64:ff9b::93.184.216.34", true),
            ("0.0.0.0", false),
            ("0.1.2.3", false),
            ("10.0.0.1", false),
            ("10.96.0.1", false),
            ("100.64.0.1", false),
            ("100.127.255.255", false),
            ("127.0.0.1", false),
            ("127.255.255.254", false),
            ("169.254.169.254", false),
            ("172.16.0.1", false),
            ("172.31.255.255", false),
            ("192.0.0.8", false),
            ("192.0.2.1", false),
            ("192.88.99.1", false),
            ("192.168.1.1", false),
            ("198.18.0.1", false),
            ("198.19.0.1", false),
            ("198.51.100.1", false),
            ("203.0.113.1", false),
            ("224.0.0.1", false),
            ("240.0.0.1", false),
            ("255.255.255.255", false),
            ("::", false),
            ("::1", false),
            ("::127.0.0.1", false),
            ("::93.184.216.34", false),
            ("::ffff:127.0.0.1", false),
            ("::ffff:10.0.0.1", false),
            ("::ffff:93.184.216.34", false),
            ("64:ff9b::127.0.0.1", false),
            ("64:ff9b::10.0.0.1", false),
            ("64:ff9b:1::1", false),
            ("100::1", false),
            ("2001::1", false),
            ("2001:1ff::1", false),
            ("2001:db8::1", false),
            ("2002:7f00:1::", false),
            ("2002:5db8:d822::", false),
            ("3fff::1", false),
            ("3fff:fff::1", false),
            ("fc00::1", false),
            ("fd00:ec2::254", false),
            ("fe80::1", false),
            ("fec0::1", false),
            ("ff02::1", false),
        ] {
            let parsed: IpAddr = address.parse().expect("an address");
            assert_eq!(is_public(parsed), wanted, "{address}");
        }
    }
}
