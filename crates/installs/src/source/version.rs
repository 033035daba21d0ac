//! Versions and ranges of versions, as Helm reads them.

use std::fmt;

use semver::{Comparator, Op, Prerelease, Version};

use super::error::SourceError;

/// The version that is wanted of a chart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WantedVersion {
    /// The highest one that is no pre-release.
    Latest,
    /// Exactly this one.
    Exact(Version),
    /// The highest one in a range.
    Range(VersionRange),
}

impl WantedVersion {
    /// The version of a source: empty, or a whole version.
    pub(crate) fn for_source(text: &str) -> Result<WantedVersion, SourceError> {
        match text {
            "" => Ok(WantedVersion::Latest),
            text => match parse_version(text) {
                Some(version) => Ok(WantedVersion::Exact(version)),
                None => Err(SourceError::permanent(format!(
                    "{text:?} is no semantic version"
                ))),
            },
        }
    }

    /// The version of a dependency: a whole version or a range.
    pub(crate) fn for_dependency(text: &str) -> Result<WantedVersion, SourceError> {
        if let Some(version) = parse_version(text) {
            return Ok(WantedVersion::Exact(version));
        }
        VersionRange::parse(text).map(WantedVersion::Range)
    }

    /// Whether a version is the wanted one, or one of them.
    pub(crate) fn matches(&self, version: &Version) -> bool {
        match self {
            WantedVersion::Latest => version.pre.is_empty(),
            WantedVersion::Exact(wanted) => is_same(wanted, version),
            WantedVersion::Range(range) => range.matches(version),
        }
    }

    /// The best of some versions, as written.
    pub(crate) fn choose<'v>(&self, versions: impl Iterator<Item = &'v str>) -> Option<&'v str> {
        let parsed = versions.filter_map(|text| Some((parse_version(text)?, text)));
        let matching = parsed.filter(|(version, _)| self.matches(version));
        let best = matching.max_by(|(a, _), (b, _)| a.cmp(b));
        best.map(|(_, text)| text)
    }
}

impl fmt::Display for WantedVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WantedVersion::Latest => f.write_str("the latest version"),
            WantedVersion::Exact(version) => write!(f, "version {version}"),
            WantedVersion::Range(range) => write!(f, "a version in {:?}", range.text),
        }
    }
}

/// A whole semantic version, also with a `v` before it.
pub(crate) fn parse_version(text: &str) -> Option<Version> {
    Version::parse(text.strip_prefix('v').unwrap_or(text)).ok()
}

/// Build metadata counts only where it is wanted.
fn is_same(wanted: &Version, version: &Version) -> bool {
    wanted.cmp_precedence(version).is_eq()
        && (wanted.build.is_empty() || wanted.build == version.build)
}

/// A range of versions: alternatives with `||`, each with comparators that must all match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct VersionRange {
    text: String,
    alternatives: Vec<Vec<Comparator>>,
}

impl VersionRange {
    /// Reads a range such as `^1.2`, `~1.2.3`, `1.x`, `>=1 <2` or `1.2.0 - 1.4.0`.
    ///
    /// # Errors
    /// Permanent, with the text.
    pub(crate) fn parse(text: &str) -> Result<VersionRange, SourceError> {
        let invalid = || {
            let forms = "^1.2, ~1.2.3, 1.x, >=1.2 <2";
            SourceError::permanent(format!("{text:?} is no version and no range as {forms}"))
        };
        if text.trim().is_empty() {
            return Err(SourceError::permanent("the version is empty"));
        }
        let alternatives = text.split("||").map(alternative).collect::<Option<_>>();
        Ok(VersionRange {
            text: text.to_owned(),
            alternatives: alternatives.ok_or_else(invalid)?,
        })
    }

    fn matches(&self, version: &Version) -> bool {
        let all = |comparators: &Vec<Comparator>| {
            let is_stable_only = comparators.is_empty();
            match is_stable_only {
                true => version.pre.is_empty(),
                false => comparators.iter().all(|it| comparator_matches(it, version)),
            }
        };
        self.alternatives.iter().any(all)
    }
}

/// The comparators of one alternative. Without any, every stable version matches.
fn alternative(text: &str) -> Option<Vec<Comparator>> {
    if let Some((low, high)) = text.split_once(" - ") {
        let comparators = [format!(">={}", low.trim()), format!("<={}", high.trim())];
        return comparators.iter().map(|it| comparator(it)?).collect();
    }
    let mut comparators = Vec::new();
    let mut operator = "";
    for word in text.split([' ', '\t', ',']).filter(|word| !word.is_empty()) {
        // There may be space behind an operator.
        if operator.is_empty() && word.chars().all(is_operator) {
            operator = word;
            continue;
        }
        if let Some(comparator) = comparator(&format!("{operator}{word}"))? {
            comparators.push(comparator);
        }
        operator = "";
    }
    let is_complete = operator.is_empty() && !text.trim().is_empty();
    is_complete.then_some(comparators)
}

fn is_operator(c: char) -> bool {
    "=<>~^!".contains(c)
}

/// One comparator. `Some(None)`: any version. A version without an operator means itself, and not
/// all compatible ones as with Cargo.
fn comparator(text: &str) -> Option<Option<Comparator>> {
    let end = text.find(|c: char| !is_operator(c)).unwrap_or(text.len());
    let (operator, version) = text.split_at(end);
    let version = version.strip_prefix('v').unwrap_or(version);
    let mut parts: Vec<&str> = version.split('.').collect();
    let is_wildcard = |part: &&str| ["x", "X", "*"].contains(part);
    // A pre-release may end with `.x`.
    while !version.contains('-') && parts.last().is_some_and(is_wildcard) {
        parts.pop();
    }
    let operator = match operator {
        "" | "=" | "==" => "=",
        "=>" => ">=",
        "=<" => "<=",
        "~>" => "~",
        ">" | "<" | ">=" | "<=" | "~" | "^" => operator,
        _ => return None,
    };
    if parts.is_empty() {
        // `>*` and `<*` match nothing useful.
        return ["=", "~", "^", ">="].contains(&operator).then_some(None);
    }
    let comparator = Comparator::parse(&format!("{operator}{}", parts.join("."))).ok()?;
    Some(Some(comparator))
}

/// A pre-release matches only comparators that have a pre-release themselves, and then by order,
/// also if its numbers are not those of the comparator.
fn comparator_matches(comparator: &Comparator, version: &Version) -> bool {
    if version.pre.is_empty() {
        return comparator.matches(version);
    }
    if comparator.pre.is_empty() {
        return false;
    }
    let wanted = Version {
        major: comparator.major,
        minor: comparator.minor.unwrap_or_default(),
        patch: comparator.patch.unwrap_or_default(),
        pre: comparator.pre.clone(),
        build: Default::default(),
    };
    let order = version.cmp_precedence(&wanted);
    match comparator.op {
        Op::Greater => order.is_gt(),
        Op::GreaterEq => order.is_ge(),
        Op::Less => order.is_lt(),
        Op::LessEq => order.is_le(),
        Op::Tilde | Op::Caret => order.is_ge() && is_below_bound(comparator, version),
        Op::Exact | Op::Wildcard => order.is_eq(),
        _ => false,
    }
}

/// Whether the numbers of a version are within those of a tilde or caret comparator.
fn is_below_bound(comparator: &Comparator, version: &Version) -> bool {
    let bound = Comparator {
        pre: Prerelease::EMPTY,
        ..comparator.clone()
    };
    bound.matches(&Version::new(version.major, version.minor, version.patch))
}

#[cfg(test)]
mod tests;
