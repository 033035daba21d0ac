//! The path policy (docs/behaviour.md#paths): which bytes a path may hold, and that no reading of
//! it climbs.
//!
//! The path is never changed. It is forwarded as it came, or refused.

use super::malformed::Malformed;
use crate::model::path_prefix::below;

/// Checks the bytes of a request target: a path beginning with `/`, then optionally `?` and a
/// query.
///
/// The query is data for the app: any visible ASCII passes. The path is read by routers, ours and
/// theirs, so everything that two of them could read differently is refused.
pub fn check(target: &str) -> Result<(), Malformed> {
    let bytes = target.as_bytes();
    if bytes.first() != Some(&b'/') {
        return Err(Malformed::Target);
    }
    let end = memchr::memchr(b'?', bytes).unwrap_or(bytes.len());
    let (path, query) = bytes.split_at(end);
    let mut rest = path;
    while let [byte, tail @ ..] = rest {
        rest = match byte {
            b'%' => match tail {
                [high, low, tail @ ..] => {
                    check_escape(*high, *low)?;
                    tail
                }
                _ => return Err(Malformed::Path),
            },
            byte if is_path_byte(*byte) => tail,
            _ => return Err(Malformed::Path),
        };
    }
    if query
        .iter()
        .all(|byte| matches!(byte, 0x21..=0x7e) && *byte != b'#')
    {
        Ok(())
    } else {
        Err(Malformed::Path)
    }
}

fn check_escape(high: u8, low: u8) -> Result<(), Malformed> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    match (digit(high), digit(low)) {
        // NUL, LF and CR end things in too many programs.
        (Some(0), Some(0 | 0xa | 0xd)) => Err(Malformed::Path),
        (Some(_), Some(_)) => Ok(()),
        (None, _) | (_, None) => Err(Malformed::Path),
    }
}

fn is_path_byte(byte: u8) -> bool {
    matches!(byte, 0x21..=0x7e)
        && !matches!(
            byte,
            b'"' | b'<' | b'>' | b'\\' | b'^' | b'`' | b'{' | b'|' | b'}' | b'#'
        )
}

/// Refuses a path below an app's root that climbs above it when decoded not at all, once, twice or
/// three times, with `\` read as `/` and everything from `;` cut from a segment.
///
/// `below` is the path after the slash that ends the app's mount, without the query.
pub fn check_below_root(below: &str) -> Result<(), Malformed> {
    let bytes = below.as_bytes();
    // A path without a dot segment in any spelling needs a `.` or a `%`; most have neither.
    if memchr::memchr2(b'.', b'%', bytes).is_none() {
        return Ok(());
    }
    if climbs_in_any_reading(bytes) {
        return Err(Malformed::Climbs);
    }
    let mut decoded = bytes.to_vec();
    for _ in 0..3 {
        if memchr::memchr(b'%', &decoded).is_none() {
            break;
        }
        decoded = percent_encoding::percent_decode(&decoded).collect();
        if climbs_in_any_reading(&decoded) {
            return Err(Malformed::Climbs);
        }
    }
    Ok(())
}

/// Also with `%2e` read as a dot and `%2f` as no slash, as browsers and most URL libraries do: a
/// segment `a%2fb` then counts once, and two `%2e%2e` climb where decoding everything would see
/// three steps down.
fn climbs_in_any_reading(path: &[u8]) -> bool {
    if climbs(path) {
        return true;
    }
    let mut dotted = Vec::with_capacity(path.len());
    let mut rest = path;
    while let [first, tail @ ..] = rest {
        let (byte, after) = match rest {
            [b'%', b'2', b'e' | b'E', after @ ..] => (b'.', after),
            [..] => (*first, tail),
        };
        dotted.push(byte);
        rest = after;
    }
    climbs(&dotted)
}

/// Whether another program may read the path as one below `prefix`, although its bytes do not say
/// so: decoded once, twice or three times, with `\` read as `/`, everything from `;` cut from a
/// segment, and empty and dot segments resolved or not.
pub fn may_be_read_below(path: &str, prefix: &str) -> bool {
    let bytes = path.as_bytes();
    let is_plain = memchr::memchr2(b'%', b';', bytes).is_none()
        && !path.contains("//")
        && !path.contains("/.");
    if is_plain || below(path, prefix).is_some() {
        return false;
    }
    let mut decoded = bytes.to_vec();
    for _ in 0..3 {
        if leads_below(&decoded, prefix) {
            return true;
        }
        if memchr::memchr(b'%', &decoded).is_none() {
            return false;
        }
        decoded = percent_encoding::percent_decode(&decoded).collect();
    }
    leads_below(&decoded, prefix)
}

