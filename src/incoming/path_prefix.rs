//! Whether a path lies below a prefix: by its bytes, and as other programs may read it.
//!
//! A reader may decode the path up to three times, read `\` as `/`, cut segments at `;`, drop
//! empty and dot segments, white space and control characters, ignore case, fold letters, or take
//! `name.json` for `name`. A path with two dots at the start of a segment may lead anywhere.

use std::borrow::Cow;

use crate::model::path_prefix::below;

/// The relation of a path and a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrefixMatch {
    /// Every program reads the path as one that is not below the prefix.
    No,
    /// Programs may differ.
    Maybe,
    /// The bytes say that the path is the prefix or lies below it, and every program agrees.
    Yes,
}

/// Compares a path with a prefix, which is plain and has no slash at its end. The path was accepted
/// by [`check`](super::path::check).
pub fn compare(path: &str, prefix: &str) -> PrefixMatch {
    if prefix.is_empty() {
        return PrefixMatch::Yes;
    }
    let is_below = below(path, prefix).is_some();
    let path = path.as_bytes();
    // Most paths are plain: no other reading of their segments than by case and by ending.
    if memchr::memchr3(b'%', b';', b'\\', path).is_none() && !has_dot_segment(path) {
        return match is_below {
            true => PrefixMatch::Yes,
            false if leads_below(path, prefix) => PrefixMatch::Maybe,
            false => PrefixMatch::No,
        };
    }
    let mut reading = Cow::Borrowed(path);
    let mut may_be_below = is_below;
    for decoded in 0..=MAX_DECODED {
        if has_dot_segment(&reading) {
            return PrefixMatch::Maybe;
        }
        may_be_below |= leads_below(&reading, prefix);
        if !reading.is_ascii() {
            let folded = fold(&String::from_utf8_lossy(&reading));
            if has_dot_segment(folded.as_bytes()) {
                return PrefixMatch::Maybe;
            }
            may_be_below |= leads_below(folded.as_bytes(), prefix);
        }
        if decoded == MAX_DECODED || memchr::memchr(b'%', &reading).is_none() {
            break;
        }
        reading = Cow::Owned(percent_encoding::percent_decode(&reading).collect());
    }
    match (is_below, may_be_below) {
        (true, _) => PrefixMatch::Yes,
        (false, true) => PrefixMatch::Maybe,
        (false, false) => PrefixMatch::No,
    }
}

/// How often a program may decode a path.
const MAX_DECODED: usize = 3;

/// Whether a segment may lead up: it begins with two dots, whatever follows them.
fn has_dot_segment(path: &[u8]) -> bool {
    let leads_up = |segment: &[u8]| {
        let mut bytes = segment.iter().filter(|byte| !is_dropped(**byte));
        bytes.next() == Some(&b'.') && bytes.next() == Some(&b'.')
    };
    path.split(is_slash).any(leads_up)
}

/// Whether the first segments that name something may be read as those of the prefix.
fn leads_below(path: &[u8], prefix: &str) -> bool {
    let has_meaning = |segment: &&[u8]| !matches!(named(segment), b"" | b".");
    let mut segments = path.split(is_slash).filter(has_meaning);
    let mut wanted = prefix.as_bytes().split(is_slash).skip(1);
    wanted.all(|wanted| {
        let segment = segments.next();
        segment.is_some_and(|segment| may_be_read_as(segment, wanted))
    })
}

fn is_slash(byte: &u8) -> bool {
    matches!(byte, b'/' | b'\\')
}

/// A segment without its parameters and white space.
fn named(segment: &[u8]) -> &[u8] {
    let end = memchr::memchr(b';', segment).unwrap_or(segment.len());
    segment[..end].trim_ascii()
}

/// Whether a segment is the wanted one, or that and an ending such as `.json` or `;x`.
fn may_be_read_as(segment: &[u8], wanted: &[u8]) -> bool {
    if has_name(segment, wanted) {
        return true;
    }
    let is_plain = |byte: &u8| byte.is_ascii() && !is_dropped(*byte);
    if segment.iter().all(is_plain) {
        return false;
    }
    match std::str::from_utf8(segment) {
        Ok(text) => has_name(fold(text).as_bytes(), wanted),
        // Programs that accept such bytes do not agree on what they mean.
        Err(_) => true,
    }
}

fn has_name(segment: &[u8], wanted: &[u8]) -> bool {
    let Some((name, ending)) = segment.split_at_checked(wanted.len()) else {
        return false;
    };
    let is_part_of_name =
        |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_') || !byte.is_ascii();
    name.eq_ignore_ascii_case(wanted) && !ending.first().is_some_and(is_part_of_name)
}

fn is_dropped(byte: u8) -> bool {
    byte <= b' ' || byte == 0x7f
}

