//! Paths below a prefix, compared byte for byte.

/// The rest of a path after the prefix, if the path is the prefix or lies below it. The prefix has
/// no slash at its end.
pub fn below<'t>(path: &'t str, prefix: &str) -> Option<&'t str> {
    path.strip_prefix(prefix)
        .filter(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_below_a_prefix_of_whole_segments() {
        for (path, prefix, expected) in [
            ("/a", "/a", Some("")),
            ("/a/", "/a", Some("/")),
            ("/a/b", "/a", Some("/b")),
            ("/a/b", "/a/b", Some("")),
            ("/a", "", Some("/a")),
            ("/ab", "/a", None),
            ("/A", "/a", None),
            ("/a", "/a/b", None),
            ("", "/a", None),
        ] {
            assert_eq!(below(path, prefix), expected, "{path} {prefix}");
        }
    }
}