fn leads_below(path: &[u8], prefix: &str) -> bool {
    let wanted: Vec<&[u8]> = segments(prefix.as_bytes()).collect();
    let named: Vec<&[u8]> = segments(path).collect();
    let mut resolved = Vec::with_capacity(named.len());
    for segment in &named {
        if *segment == b".." {
            resolved.pop();
        } else {
            resolved.push(*segment);
        }
    }
    named.starts_with(&wanted) || resolved.starts_with(&wanted)
}

/// The segments that name something, as the most generous reader sees them.
fn segments(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    let segments = path.split(|byte| matches!(byte, b'/' | b'\\'));
    segments.map(plain).filter(|it| !matches!(*it, b"" | b"."))
}

/// A segment without its parameters, white space, and what follows a NUL.
fn plain(segment: &[u8]) -> &[u8] {
    let end = memchr::memchr(b';', segment).unwrap_or(segment.len());
    let segment = segment[..end].trim_ascii();
    &segment[..memchr::memchr(0, segment).unwrap_or(segment.len())]
}

/// Whether the segments ever lead above where they began. An empty segment counts as nothing, which
/// is the stricter of the two readings in use.
fn climbs(path: &[u8]) -> bool {
    let mut depth = 0_i32;
    for segment in path.split(|byte| matches!(byte, b'/' | b'\\')) {
        match plain(segment) {
            b"" | b"." => {}
            b".." => depth -= 1,
            _ => depth += 1,
        }
        if depth < 0 {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn bytes_that_two_readers_read_differently_are_refused() {
        for bad in [
            "",
            "a",
            "*",
            "?x",
            "/a\\b",
            "/a#b",
            "/%",
            "/%2",
            "/%zz",
            "/%00",
            "/%0a",
            "/%0D",
            "/a b",
            "/é",
            "/{",
            "/a?b#c",
            "/a?\u{7f}",
        ] {
            assert!(check(bad).is_err(), "{bad:?}");
        }
        for good in [
            "/",
            "/a/b%2Fc//d?e",
            "/a;b",
            "/~x!$&'()*+,=:@",
            "/a?",
            "/a?{\"q\"|x}^`\\%",
            "/..%2f",
        ] {
            assert_eq!(check(good), Ok(()), "{good:?}");
        }
    }

    #[test]
    fn a_path_that_climbs_in_any_reading_is_refused() {
        for bad in [
            "..",
            "../x",
            "a/../../x",
            "%2e%2e/x",
            ".%2e",
            "%252e%252e/",
            "%25252e%25252e%25252fx",
            "..;/x",
            "a/..;b/../x",
            "..%2fx",
            "..%5cx",
            "a%2f..%2f..",
            "..%09/",
            ".;/..",
            "//..",
            "a%2fb/%2e%2e/%2e%2e/x",
            "a%252fb/%252e%252e/%252e%252e/x",
            "a//..//..",
        ] {
            assert_eq!(check_below_root(bad), Err(Malformed::Climbs), "{bad:?}");
        }
        for good in [
            "",
            "a",
            "a/..",
            "a/b/../../c",
            "...",
            "a/...",
            "%2e",
            "..a",
            "a..",
            "b%2Fc//d",
            "%c0%ae%c0%ae/",
        ] {
            assert_eq!(check_below_root(good), Ok(()), "{good:?}");
        }
    }

    #[test]
    fn a_path_that_is_below_a_prefix_in_another_reading_is_known() {
        let labs = "/apps/nb/user";
        for hidden in [
            "/apps/nb/%75ser/alice/lab",
            "/apps/nb/user%2Falice/lab",
            "/apps/nb/%2575ser/alice",
            "/apps//nb/user/alice",
            "/apps/nb/./user/alice",
            "/apps/nb/x/../user/alice/lab",
            "/apps/nb/x/%2e%2e/user/alice/lab",
            "/apps/nb/user;x/alice",
            "/apps/nb/%75ser/alice/../../x",
            "/%61pps/nb/user",
        ] {
            assert!(may_be_read_below(hidden, labs), "{hidden}");
        }
        for other in [
            "/apps/nb/user/alice/a%20b",
            "/apps/nb/user",
            "/apps/nb/hub/home",
            "/apps/nb/users%2Falice",
            "/apps/nb/hub/%75ser",
            "/apps/nb/hub/api/user;x",
            "/apps/nb//hub",
            "/",
        ] {
            assert!(!may_be_read_below(other, labs), "{other}");
        }
    }

    proptest! {
        #[test]
        fn whatever_passes_stays_below_the_root_when_a_browser_reads_it(segments in proptest::collection::vec("(\\.\\.|%2e%2e|\\.%2E|\\.|a|a%2fb|a%5cb|;|%2f|%5c|)", 0..8)) {
            let below = segments.join("/");
            if check_below_root(&below).is_ok() {
                let url = url::Url::parse(&format!("http://gw.test/apps/x/{below}")).expect("a URL");
                prop_assert!(url.path().starts_with("/apps/x/") || url.path() == "/apps/x", "{}", url.path());
            }
        }
    }
}
