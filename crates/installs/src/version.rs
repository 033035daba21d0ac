//! Versions of apps: semantic versions, with an optional `v` and with parts that may be absent, as
//! charts write them.

use std::cmp::Ordering;

use semver::{BuildMetadata, Prerelease, Version};

/// Parses a whole text such as `v1.2.3`, `1.2` or `1.0.0-rc.1+x`.
///
/// The Kubermatic Kubernetes Platform accepts every text with a digit, so existing objects may
/// have versions that are none.
pub fn parse(text: &str) -> Option<Version> {
    let text = text.strip_prefix('v').unwrap_or(text);
    let (text, build) = match text.split_once('+') {
        Some((text, build)) => (text, BuildMetadata::new(build).ok()?),
        None => (text, BuildMetadata::EMPTY),
    };
    let (numbers, pre) = match text.split_once('-') {
        Some((_, "")) => return None,
        Some((numbers, pre)) => (numbers, Prerelease::new(pre).ok()?),
        None => (text, Prerelease::EMPTY),
    };
    let mut numbers = numbers.split('.').map(number);
    let major = numbers.next()??;
    let minor = numbers.next().unwrap_or(Some(0))?;
    let patch = numbers.next().unwrap_or(Some(0))?;
    if numbers.next().is_some() {
        return None;
    }
    Some(Version {
        major,
        minor,
        patch,
        pre,
        build,
    })
}

/// A number of digits. `u64::from_str` would also accept a plus sign.
fn number(text: &str) -> Option<u64> {
    let is_digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_digits.then(|| text.parse().ok()).flatten()
}

/// The order of two versions. A text that is no version is lower than all versions.
pub fn compare(left: &str, right: &str) -> Ordering {
    match (parse(left), parse(right)) {
        (Some(left), Some(right)) => left.cmp_precedence(&right),
        (Some(_), None) => Ordering::Greater,
        (None, Some(_)) => Ordering::Less,
        (None, None) => Ordering::Equal,
    }
}

/// The highest version; of equal ones the first.
pub fn highest<'v>(versions: impl IntoIterator<Item = &'v str>) -> Option<&'v str> {
    versions
        .into_iter()
        .reduce(|highest, version| match compare(version, highest) {
            Ordering::Greater => version,
            Ordering::Less | Ordering::Equal => highest,
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_whole_text_is_a_version() {
        for (text, wanted) in [
            ("1.2.3", Some("1.2.3")),
            ("v1.2.3", Some("1.2.3")),
            ("1", Some("1.0.0")),
            ("v1.2", Some("1.2.0")),
            ("1.2-rc.1", Some("1.2.0-rc.1")),
            ("v0.0.0-dev", Some("0.0.0-dev")),
            ("1.2.3+build.5", Some("1.2.3+build.5")),
            ("1.0.0-a-b", Some("1.0.0-a-b")),
            ("", None),
            ("v", None),
            ("vv1", None),
            ("latest1", None),
            ("1.2.3.4", None),
            ("1.x", None),
            ("+1", None),
            ("1.2.3 ", None),
            ("1.0.0-", None),
        ] {
            let parsed = parse(text).map(|version| version.to_string());
            assert_eq!(parsed.as_deref(), wanted, "{text:?}");
        }
    }

    #[test]
    fn the_highest_version_is_found_by_precedence() {
        let versions = ["v1.0.0", "1.10.0", "v1.9.0", "1.10.0-rc.1"];
        assert_eq!(highest(versions), Some("1.10.0"));
        assert_eq!(highest(["dev", "0.1.0"]), Some("0.1.0"));
        assert_eq!(highest(["1.0.0", "v1.0.0"]), Some("1.0.0"));
        assert_eq!(highest([]), None);
    }
}