/// The text without what some programs drop, and with letters that some programs take for those of
/// ASCII: full-width ones, and those that change into ASCII with their case.
fn fold(text: &str) -> String {
    let mut folded = String::with_capacity(text.len());
    for letter in text.chars() {
        let half_width = u32::from(letter)
            .checked_sub(0xfee0)
            .and_then(char::from_u32)
            .filter(char::is_ascii_graphic);
        let before = folded.len();
        folded.extend(half_width);
        if folded.len() == before {
            folded.extend(letter.to_lowercase().filter(char::is_ascii));
        }
        if folded.len() == before {
            folded.extend(letter.to_uppercase().filter(char::is_ascii));
        }
        if folded.len() == before && letter.is_alphanumeric() {
            folded.push(letter);
        }
    }
    folded.retain(|letter| !u8::try_from(letter).is_ok_and(is_dropped));
    folded
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_plain_path_is_below_a_prefix_or_not() {
        for (path, prefix, wanted) in [
            ("/a", "/a", PrefixMatch::Yes),
            ("/a/", "/a", PrefixMatch::Yes),
            ("/a/b", "/a", PrefixMatch::Yes),
            ("/a/b.c/..d", "/a", PrefixMatch::Maybe),
            ("/a//b", "/a", PrefixMatch::Yes),
            ("/a/./b", "/a", PrefixMatch::Yes),
            ("/a/b%20c", "/a", PrefixMatch::Yes),
            ("/a/b;c", "/a", PrefixMatch::Yes),
            ("/a/%2e/b", "/a", PrefixMatch::Yes),
            ("/a/b/c", "/a/b", PrefixMatch::Yes),
            ("/", "", PrefixMatch::Yes),
            ("", "", PrefixMatch::Yes),
            ("/", "/a", PrefixMatch::No),
            ("", "/a", PrefixMatch::No),
            ("/ab", "/a", PrefixMatch::No),
            ("/a-b", "/a", PrefixMatch::No),
            ("/b/a", "/a", PrefixMatch::No),
            ("/a", "/a/b", PrefixMatch::No),
            ("/b%2Fa", "/a", PrefixMatch::No),
            ("/%C3%A9/a", "/a", PrefixMatch::No),
            // A program that drops signs would read the path as `//a`.
            ("/%E2%82%AC/a", "/a", PrefixMatch::Maybe),
            ("/gr%C3%B6%C3%9Fe", "/grosse", PrefixMatch::No),
        ] {
            assert_eq!(compare(path, prefix), wanted, "{path} {prefix}");
        }
    }

    #[test]
    fn a_path_that_another_program_reads_differently_may_be_below() {
        for path in [
            "/Admin/x",
            "/ADMIN",
            "//admin/x",
            "/./admin",
            "/x/../admin",
            "/x/%2e%2e/admin",
            "/x/%252e%252e/admin",
            "/x%2f..%2fadmin",
            "/a/%2e%2e/../%61dmin",
            "/%61dmin",
            "/%2561dmin/x",
            "/%25%36%31dmin",
            "/admin%2Fx",
            "/admin%5cx",
            "/admin;x=y",
            "/;x/admin",
            "/admin%3fx",
            "/admin%23x",
            "/admin%20",
            "/admin.json",
            "/admin%00",
            "/admin%2500.css",
            "/ad%09min",
            "/%c1%a1dmin",
            "/%EF%BD%81dmin",
            "/adm%C4%B1n",
            "/x/%EF%BC%8E%EF%BC%8E/admin",
            "/%EF%BC%8Fadmin",
            "/..;/admin",
            "/.%2e/x",
        ] {
            assert_eq!(compare(path, "/admin"), PrefixMatch::Maybe, "{path}");
        }
        for path in [
            "/open/../admin",
            "/open/%2e%2e/admin",
            "/open/..%23",
            "/open/a/..;/..;/x",
        ] {
            assert_eq!(compare(path, "/open"), PrefixMatch::Maybe, "{path}");
        }
    }

    /// Segments that readers disagree about, and plain ones.
    const SEGMENT: &str = "(a|b|A|a%2fb|%61|%2561|\\.|\\.\\.|%2e%2e|\\.%2E|;|a;b|%5c|%2f|a\\.x|)";

    /// What a program reads that decodes so often, resolves dots, and drops empty segments.
    fn resolved(path: &str, decoded: usize) -> Vec<u8> {
        let mut bytes = path.as_bytes().to_vec();
        for _ in 0..decoded {
            bytes = percent_encoding::percent_decode(&bytes).collect();
        }
        let mut kept: Vec<&[u8]> = Vec::new();
        for segment in bytes.split(is_slash) {
            match named(segment) {
                b"" | b"." => {}
                b".." => {
                    kept.pop();
                }
                name => kept.push(name),
            }
        }
        let joined = kept.join(&b'/').to_ascii_lowercase();
        [b"/".as_slice(), &joined].concat()
    }

    proptest! {
        #[test]
        fn no_reader_disagrees_with_yes_or_no(segments in proptest::collection::vec(SEGMENT, 0..6)) {
            let path = format!("/{}", segments.join("/"));
            for prefix in ["/a", "/a/b", "/b"] {
                let compared = compare(&path, prefix);
                for decoded in 0..=3 {
                    let read = resolved(&path, decoded);
                    let rest = read.strip_prefix(prefix.as_bytes());
                    let is_below = rest.is_some_and(|rest| matches!(rest.first(), None | Some(b'/')));
                    match compared {
                        PrefixMatch::Yes => prop_assert!(is_below, "{path} {prefix}"),
                        PrefixMatch::No => prop_assert!(!is_below, "{path} {prefix}"),
                        PrefixMatch::Maybe => {}
                    }
                }
            }
        }
    }
}
