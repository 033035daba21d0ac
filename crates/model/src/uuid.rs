//! Arvados uuids such as `zzzzz-dz642-xqhgmzqm1tyc3bs`: cluster, kind of object, and object.

use std::fmt;

/// 5 + 1 + 5 + 1 + 15.
const LENGTH: usize = 27;

/// An Arvados uuid: five, five and fifteen lower-case letters and digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uuid([u8; LENGTH]);

impl Uuid {
    /// Parses a uuid.
    pub fn new(text: &str) -> Option<Uuid> {
        let bytes: [u8; LENGTH] = text.as_bytes().try_into().ok()?;
        let fits = |(index, byte): (usize, &u8)| match index {
            5 | 11 => *byte == b'-',
            _ => byte.is_ascii_lowercase() || byte.is_ascii_digit(),
        };
        bytes.iter().enumerate().all(fits).then_some(Uuid(bytes))
    }

    /// The uuid as text, 27 bytes of ASCII.
    pub fn as_str(&self) -> &str {
        // ASCII by construction.
        std::str::from_utf8(&self.0).unwrap_or_default()
    }

    /// The kind of object, by the middle part.
    pub fn kind(&self) -> UuidKind {
        match &self.0[6..11] {
            b"dz642" => UuidKind::Container,
            b"xvhdp" => UuidKind::ContainerRequest,
            b"gj3su" => UuidKind::Token,
            _ => UuidKind::Other,
        }
    }
}

/// The kind of object that a uuid names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UuidKind {
    /// `dz642`
    Container,
    /// `xvhdp`
    ContainerRequest,
    /// `gj3su`
    Token,
    /// Kinds that have no ports.
    Other,
}

impl fmt::Debug for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
