//! Makes the header that names a client to an app, or says that there is none.

use std::net::{IpAddr, SocketAddr};

use super::parse::SIGNATURE;

/// Version 2, section 2.2 of the specification.
///
/// The destination is the unspecified address: a balancer may be in front of us, and apps have the
/// forwarded headers for that.
pub fn header(client: SocketAddr) -> Vec<u8> {
    let mut header = SIGNATURE.to_vec();
    // Version 2, command PROXY.
    header.push(0x21);
    match client.ip().to_canonical() {
        IpAddr::V4(address) => {
            header.extend([0x11, 0, 12]);
            header.extend(address.octets());
            header.extend([0; 4]);
        }
        IpAddr::V6(address) => {
            header.extend([0x21, 0, 36]);
            header.extend(address.octets());
            header.extend([0; 16]);
        }
    }
    header.extend(client.port().to_be_bytes());
    header.extend([0; 2]);
    header
}

/// The header of a connection that is not for a client, such as a health check (section 2.2,
/// command LOCAL).
pub fn local_header() -> Vec<u8> {
    let mut header = SIGNATURE.to_vec();
    header.extend([0x20, 0, 0, 0]);
    header
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_for_no_client_names_none() {
        assert_eq!(local_header(), *b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0");
    }

    #[test]
    fn a_client_is_introduced_by_its_address() {
        let v4 = header("192.0.2.1:4660".parse().expect("an address"));
        assert_eq!(v4[..16], *b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c");
        assert_eq!(v4[16..], [192, 0, 2, 1, 0, 0, 0, 0, 0x12, 0x34, 0, 0]);
        let v6 = header("[2001:db8::1]:4660".parse().expect("an address"));
        assert_eq!((v6.len(), v6[13], v6[15]), (16 + 36, 0x21, 36));
        let mapped = header("[::ffff:192.0.2.1]:4660".parse().expect("an address"));
        assert_eq!(mapped, v4);
    }
}
