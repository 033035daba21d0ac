//! The virtual hosts that receive requests: the site, an app's own host, or a port of the range.
//!
//! Each is a separate origin to a browser; a session at one is not valid at another.

use std::fmt;

use super::dns::{self, MAX_LABEL};

/// The origin of ours that received a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum VirtualHost {
    /// The site: sign-in, launcher, apps on paths.
    Site,
    /// `<label>.<apps_domain>`.
    Host(HostLabel),
    /// A port of the range, on the range's own host.
    Port(u16),
}

/// One DNS label below the apps' domain: lower-case letters, digits and inner dashes, at most 63.
///
/// Stored inline, without allocation: every request to an app's host makes one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostLabel {
    bytes: [u8; MAX_LABEL],
    len: u8,
}

impl HostLabel {
    /// Parses a label and lower-cases it.
    pub fn new(text: &[u8]) -> Option<HostLabel> {
        let mut bytes = [0; MAX_LABEL];
        let lower = bytes.get_mut(..text.len())?;
        lower.copy_from_slice(text);
        lower.make_ascii_lowercase();
        if !dns::is_label(lower, MAX_LABEL) {
            return None;
        }
        Some(HostLabel {
            bytes,
            len: u8::try_from(text.len()).ok()?,
        })
    }

    /// The label in lower case.
    pub fn as_str(&self) -> &str {
        // ASCII by construction.
        std::str::from_utf8(&self.bytes[..usize::from(self.len)]).unwrap_or_default()
    }
}

impl fmt::Debug for HostLabel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.as_str())
    }
}

impl fmt::Display for HostLabel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A port in its one canonical spelling: decimal, no sign, no leading zero, 1 to 65535.
pub fn parse_port(digits: &[u8]) -> Option<u16> {
    if digits.first() == Some(&b'0') || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_is_letters_digits_and_inner_dashes_and_a_port_has_one_spelling() {
        let long = "a".repeat(63);
        for good in ["a", "0", "a-1", "A-B", long.as_str()] {
            let label = HostLabel::new(good.as_bytes()).expect("a label");
            assert_eq!(label.as_str(), good.to_ascii_lowercase());
        }
        for (digits, expected) in [
            ("1", Some(1)),
            ("65535", Some(65535)),
            ("", None),
            ("0", None),
            ("080", None),
            ("+80", None),
            ("65536", None),
            ("80x", None),
        ] {
            assert_eq!(parse_port(digits.as_bytes()), expected, "{digits:?}");
        }
        let too_long = "a".repeat(64);
        for bad in [
            "",
            "-",
            "-a",
            "a-",
            "a.b",
            "a_b",
            "a+b",
            "a@b",
            "８",
            too_long.as_str(),
        ] {
            assert!(HostLabel::new(bad.as_bytes()).is_none(), "{bad:?}");
        }
    }
}
