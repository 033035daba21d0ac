//! Parses both formats of the PROXY protocol header (HAProxy's `proxy-protocol.txt`). Pure: bytes
//! in, an address out.
//!
//! Every byte is checked: a line of 108 bytes, a port `+80` and a wrong checksum are refused. LOCAL
//! is accepted with any family.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The longest accepted header: room for the TLVs of every balancer, including a client
/// certificate.
pub const MAX_LENGTH: usize = 8 * 1024;
/// Section 2.1: the longest line, CR LF included.
const MAX_LINE: usize = 107;
const LINE: &[u8] = b"PROXY ";
/// Section 2.2.
pub(super) const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";
/// Section 2.2.3: the type of a TLV.
const CRC32C: u8 = 0x03;

/// The state of a header of which some bytes have come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parsed {
    /// All bytes so far are the beginning of a valid header.
    Incomplete,
    /// A whole header.
    Complete {
        /// Length of the header in bytes; the connection's own bytes follow.
        length: usize,
        /// The balancer's client; `None`: the connection's own address counts.
        client: Option<SocketAddr>,
    },
}

/// The connection has no usable header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProxyHeaderError {
    /// The first bytes are something else.
    #[error("no PROXY protocol header")]
    Missing,
    /// The first bytes are right, later ones are not.
    #[error("a malformed PROXY protocol header")]
    Malformed,
    /// Longer than a line or a header may be.
    #[error("a PROXY protocol header that is too long")]
    TooLong,
    /// The peer closed the connection before the end of the header.
    #[error("the connection ended before its PROXY protocol header")]
    Unfinished,
}

/// Parses the header at the beginning of `bytes`.
pub fn parse(bytes: &[u8]) -> Result<Parsed, ProxyHeaderError> {
    // The two signatures differ in their first byte.
    for (mark, read) in [
        (LINE, parse_line as fn(&[u8]) -> _),
        (SIGNATURE, parse_binary),
    ] {
        if bytes.starts_with(mark) {
            return read(bytes);
        }
        if mark.starts_with(bytes) {
            return Ok(Parsed::Incomplete);
        }
    }
    Err(ProxyHeaderError::Missing)
}

/// Version 1, section 2.1.
fn parse_line(bytes: &[u8]) -> Result<Parsed, ProxyHeaderError> {
    let within = bytes.get(..MAX_LINE).unwrap_or(bytes);
    let Some(end) = within.windows(2).position(|two| two == b"\r\n") else {
        return if within.len() < MAX_LINE {
            Ok(Parsed::Incomplete)
        } else {
            Err(ProxyHeaderError::TooLong)
        };
    };
    let words = within
        .get(LINE.len()..end)
        .ok_or(ProxyHeaderError::Malformed)?;
    let complete = |client| {
        Ok(Parsed::Complete {
            length: end + 2,
            client,
        })
    };
    if words == b"UNKNOWN" || words.starts_with(b"UNKNOWN ") {
        // The rest of the line must be ignored.
        return complete(None);
    }
    let words = std::str::from_utf8(words).map_err(|_| ProxyHeaderError::Malformed)?;
    let words: Vec<&str> = words.split(' ').collect();
    let [family, source, destination, source_port, destination_port] = *words.as_slice() else {
        return Err(ProxyHeaderError::Malformed);
    };
    let source = parse_address(family, source).ok_or(ProxyHeaderError::Malformed)?;
    let port = parse_port(source_port).ok_or(ProxyHeaderError::Malformed)?;
    // Unused, but a line with one wrong word is not trusted in another.
    parse_address(family, destination)
        .zip(parse_port(destination_port))
        .ok_or(ProxyHeaderError::Malformed)?;
    complete(Some(SocketAddr::new(source, port)))
}

fn parse_address(family: &str, text: &str) -> Option<IpAddr> {
    match family {
        "TCP4" => text.parse::<Ipv4Addr>().ok().map(IpAddr::from),
        "TCP6" => text.parse::<Ipv6Addr>().ok().map(IpAddr::from),
        _ => None,
    }
}

