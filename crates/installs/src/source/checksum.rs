//! SHA-256 of bytes.

use aws_lc_rs::digest::{SHA256, digest};
use ludgate_model::hex;

/// The SHA-256 of bytes, as 64 hexadecimal digits in lower case.
pub(crate) fn sha256_hex(bytes: &[u8]) -> String {
    hex::encode(digest(&SHA256, bytes).as_ref())
}

/// Whether a text is a SHA-256 as [`sha256_hex`] gives it.
pub(crate) fn is_sha256_hex(text: &str) -> bool {
    text.len() == 64
        && text
            .bytes()
            .all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_sixty_four_lower_case_digits() {
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(sha256_hex(b""), empty);
        assert!(is_sha256_hex(empty));
        for text in ["", &empty[1..], &empty.to_uppercase(), &format!("{empty}0")] {
            assert!(!is_sha256_hex(text), "{text}");
        }
    }
}
