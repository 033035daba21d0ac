//! Tables of ranges and versions.

use super::*;

fn range(text: &str) -> VersionRange {
    VersionRange::parse(text).expect("a range")
}

fn version(text: &str) -> Version {
    parse_version(text).expect("a version")
}

#[test]
fn ranges_match_as_with_helm() {
    for (text, matching, others) in [
        ("^1.2", "1.2.0 1.9.9", "1.1.9 2.0.0 1.3.0-rc.1"),
        ("^1.2.3", "1.2.3 1.3.0", "1.2.2 2.0.0"),
        ("^0.2.3", "0.2.3 0.2.9", "0.3.0 1.0.0"),
        ("^0.0.3", "0.0.3", "0.0.4 0.1.0"),
        ("^0", "0.0.1 0.9.0", "1.0.0"),
        ("~1.2.3", "1.2.3 1.2.9", "1.2.2 1.3.0"),
        ("~1.2", "1.2.0 1.2.9", "1.3.0"),
        ("~1", "1.0.0 1.9.0", "2.0.0"),
        ("~>1.2.3", "1.2.4", "1.3.0"),
        ("1.x", "1.0.0 1.9.0", "2.0.0 0.9.0"),
        ("1.2.x", "1.2.0", "1.3.0"),
        ("1.2.*", "1.2.7", "1.3.0"),
        ("0.x.x", "0.0.1 0.9.9", "1.0.0"),
        ("1", "1.0.0 1.9.0", "2.0.0"),
        ("1.2", "1.2.0 1.2.9", "1.3.0"),
        ("=1.2.3", "1.2.3", "1.2.4"),
        ("*", "0.0.1 9.0.0", "1.0.0-rc.1"),
        ("x", "1.0.0", "1.0.0-rc.1"),
        (">=1 <2", "1.0.0 1.9.9", "0.9.0 2.0.0"),
        (">=1.0.0, <2.0.0", "1.0.0", "2.0.0"),
        (">= 1.0.0 < 2", "1.5.0", "2.0.0"),
        (">1.2", "1.3.0", "1.2.9"),
        ("<=1.2", "1.2.9", "1.3.0"),
        ("=>1.2.0", "1.2.0", "1.1.0"),
        ("^1 || ^3", "1.5.0 3.0.0", "2.0.0"),
        ("1.2.0 - 1.4.0", "1.2.0 1.4.0", "1.1.9 1.4.1"),
        (">=v1.2.0", "1.2.0", "1.1.0"),
        (">=1.0.0-0", "1.0.0-rc.1 2.0.0-beta 2.0.0", "0.9.0"),
        (
            "^1.2.3-beta",
            "1.2.3-beta 1.2.3-rc 1.9.0 1.5.0-x",
            "1.2.3-alpha 2.0.0-x",
        ),
        ("~1.2.3-beta.1", "1.2.3-beta.2 1.2.4", "1.3.0-x"),
        ("<2.0.0-rc.1", "2.0.0-beta 1.0.0", "2.0.0-rc.1 2.0.0"),
    ] {
        let parsed = range(text);
        for candidate in matching.split(' ') {
            assert!(parsed.matches(&version(candidate)), "{text} {candidate}");
        }
        for candidate in others.split(' ') {
            assert!(!parsed.matches(&version(candidate)), "{text} {candidate}");
        }
    }
}

#[test]
fn other_texts_are_no_ranges() {
    for text in [
        "latest", "!=1.2.3", ">", ">=", "1.2.3.4", "^", "a.b.c", "1 ||", "|| 1", ">*", "1.x.3",
        "01.2.3", "1..2", "=<>1", "1.0 - ",
    ] {
        let error = VersionRange::parse(text).expect_err(text);
        assert!(error.message().contains(text), "{error}");
    }
    for text in ["", "  "] {
        let error = VersionRange::parse(text).expect_err("refused");
        assert_eq!(error.message(), "the version is empty");
    }
}

#[test]
fn the_highest_matching_version_is_chosen() {
    let versions = ["0.1.0", "junk", "v0.10.0", "0.2.0", "1.0.0-rc.1", "0.9.0"];
    let choose = |wanted: &WantedVersion| wanted.choose(versions.into_iter());
    assert_eq!(choose(&WantedVersion::Latest), Some("v0.10.0"));
    for (text, chosen) in [
        ("0.2.0", Some("0.2.0")),
        ("v0.2.0", Some("0.2.0")),
        ("0.10.0", Some("v0.10.0")),
        ("1.0.0-rc.1", Some("1.0.0-rc.1")),
        ("<0.9", Some("0.2.0")),
        ("^1", None),
        ("3.0.0", None),
    ] {
        let wanted = WantedVersion::for_dependency(text).expect("valid");
        assert_eq!(choose(&wanted), chosen, "{text}");
    }
}

#[test]
fn build_metadata_counts_where_it_is_wanted() {
    let with_build = WantedVersion::for_source("1.0.0+a").expect("valid");
    let without = WantedVersion::for_source("1.0.0").expect("valid");
    assert!(with_build.matches(&version("1.0.0+a")));
    assert!(!with_build.matches(&version("1.0.0+b")));
    assert!(without.matches(&version("1.0.0+b")));
}

#[test]
fn a_source_has_a_whole_version_or_none() {
    assert_eq!(WantedVersion::for_source(""), Ok(WantedVersion::Latest));
    for text in ["notSemver", "1", "1.2", "^1.2.3", "1.2.3 ", "latest"] {
        let error = WantedVersion::for_source(text).expect_err("refused");
        assert_eq!(error.message(), format!("{text:?} is no semantic version"));
    }
}
