//! Durations as Kubernetes writes them, in Go's form, such as `1h30m`.

use std::time::Duration;

/// Longest text. In a shorter one no amount overflows.
const MAX_LENGTH: usize = 16;

/// Parses a duration. Only texts are passed on for which kube's parser does not panic, as it does
/// on overflow and on a sign inside the text.
pub fn parse(text: &str) -> Option<Duration> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'.';
    if text.is_empty() || text.len() > MAX_LENGTH || !text.bytes().all(is_plain) {
        return None;
    }
    let parsed: kube::core::Duration = text.parse().ok()?;
    Some(parsed.into())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn units_are_added_and_signs_are_refused() {
        for (text, wanted) in [
            ("0", Some(0)),
            ("30s", Some(30_000)),
            ("1h30m", Some(5_400_000)),
            ("1.5s", Some(1_500)),
            ("250ms", Some(250)),
            ("", None),
            ("30", None),
            ("1d", None),
            ("-1s", None),
            ("5s-3s", None),
            ("99999999999999999h", None),
        ] {
            assert_eq!(parse(text), wanted.map(Duration::from_millis), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "[0-9.hmsnu+-]{0,20}|[0-9]{10,15}h|\\PC{0,8}") {
            let _ = parse(&text);
        }
    }
}
