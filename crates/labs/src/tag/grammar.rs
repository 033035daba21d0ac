//! The grammar of tags.
//!
//! Most tags are a series with a version, then in this order and each optional: `_cNNNN.NNN`,
//! `_rspN`, `_` and anything, `-` and an architecture.

use chrono::{NaiveDate, Weekday};

use super::parsed::{ImageKind, ImageTag, TagVersion, title};

/// The tag of a reference without one.
pub const DEFAULT_TAG: &str = "latest";

/// Years that a date can have.
const YEARS: std::ops::RangeInclusive<i32> = 1..=9999;

/// The start of a tag that follows the conventions.
struct Head<'t> {
    kind: ImageKind,
    name: String,
    version: TagVersion,
    date: Option<NaiveDate>,
    /// Whether parts may follow.
    is_open: bool,
    rest: &'t str,
}

/// The optional parts, as written.
#[derive(Default)]
struct Tail<'t> {
    cycle: Option<&'t str>,
    cycle_build: Option<&'t str>,
    build: Option<&'t str>,
    extra: Option<&'t str>,
    architecture: Option<&'t str>,
}

impl ImageTag {
    /// Reads a tag. Each text is one; an empty text is `latest`.
    pub fn parse(tag: &str) -> ImageTag {
        let tag = if tag.is_empty() { DEFAULT_TAG } else { tag };
        parse(tag)
    }

    /// Reads a tag that the configuration names as an alias.
    pub fn alias(tag: &str) -> ImageTag {
        other(tag, ImageKind::Alias)
    }
}

fn parse(tag: &str) -> ImageTag {
    let heads = [candidate, release, old_release, weekly, daily];
    if let Some(parsed) = heads.iter().find_map(|head| known(tag, head(tag)?)) {
        return parsed;
    }
    match tag.strip_prefix("exp_") {
        Some(rest) if !rest.is_empty() => {
            let inner = parse(rest);
            ImageTag {
                tag: tag.to_owned(),
                kind: ImageKind::Experimental,
                display_name: format!("{} {}", ImageKind::Experimental, inner.display_name),
                ..inner
            }
        }
        _ => other(tag, ImageKind::Unknown),
    }
}

/// An unknown tag or an alias. It can have a cycle without a build, and an architecture.
fn other(tag: &str, kind: ImageKind) -> ImageTag {
    let (start, architecture) = split_architecture(tag);
    let with_cycle = start
        .rfind("_c")
        .map(|at| (&start[..at], &start[at + 2..]))
        .filter(|(_, cycle)| is_number(cycle) && cycle.parse::<u64>().is_ok());
    let (base, cycle) = match with_cycle {
        Some((base, cycle)) => (base, Some(cycle)),
        None => (start, None),
    };
    let tail = Tail {
        cycle,
        architecture,
        ..Tail::default()
    };
    let name = if kind == ImageKind::Alias {
        title(base)
    } else {
        base.to_owned()
    };
    ImageTag {
        tag: tag.to_owned(),
        kind,
        display_name: tail.append_to(name),
        base: Some(base.to_owned()),
        version: None,
        is_semantic: false,
        cycle: number(cycle),
        cycle_build: None,
        build: None,
        architecture: architecture.map(str::to_owned),
        extra: None,
        date: None,
    }
}

fn known(tag: &str, head: Head<'_>) -> Option<ImageTag> {
    let tail = match head.rest {
        "" => Tail::default(),
        rest if head.is_open => tail(rest)?,
        _ => return None,
    };
    Some(ImageTag {
        tag: tag.to_owned(),
        kind: head.kind,
        display_name: tail.append_to(format!("{} {}", head.kind, head.name)),
        base: None,
        version: Some(head.version),
        is_semantic: matches!(head.kind, ImageKind::Release | ImageKind::Candidate),
        cycle: number(tail.cycle),
        cycle_build: number(tail.cycle_build),
        build: number(tail.build),
        architecture: tail.architecture.map(str::to_owned),
        extra: tail.extra.map(str::to_owned),
        date: head.date,
    })
}

impl Tail<'_> {
    fn append_to(&self, mut name: String) -> String {
        match (self.cycle, self.cycle_build) {
            (Some(cycle), Some(build)) => name += &format!(" (SAL Cycle {cycle}, Build {build})"),
            (Some(cycle), None) => name += &format!(" (SAL Cycle {cycle})"),
            (None, _) => {}
        }
        if let Some(build) = self.build {
            name += &format!(" (RSP Build {build})");
        }
        for part in [self.extra, self.architecture].into_iter().flatten() {
            name += &format!(" [{part}]");
        }
        name
    }
}

/// A part that does not fit leaves its text to the next one: `_c20` is something else.
fn tail(text: &str) -> Option<Tail<'_>> {
    let with_cycle = cycle_part(text).and_then(|(cycle, cycle_build, rest)| {
        let tail = after_cycle(rest)?;
        Some(Tail {
            cycle: Some(cycle),
            cycle_build: Some(cycle_build),
            ..tail
        })
    });
    with_cycle.or_else(|| after_cycle(text))
}

fn cycle_part(text: &str) -> Option<(&str, &str, &str)> {
    let (cycle, rest) = digits(text.strip_prefix("_c")?)?;
    let (build, rest) = digits(rest.strip_prefix('.')?)?;
    Some((cycle, build, rest))
}

