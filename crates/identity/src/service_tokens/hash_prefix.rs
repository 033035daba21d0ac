//! The beginning of a token's hash, by which a token is named whose record cannot be opened.

use std::fmt;

use crate::session::cookie::RecordKey;

/// Stands before the hash, so that it differs from every name.
const MARK: &str = "sha256:";
/// Hex digits that are shown.
const SHOWN: usize = 16;
/// Fewest hex digits that name a token.
const FEWEST: usize = 8;
/// Hex digits of a whole hash.
const WHOLE: usize = 64;

/// `sha256:` with 8 to 64 hex digits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HashPrefix(Box<str>);

/// How many tokens a prefix names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HashMatch {
    None,
    One(RecordKey),
    Several,
}

impl HashPrefix {
    /// `None` when the text does not follow the grammar.
    pub fn parse(text: &str) -> Option<HashPrefix> {
        let digits = text.strip_prefix(MARK)?;
        let is_hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        let is_prefix = (FEWEST..=WHOLE).contains(&digits.len()) && digits.bytes().all(is_hex);
        is_prefix.then(|| HashPrefix(digits.into()))
    }

    /// The prefix that lists show for a token.
    pub fn shown(key: RecordKey) -> HashPrefix {
        let mut digits = key.hex();
        digits.truncate(SHOWN);
        HashPrefix(digits.into())
    }

    /// The key, if the hash is whole.
    pub(super) fn whole(&self) -> Option<RecordKey> {
        RecordKey::from_hex(&self.0)
    }

    /// The key that begins with the prefix.
    pub(super) fn find(&self, keys: impl IntoIterator<Item = RecordKey>) -> HashMatch {
        let mut found = HashMatch::None;
        for key in keys
            .into_iter()
            .filter(|key| key.hex().starts_with(&*self.0))
        {
            found = match found {
                HashMatch::None => HashMatch::One(key),
                HashMatch::One(other) if other == key => found,
                HashMatch::One(_) | HashMatch::Several => return HashMatch::Several,
            };
        }
        found
    }
}

impl fmt::Display for HashPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{MARK}{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(last: u8) -> RecordKey {
        let mut bytes = [0xab; 32];
        bytes[31] = last;
        RecordKey(bytes)
    }

    #[test]
    fn a_prefix_is_marked_hex_and_no_name() {
        let whole = format!("sha256:{}", key(1).hex());
        for text in ["sha256:abababab", "sha256:abababababababab", &whole] {
            let prefix = HashPrefix::parse(text).expect(text);
            assert_eq!(prefix.to_string(), text);
            assert_eq!(prefix.whole().is_some(), text == whole);
        }
        let long = format!("{whole}0");
        for text in ["abababab", "sha256:abababa", "sha256:ABABABAB", &long, ""] {
            assert_eq!(HashPrefix::parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_prefix_names_one_token_or_none() {
        let shown = HashPrefix::shown(key(1));
        assert_eq!(shown.to_string(), "sha256:abababababababab");
        let other = RecordKey([7; 32]);
        assert_eq!(shown.find([other]), HashMatch::None);
        assert_eq!(shown.find([other, key(1)]), HashMatch::One(key(1)));
        assert_eq!(shown.find([key(1), key(1)]), HashMatch::One(key(1)));
        assert_eq!(shown.find([key(1), key(2)]), HashMatch::Several);
        let whole = HashPrefix::parse(&format!("sha256:{}", key(2).hex())).expect("a hash");
        assert_eq!(whole.find([key(1), key(2)]), HashMatch::One(key(2)));
    }
}
