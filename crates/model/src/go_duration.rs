//! Durations in Go's form, such as `1h30m`, with a sign. In nanoseconds, as Go counts them.

use std::time::Duration;

/// Units and their nanoseconds. A unit that begins with another one comes first.
const UNITS: [(&str, f64); 8] = [
    ("ns", 1.0),
    ("us", 1e3),
    ("µs", 1e3),
    ("μs", 1e3),
    ("ms", 1e6),
    ("s", 1e9),
    ("m", 6e10),
    ("h", 3.6e12),
];

/// Longest text. Go writes none that is longer.
const MAX_LENGTH: usize = 40;

/// The nanoseconds of a duration; `None` if the text is none, or has more than Go can count.
pub fn parse(text: &str) -> Option<i64> {
    if text.len() > MAX_LENGTH {
        return None;
    }
    let (sign, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (-1.0, rest),
        None => (1.0, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(0);
    }
    if rest.is_empty() {
        return None;
    }
    let mut total = 0.0;
    while !rest.is_empty() {
        let end = rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.')?;
        let (number, tail) = rest.split_at(end);
        let (unit, nanoseconds) = UNITS.iter().find(|(unit, _)| tail.starts_with(unit))?;
        // Rust reads no lone point, and neither does Go.
        total += number.parse::<f64>().ok()? * nanoseconds;
        rest = tail.strip_prefix(unit)?;
    }
    // The cast would saturate.
    let total = sign * total;
    (total.abs() < 9.2e18).then_some(total as i64)
}

/// A duration that is not negative.
pub fn parse_positive(text: &str) -> Option<Duration> {
    let nanoseconds = u64::try_from(parse(text)?).ok()?;
    Some(Duration::from_nanos(nanoseconds))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn units_are_added_and_a_sign_counts_for_all() {
        for (text, wanted) in [
            ("0", Some(0)),
            ("0s", Some(0)),
            ("5ns", Some(5)),
            ("5m0s", Some(300_000_000_000)),
            ("1h30m", Some(5_400_000_000_000)),
            ("1.5s", Some(1_500_000_000)),
            ("250ms", Some(250_000_000)),
            ("2µs", Some(2_000)),
            ("-1m", Some(-60_000_000_000)),
            ("", None),
            ("-", None),
            ("5", None),
            ("1d", None),
            (".s", None),
            ("1s-1s", None),
            ("99999999999h", None),
        ] {
            assert_eq!(parse(text), wanted, "{text:?}");
        }
        assert_eq!(parse_positive("-1s"), None);
        assert_eq!(parse_positive("90s"), Some(Duration::from_secs(90)));
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "[0-9.hmsnuµ+-]{0,20}|[0-9]{10,15}h|\\PC{0,8}") {
            let _ = parse(&text);
        }
    }
}