/// Digits only, without leading zeros: stricter than `u16::from_str`.
fn parse_port(text: &str) -> Option<u16> {
    let plain =
        text.bytes().all(|byte| byte.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    text.parse().ok().filter(|_| plain)
}

/// Version 2, section 2.2.
fn parse_binary(bytes: &[u8]) -> Result<Parsed, ProxyHeaderError> {
    let Some((head, _)) = bytes.split_first_chunk::<16>() else {
        return Ok(Parsed::Incomplete);
    };
    let [.., command, family, high, low] = *head;
    let is_local = match command {
        0x20 => true,
        0x21 => false,
        _ => return Err(ProxyHeaderError::Malformed),
    };
    let length = head.len() + usize::from(u16::from_be_bytes([high, low]));
    if length > MAX_LENGTH {
        return Err(ProxyHeaderError::TooLong);
    }
    // The address is read only from a complete header.
    let Some(header) = bytes.get(..length) else {
        return Ok(Parsed::Incomplete);
    };
    let block = header.get(head.len()..).unwrap_or_default();
    let client = match (is_local, family) {
        // LOCAL: the balancer's own connection, such as a health check. The specification says to
        // ignore the address block and its family.
        (true, _) => None,
        (false, 0x11) => Some(source_address::<4>(header, block)?),
        (false, 0x21) => Some(source_address::<16>(header, block)?),
        // Unspecified, datagrams, unix sockets: they have no TCP address.
        (false, 0x00..=0x02 | 0x10 | 0x12 | 0x20 | 0x22 | 0x30..=0x32) => None,
        (false, _) => return Err(ProxyHeaderError::Malformed),
    };
    Ok(Parsed::Complete { length, client })
}

/// The source of an address block with addresses of N bytes, if the TLVs behind it are valid too.
fn source_address<const N: usize>(
    header: &[u8],
    block: &[u8],
) -> Result<SocketAddr, ProxyHeaderError>
where
    IpAddr: From<[u8; N]>,
{
    let source_and_rest = || {
        let (source, rest) = block.split_first_chunk::<N>()?;
        let (_, rest) = rest.split_first_chunk::<N>()?;
        let (port, rest) = rest.split_first_chunk::<2>()?;
        let (_, rest) = rest.split_first_chunk::<2>()?;
        Some((
            SocketAddr::new(IpAddr::from(*source), u16::from_be_bytes(*port)),
            rest,
        ))
    };
    let (source, extensions) = source_and_rest().ok_or(ProxyHeaderError::Malformed)?;
    verify_extensions(header, extensions).ok_or(ProxyHeaderError::Malformed)?;
    Ok(source)
}

/// Section 2.2.3: a checksum must be right if there is one. Other TLVs are skipped; the last one
/// must end where the header ends.
fn verify_extensions(header: &[u8], mut extensions: &[u8]) -> Option<()> {
    while !extensions.is_empty() {
        let (&[kind, high, low], rest) = extensions.split_first_chunk::<3>()?;
        let (value, rest) = rest.split_at_checked(usize::from(u16::from_be_bytes([high, low])))?;
        if kind == CRC32C {
            let expected = u32::from_be_bytes(value.try_into().ok()?);
            let from = header.len() - rest.len() - value.len();
            let zeroed = header.iter().enumerate().map(|(at, byte)| {
                let is_checksum = (from..from + value.len()).contains(&at);
                if is_checksum { 0 } else { *byte }
            });
            if crc32c(zeroed) != expected {
                return None;
            }
        }
        extensions = rest;
    }
    Some(())
}

/// RFC 4960, appendix B. Bit by bit is fast enough: once per connection, a few hundred bytes.
fn crc32c(bytes: impl Iterator<Item = u8>) -> u32 {
    !bytes.fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| {
            (crc >> 1) ^ (0x82F6_3B78 & (crc & 1).wrapping_neg())
        })
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A version 2 header.
    fn v2(command: u8, family: u8, block: &[u8]) -> Vec<u8> {
        let length = u16::try_from(block.len()).expect("a length").to_be_bytes();
        [SIGNATURE, &[command, family], &length, block].concat()
    }

    /// 203.0.113.7:4660 to 192.0.2.1:443.
    fn v4_block(extensions: &[u8]) -> Vec<u8> {
        [
            &[203, 0, 113, 7, 192, 0, 2, 1, 0x12, 0x34, 1, 0xBB],
            extensions,
        ]
        .concat()
    }

    /// [2001:db8::7]:4660 to [::]:0.
    fn v6_block(extensions: &[u8]) -> Vec<u8> {
        let source: Ipv6Addr = "2001:db8::7".parse().expect("an address");
        [
            &source.octets()[..],
            &[0; 16],
            &[0x12, 0x34, 0, 0],
            extensions,
        ]
        .concat()
    }

    /// The header of `v4_block` with a checksum after another TLV.
    fn with_checksum() -> Vec<u8> {
        let mut header = v2(
            0x21,
            0x11,
            &v4_block(&[4, 0, 1, 0xFF, CRC32C, 0, 4, 0, 0, 0, 0]),
        );
        let sum = crc32c(header.iter().copied()).to_be_bytes();
        let at = header.len() - sum.len();
        header.splice(at.., sum);
        header
    }

    fn valid() -> Vec<(Vec<u8>, Option<&'static str>)> {
        let four = Some("203.0.113.7:4660");
        let six = Some("[2001:db8::7]:4660");
        let longest = [b"PROXY UNKNOWN ".as_slice(), &[b'f'; 91], b"\r\n"].concat();
        assert_eq!(longest.len(), MAX_LINE);
        vec![
            (
                b"PROXY TCP4 203.0.113.7 192.0.2.1 4660 443\r\n".to_vec(),
                four,
            ),
            (b"PROXY TCP6 2001:db8::7 :: 4660 0\r\n".to_vec(), six),
            (
                b"PROXY TCP6 2001:DB8:0:0:0:0:0:7 ::1 4660 65535\r\n".to_vec(),
                six,
            ),
            (b"PROXY UNKNOWN\r\n".to_vec(), None),
            (b"PROXY UNKNOWN any \r\xFF\nthing\r\n".to_vec(), None),
            (longest, None),
            (v2(0x21, 0x11, &v4_block(b"")), four),
            (v2(0x21, 0x21, &v6_block(b"")), six),
            (
                v2(0x21, 0x11, &v4_block(&[0xEA, 0, 2, 7, 7, 4, 0, 0])),
                four,
            ),
            (
                v2(
                    0x21,
                    0x11,
                    &v4_block(&[&[4, 0x1F, 0xE1][..], &[0; 0x1FE1]].concat()),
                ),
                four,
            ),
            (with_checksum(), four),
            (v2(0x20, 0x00, b""), None),
            (v2(0x20, 0x11, &v4_block(b"xx")), None),
            (v2(0x20, 0xFF, b"anything"), None),
            (v2(0x21, 0x00, b"anything"), None),
            (v2(0x21, 0x12, &v4_block(b"")), None),
            (v2(0x21, 0x31, &[0; 216]), None),
        ]
    }

    #[test]
    fn every_valid_header_is_read_the_same_wherever_it_is_split() {
        for (header, client) in valid() {
            let client = client.map(|text| text.parse().expect("an address"));
            let complete = Ok(Parsed::Complete {
                length: header.len(),
                client,
            });
            let text = String::from_utf8_lossy(&header).into_owned();
            for split in 0..header.len() {
                assert_eq!(
                    parse(&header[..split]),
                    Ok(Parsed::Incomplete),
                    "{split} of {text:?}"
                );
            }
            for after in [
                &b""[..],
                b"G",
                b"\r\n",
                b"\x16\x03\x01",
                b"PROXY UNKNOWN\r\n",
            ] {
                assert_eq!(
                    parse(&[&header, after].concat()),
                    complete,
                    "{text:?} before {after:?}"
                );
            }
        }
    }

    #[test]
    fn what_is_no_header_is_told_from_a_broken_one() {
        let mut wrong_sum = with_checksum();
        wrong_sum[17] ^= 1;
        let mut long = v2(0x21, 0x11, &v4_block(b""));
        long.splice(14..16, [0x1F, 0xF1]);
        let line_of_108 = [b"PROXY UNKNOWN ".as_slice(), &[b'f'; 92], b"\r\n"].concat();
        for (bytes, broken) in [
            (b"GET / HTTP/1.1\r\n".to_vec(), ProxyHeaderError::Missing),
            (b"\x16\x03\x01".to_vec(), ProxyHeaderError::Missing),
            (b"PRI * HTTP/2.0\r\n".to_vec(), ProxyHeaderError::Missing),
            (b"proxy TCP4 ".to_vec(), ProxyHeaderError::Missing),
            (b"PROXYTCP4".to_vec(), ProxyHeaderError::Missing),
            (b"\r\nPROXY UNKNOWN\r\n".to_vec(), ProxyHeaderError::Missing),
            (line_of_108, ProxyHeaderError::TooLong),
            (
                b"PROXY TCP4 203.0.113.7 192.0.2.1 4660 443\n".repeat(3),
                ProxyHeaderError::TooLong,
            ),
            (b"PROXY \r\n".to_vec(), ProxyHeaderError::Malformed),
            (b"PROXY UNKNOWNS\r\n".to_vec(), ProxyHeaderError::Malformed),
            (
                b"PROXY  TCP4 203.0.113.7 192.0.2.1 4660 443\r\n".to_vec(),
                ProxyHeaderError::Malformed,
            ),
            (
                b"PROXY TCP4  203.0.113.7 192.0.2.1 4660 443\r\n".to_vec(),
                ProxyHeaderError::Malformed,
            ),
            (
                b"PROXY TCP4 203.0.113.7 192.0.2.1 4660 443 \r\n".to_vec(),
                ProxyHeaderError::Malformed,
            ),
            (
                b"PROXY TCP4 203.0.113.7 192.0.2.1 4660\r\n".to_vec(),
                ProxyHeaderError::Malformed,
            ),
            (
                b"PROXY TCP4 203.0.113.7 192.0.2.1 4660 65536\r\n".to_vec(),
                ProxyHeaderError::Malformed,
            ),
            (
                b"PROXY TCP4 203.0.113.7 192.0.2.1 +4660 443\r\n".to_vec(),
                ProxyHeaderError::Malformed,
            ),
            (
                b"PROXY TCP4 203.0.113.7 192.0.2.1 04660 443\r\n".to_vec(),
                ProxyHeaderError::Malformed,
            ),
            (
                b"PROXY TCP4 203.0.113.07 192.0.2.1 4660 443\r\n".to_vec(),
                ProxyHeaderError::Malformed,
            ),
            (
                b"PROXY TCP4 203.0.113.7 2001:db8::7 4660 443\r\n".to_vec(),
                ProxyHeaderError::Malformed,
            ),
            (
                b"PROXY TCP4 2001:db8::7 2001:db8::7 4660 443\r\n".to_vec(),
                ProxyHeaderError::Malformed,
            ),
            (
                b"PROXY TCP6 203.0.113.7 192.0.2.1 4660 443\r\n".to_vec(),
                ProxyHeaderError::Malformed,
            ),
            (
                b"PROXY TCP6 fe80::1%eth0 ::1 4660 443\r\n".to_vec(),
                ProxyHeaderError::Malformed,
            ),
            (
                b"PROXY TCP5 203.0.113.7 192.0.2.1 4660 443\r\n".to_vec(),
                ProxyHeaderError::Malformed,
            ),
            (
                b"PROXY TCP4 203.0.113.7 192.0.2.1 4660 443\r\r\n".to_vec(),
                ProxyHeaderError::Malformed,
            ),
            (
                b"PROXY TCP4 203.0.113.7 192.0.2.1 4660 \xFF\r\n".to_vec(),
                ProxyHeaderError::Malformed,
            ),
            (v2(0x22, 0x11, &v4_block(b"")), ProxyHeaderError::Malformed),
            (v2(0x11, 0x11, &v4_block(b"")), ProxyHeaderError::Malformed),
            (v2(0x21, 0x13, &v4_block(b"")), ProxyHeaderError::Malformed),
            (v2(0x21, 0x41, &v4_block(b"")), ProxyHeaderError::Malformed),
            (
                v2(0x21, 0x11, &v4_block(b"")[..11]),
                ProxyHeaderError::Malformed,
            ),
            (
                v2(0x21, 0x21, &v6_block(b"")[..35]),
                ProxyHeaderError::Malformed,
            ),
            (
                v2(0x21, 0x11, &v4_block(&[4, 0])),
                ProxyHeaderError::Malformed,
            ),
            (
                v2(0x21, 0x11, &v4_block(&[4, 0, 2, 0])),
                ProxyHeaderError::Malformed,
            ),
            (
                v2(0x21, 0x11, &v4_block(&[CRC32C, 0, 3, 0, 0, 0])),
                ProxyHeaderError::Malformed,
            ),
            (wrong_sum, ProxyHeaderError::Malformed),
            (long, ProxyHeaderError::TooLong),
        ] {
            assert_eq!(
                parse(&bytes),
                Err(broken),
                "{:?}",
                String::from_utf8_lossy(&bytes)
            );
        }
    }

    #[test]
    fn the_checksum_is_the_one_that_everybody_computes() {
        assert_eq!(crc32c(b"123456789".iter().copied()), 0xE306_9283);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic_or_say_more_than_there_is(
            mark in prop::sample::select(vec![&b""[..], LINE, b"PROXY TCP4 ", SIGNATURE, b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0"]),
            tail in prop::collection::vec(any::<u8>(), 0..400),
        ) {
            let bytes = [mark, &tail].concat();
            match parse(&bytes) {
                Ok(Parsed::Complete { length, .. }) => prop_assert!(length <= bytes.len()),
                Ok(Parsed::Incomplete) => prop_assert!(bytes.len() < MAX_LENGTH),
                Err(_) => {}
            }
        }

        #[test]
        fn a_broken_header_is_never_repaired_by_more_of_it(
            which in 0..valid().len(), at in any::<prop::sample::Index>(), flip in 1u8.., more in any::<Vec<u8>>(),
        ) {
            let mut header = valid().swap_remove(which).0;
            let at = at.index(header.len());
            header[at] ^= flip;
            if let Err(broken) = parse(&header) {
                prop_assert_eq!(parse(&[header, more].concat()), Err(broken));
            }
        }
    }
}
