//! Durations and sizes as text: `30m`, `64KiB`.

use std::time::Duration;

/// Parses `500ms`, `30s`, `30m`, `12h`, `1d`; a whole number and one unit.
pub fn duration(text: &str) -> Option<Duration> {
    let (number, unit) = split(text)?;
    let millis = match unit {
        "ms" => 1,
        "s" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    number.checked_mul(millis).map(Duration::from_millis)
}

/// Parses `100B`, `64KiB`, `1MiB`, `1GiB`, `64KB`; a whole number and one unit. In bytes.
pub fn size(text: &str) -> Option<u64> {
    let (number, unit) = split(text)?;
    let bytes = match unit {
        "B" => 1,
        "KB" => 1000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return None,
    };
    number.checked_mul(bytes)
}

fn split(text: &str) -> Option<(u64, &str)> {
    let at = text.find(|c: char| !c.is_ascii_digit())?;
    Some((text[..at].parse().ok()?, &text[at..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantity_is_a_whole_number_and_a_unit() {
        assert_eq!(duration("30m"), Some(Duration::from_secs(1800)));
        assert_eq!(duration("250ms"), Some(Duration::from_millis(250)));
        assert_eq!(size("64KiB"), Some(65536));
        for bad in [
            "",
            "30",
            "m",
            "-1s",
            "1.5h",
            "30 m",
            "30M",
            "99999999999999999999s",
            "18446744073709551615d",
        ] {
            assert_eq!(duration(bad), None, "{bad:?}");
        }
        for bad in ["", "64", "64kib", "1TiB", "18446744073709551615GiB"] {
            assert_eq!(size(bad), None, "{bad:?}");
        }
    }
}
