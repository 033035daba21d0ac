//! The text of a service token: a prefix by which scanners of secrets find it, 256 random bits, and
//! a checksum by which they tell it from other text.

use aws_lc_rs::{digest, rand};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use zeroize::Zeroizing;

use crate::session::cookie::{NoRandomness, RecordKey};

/// Begins every token.
pub const PREFIX: &str = "ludgate_";
/// Random bytes of a token, which are 43 characters of base64url.
const RANDOM_BYTES: usize = 32;
const RANDOM_LENGTH: usize = 43;
/// Bytes of the checksum, which are 6 characters of base64url.
const CHECKSUM_BYTES: usize = 4;
const CHECKSUM_LENGTH: usize = 6;
/// Characters before the checksum.
const BODY_LENGTH: usize = PREFIX.len() + RANDOM_LENGTH;
/// Characters of the end that are stored, so that people recognise a token.
const SHOWN_LENGTH: usize = 4;

/// A fresh token, on its way to its user. Only its hash and its last characters are stored.
pub struct NewServiceToken {
    text: Zeroizing<String>,
    key: RecordKey,
}

impl NewServiceToken {
    /// 256 bits from the system's generator.
    ///
    /// # Errors
    /// When the system has no random bytes.
    pub fn random() -> Result<NewServiceToken, NoRandomness> {
        let mut bytes = Zeroizing::new([0; RANDOM_BYTES]);
        rand::fill(&mut *bytes).map_err(|_| NoRandomness)?;
        let random = Zeroizing::new(URL_SAFE_NO_PAD.encode(bytes.as_slice()));
        let mut text = Zeroizing::new(format!("{PREFIX}{}", random.as_str()));
        let checksum = checksum(&text);
        text.push_str(&checksum);
        let key = RecordKey::hash(text.as_bytes());
        Ok(NewServiceToken { text, key })
    }

    /// The text, for its user.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Its hash.
    pub fn key(&self) -> RecordKey {
        self.key
    }

    /// Its last characters, which are of the checksum.
    pub fn last_characters(&self) -> &str {
        let at = self.text.len().saturating_sub(SHOWN_LENGTH);
        self.text.get(at..).unwrap_or_default()
    }
}

/// The hash of a presented token; `None` when the text is no token, so that it needs no look-up.
///
/// The hash needs no salt and no slow function: a token has 256 random bits.
pub fn key_of(presented: &str) -> Option<RecordKey> {
    if presented.len() != BODY_LENGTH + CHECKSUM_LENGTH {
        return None;
    }
    let (body, sum) = presented.split_at_checked(BODY_LENGTH)?;
    let is_token = body.starts_with(PREFIX) && checksum(body) == sum;
    is_token.then(|| RecordKey::hash(presented.as_bytes()))
}

fn checksum(body: &str) -> String {
    let hash = digest::digest(&digest::SHA256, body.as_bytes());
    URL_SAFE_NO_PAD.encode(hash.as_ref().get(..CHECKSUM_BYTES).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_token_has_a_prefix_a_fixed_length_and_a_hash() {
        let token = NewServiceToken::random().expect("random bytes");
        let text = token.as_str();
        assert_eq!((text.len(), &text[..8]), (57, "ludgate_"));
        assert!(text.ends_with(token.last_characters()));
        assert_eq!(token.last_characters().len(), 4);
        assert_eq!(key_of(text), Some(token.key()));
        let other = NewServiceToken::random().expect("random bytes");
        assert_ne!(other.key(), token.key());
    }

    #[test]
    fn the_checksum_is_as_documented() {
        let body = format!("{PREFIX}{}", "A".repeat(RANDOM_LENGTH));
        let hash = digest::digest(&digest::SHA256, body.as_bytes());
        let token = format!("{body}{}", URL_SAFE_NO_PAD.encode(&hash.as_ref()[..4]));
        assert!(key_of(&token).is_some());
    }

    #[test]
    fn other_texts_are_no_tokens() {
        let token = NewServiceToken::random().expect("random bytes");
        let text = token.as_str();
        for other in [
            String::new(),
            PREFIX.to_owned(),
            text[1..].to_owned(),
            text[..text.len() - 1].to_owned(),
            format!("{text}A"),
            format!(" {text}"),
            text.replace("ludgate_", "Ludgate_"),
            text.replace("ludgate_", "ludgate-"),
            "ä".repeat(28) + "x",
            format!("{}ä{}", &text[..50], &text[52..]),
            "x".repeat(57),
            "x".repeat(1 << 20),
        ] {
            assert_eq!(key_of(&other), None, "{} bytes", other.len());
        }
    }

    proptest! {
        #[test]
        fn a_changed_character_is_noticed(at in 8usize..57, with in 0usize..64) {
            let token = NewServiceToken::random().expect("random bytes");
            let mut text = token.as_str().to_owned();
            let alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
            let with = &alphabet[with..=with];
            prop_assume!(text[at..=at] != *with);
            text.replace_range(at..=at, with);
            prop_assert_eq!(key_of(&text), None);
        }
    }
}