fn after_cycle(text: &str) -> Option<Tail<'_>> {
    let with_build = text
        .strip_prefix("_rsp")
        .and_then(digits)
        .and_then(|(build, rest)| {
            let tail = after_build(rest)?;
            Some(Tail {
                build: Some(build),
                ..tail
            })
        });
    with_build.or_else(|| after_build(text))
}

fn after_build(text: &str) -> Option<Tail<'_>> {
    if text.is_empty() {
        return Some(Tail::default());
    }
    if let Some(extra) = text.strip_prefix('_').filter(|extra| !extra.is_empty()) {
        return Some(match split_architecture(extra) {
            ("", _) => Tail {
                extra: Some(extra),
                ..Tail::default()
            },
            (extra, architecture) => Tail {
                extra: Some(extra),
                architecture,
                ..Tail::default()
            },
        });
    }
    match split_architecture(text) {
        ("", architecture @ Some(_)) => Some(Tail {
            architecture,
            ..Tail::default()
        }),
        _ => None,
    }
}

/// What is behind the last hyphen, if it can be an architecture.
fn split_architecture(text: &str) -> (&str, Option<&str>) {
    let is_part = |b: u8| b.is_ascii_digit() || b.is_ascii_lowercase();
    match text.rsplit_once('-') {
        Some((start, end)) if !end.is_empty() && end.bytes().all(is_part) => (start, Some(end)),
        _ => (text, None),
    }
}

fn candidate(tag: &str) -> Option<Head<'_>> {
    let (version, rest) = release_version(tag)?;
    let (candidate, rest) = digits(rest.strip_prefix("_rc")?)?;
    let TagVersion {
        major,
        minor,
        patch,
        ..
    } = version;
    Some(Head {
        kind: ImageKind::Candidate,
        name: format!("r{major}.{minor}.{patch}-rc{candidate}"),
        version: TagVersion {
            candidate: Some(candidate.parse().ok()?),
            ..version
        },
        date: None,
        is_open: true,
        rest,
    })
}

fn release(tag: &str) -> Option<Head<'_>> {
    let (version, rest) = release_version(tag)?;
    Some(release_head(version, true, rest))
}

/// `r170` was 17.0. There are no new ones.
fn old_release(tag: &str) -> Option<Head<'_>> {
    let (number, rest) = digits(tag.strip_prefix('r')?)?;
    let (major, minor) = (number.len() == 3).then(|| number.split_at(2))?;
    let version = version(major, minor, "0")?;
    Some(release_head(version, false, rest))
}

fn release_head(version: TagVersion, is_open: bool, rest: &str) -> Head<'_> {
    let TagVersion {
        major,
        minor,
        patch,
        ..
    } = version;
    Head {
        kind: ImageKind::Release,
        name: format!("r{major}.{minor}.{patch}"),
        version,
        date: None,
        is_open,
        rest,
    }
}

fn release_version(tag: &str) -> Option<(TagVersion, &str)> {
    let (major, rest) = digits(tag.strip_prefix('r')?)?;
    let (minor, rest) = digits(rest.strip_prefix('_')?)?;
    let (patch, rest) = digits(rest.strip_prefix('_')?)?;
    Some((version(major, minor, patch)?, rest))
}

fn weekly(tag: &str) -> Option<Head<'_>> {
    let (year, rest) = digits(tag.strip_prefix("w_")?)?;
    let (week, rest) = digits(rest.strip_prefix('_')?)?;
    // Weeklies are built on Thursdays.
    let date = NaiveDate::from_isoywd_opt(in_range(year)?, week.parse().ok()?, Weekday::Thu)?;
    Some(Head {
        kind: ImageKind::Weekly,
        name: format!("{year}_{week}"),
        version: version(year, week, "0")?,
        date: Some(date),
        is_open: true,
        rest,
    })
}

fn daily(tag: &str) -> Option<Head<'_>> {
    let (year, rest) = digits(tag.strip_prefix("d_")?)?;
    let (month, rest) = digits(rest.strip_prefix('_')?)?;
    let (day, rest) = digits(rest.strip_prefix('_')?)?;
    let date = NaiveDate::from_ymd_opt(in_range(year)?, month.parse().ok()?, day.parse().ok()?)?;
    Some(Head {
        kind: ImageKind::Daily,
        name: format!("{year}_{month}_{day}"),
        version: version(year, month, day)?,
        date: Some(date),
        is_open: true,
        rest,
    })
}

fn in_range(year: &str) -> Option<i32> {
    year.parse().ok().filter(|year| YEARS.contains(year))
}

fn version(major: &str, minor: &str, patch: &str) -> Option<TagVersion> {
    Some(TagVersion {
        major: major.parse().ok()?,
        minor: minor.parse().ok()?,
        patch: patch.parse().ok()?,
        candidate: None,
    })
}

/// The digits that a text starts with, at least one, and the rest.
fn digits(text: &str) -> Option<(&str, &str)> {
    let end = text
        .bytes()
        .position(|byte| !byte.is_ascii_digit())
        .unwrap_or(text.len());
    (end > 0).then(|| text.split_at(end))
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn number(text: Option<&str>) -> Option<u64> {
    text?.parse().ok()
}
