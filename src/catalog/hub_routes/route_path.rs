//! The path of a hub's route: as the hub wrote it, and as the requests below it are compared.

use std::borrow::Cow;

use crate::incoming;

/// Longest path of a route, in bytes.
const MAX_PATH: usize = 1024;
/// Maximum number of segments of a route's path.
pub const MAX_SEGMENTS: usize = 16;

/// The path of a route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoutePath {
    key: Box<str>,
    mount: Box<str>,
}

/// Why a route cannot have a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RoutePathError {
    /// It is too long.
    #[error("the path of a route may have {} bytes", MAX_PATH)]
    TooLong,
    /// It has too many segments.
    #[error("the path of a route may have {} segments", MAX_SEGMENTS)]
    TooDeep,
    /// It has `%2F` or `%5C`.
    #[error("the path of a route must not have an escaped slash or backslash (%2F, %5C)")]
    EscapedSlash,
    /// It has an empty segment, a dot segment, or bytes that no path has.
    #[error("the path of a route must be segments of a URL, without empty ones, . and ..")]
    Malformed,
}

impl RoutePath {
    /// Parses a path in escaped form. One slash at the end is not part of it.
    ///
    /// # Errors
    /// See [`RoutePathError`].
    pub fn parse(path: &str) -> Result<RoutePath, RoutePathError> {
        let mount = path.strip_suffix('/').unwrap_or(path);
        if mount.is_empty() {
            let root = || "".into();
            return Ok(RoutePath {
                key: root(),
                mount: root(),
            });
        }
        if mount.len() > MAX_PATH {
            return Err(RoutePathError::TooLong);
        }
        if mount.contains('?') || incoming::path::check(mount).is_err() {
            return Err(RoutePathError::Malformed);
        }
        if has_escape(mount, "%2f") || has_escape(mount, "%5c") {
            return Err(RoutePathError::EscapedSlash);
        }
        let key = unescape(mount).ok_or(RoutePathError::Malformed)?;
        if key.chars().any(char::is_control) {
            return Err(RoutePathError::Malformed);
        }
        let segments = || key.split('/').skip(1);
        if segments().any(|segment| matches!(segment, "" | "." | "..")) {
            return Err(RoutePathError::Malformed);
        }
        if segments().count() > MAX_SEGMENTS {
            return Err(RoutePathError::TooDeep);
        }
        Ok(RoutePath {
            key: key.into(),
            mount: mount.into(),
        })
    }

    /// The path without escapes: what routes are found by, and what the hub lists them by. Empty
    /// for the root.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The path as it was written, without a slash at the end.
    pub fn mount(&self) -> &str {
        &self.mount
    }

    /// The number of segments.
    pub fn depth(&self) -> usize {
        self.key.split('/').count().saturating_sub(1)
    }
}

/// A path without its escapes, decoded once. `None`: it has an escaped slash, which is part of a
/// segment and must not end one, or it is no UTF-8; then it is that of no route.
pub fn unescape(path: &str) -> Option<Cow<'_, str>> {
    if !path.contains('%') {
        return Some(Cow::Borrowed(path));
    }
    if has_escape(path, "%2f") {
        return None;
    }
    percent_encoding::percent_decode_str(path)
        .decode_utf8()
        .ok()
}

fn has_escape(path: &str, escape: &str) -> bool {
    let mut windows = path.as_bytes().windows(escape.len());
    windows.any(|window| window.eq_ignore_ascii_case(escape.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_route_is_found_by_its_path_without_escapes() {
        for (written, key, mount, depth) in [
            ("", "", "", 0),
            ("/", "", "", 0),
            ("/nb", "/nb", "/nb", 1),
            ("/nb/", "/nb", "/nb", 1),
            ("/nb/user/alice", "/nb/user/alice", "/nb/user/alice", 3),
            ("/nb/user/a%40b.c/", "/nb/user/a@b.c", "/nb/user/a%40b.c", 3),
            ("/nb/user/a@b", "/nb/user/a@b", "/nb/user/a@b", 3),
            ("/nb/user/%C3%A4", "/nb/user/ä", "/nb/user/%C3%A4", 3),
            (
                "/nb/user/a%20b/x~1",
                "/nb/user/a b/x~1",
                "/nb/user/a%20b/x~1",
                4,
            ),
            // Decoded once: the name has an escape of its own.
            ("/nb/user/a%252Fb", "/nb/user/a%2Fb", "/nb/user/a%252Fb", 3),
        ] {
            let path = RoutePath::parse(written).unwrap_or_else(|error| panic!("{error}"));
            let read = (path.key(), path.mount(), path.depth());
            assert_eq!(read, (key, mount, depth), "{written:?}");
        }
    }

    #[test]
    fn other_paths_are_refused_with_the_reason() {
        let long = format!("/nb/{}", "a".repeat(MAX_PATH));
        let deep = "/a".repeat(MAX_SEGMENTS + 1);
        for (written, error) in [
            (long.as_str(), RoutePathError::TooLong),
            (deep.as_str(), RoutePathError::TooDeep),
            ("/nb/user/a%2Fb", RoutePathError::EscapedSlash),
            ("/nb/user/a%2fb", RoutePathError::EscapedSlash),
            ("/nb/user/a%5Cb", RoutePathError::EscapedSlash),
            ("nb", RoutePathError::Malformed),
            ("/nb//user", RoutePathError::Malformed),
            ("/nb/user//", RoutePathError::Malformed),
            ("/nb/./user", RoutePathError::Malformed),
            ("/nb/../user", RoutePathError::Malformed),
            ("/nb/%2e%2e/user", RoutePathError::Malformed),
            ("/nb/user/%", RoutePathError::Malformed),
            ("/nb/user/%0a", RoutePathError::Malformed),
            ("/nb/user/%01", RoutePathError::Malformed),
            ("/nb/user/%ff", RoutePathError::Malformed),
            ("/nb/user?x", RoutePathError::Malformed),
        ] {
            assert_eq!(RoutePath::parse(written), Err(error), "{written:?}");
        }
    }
}
