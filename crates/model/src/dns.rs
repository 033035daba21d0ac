//! DNS labels as Kubernetes and host names write them (RFC 1123 section 2.1).

/// Longest DNS label, in bytes.
pub const MAX_LABEL: usize = 63;

/// Whether the text has 1 to `max` lower-case letters, digits and inner dashes.
pub fn is_label(text: &[u8], max: usize) -> bool {
    let inner = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || *byte == b'-';
    match text {
        [] | [b'-', ..] | [.., b'-'] => false,
        _ => text.len() <= max && text.iter().all(inner),
    }
}

/// Longest name of an object, in bytes.
const MAX_SUBDOMAIN: usize = 253;

/// Whether the text is a name of objects: labels with dots between them. Kubernetes sets no limit
/// of its own for these labels.
pub fn is_subdomain(text: &str) -> bool {
    let is_label = |label: &str| is_label(label.as_bytes(), MAX_SUBDOMAIN);
    text.len() <= MAX_SUBDOMAIN && text.split('.').all(is_label)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_has_lower_case_letters_digits_and_inner_dashes() {
        for good in ["a", "0", "a-1", "a--b"] {
            assert!(is_label(good.as_bytes(), MAX_LABEL), "{good:?}");
        }
        for bad in ["", "-", "-a", "a-", "A", "a.b", "a_b", "ä"] {
            assert!(!is_label(bad.as_bytes(), MAX_LABEL), "{bad:?}");
        }
        assert!(is_label(b"abc", 3) && !is_label(b"abcd", 3));
    }
}
