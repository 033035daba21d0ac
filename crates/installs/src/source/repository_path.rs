//! Paths within a git repository.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use super::error::SourceError;

/// Longest path, in bytes.
const MAX_PATH: usize = 1024;

/// A folder or file of a repository: names only, no `..`, never absolute.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RepositoryPath(Vec<String>);

impl RepositoryPath {
    /// Reads the path of a source. Empty and `/` are the root.
    ///
    /// # Errors
    /// Permanent, with the path.
    pub(crate) fn parse(text: &str) -> Result<RepositoryPath, SourceError> {
        RepositoryPath::default().join(text.trim_start_matches('/'), false)
    }

    /// The path that a text relative to this one leads to; `..` is allowed within the repository.
    ///
    /// # Errors
    /// Permanent, also if it leads out of the repository.
    pub(crate) fn resolve(&self, text: &str) -> Result<RepositoryPath, SourceError> {
        self.join(text, true)
    }

    fn join(&self, text: &str, may_ascend: bool) -> Result<RepositoryPath, SourceError> {
        let invalid = |why: &str| SourceError::permanent(format!("the path {text:?} {why}"));
        if text.starts_with('/') {
            return Err(invalid("is absolute"));
        }
        if text.len() > MAX_PATH || text.chars().any(|c| c.is_control() || c == '\\') {
            return Err(invalid(
                "is too long or has control characters or backslashes",
            ));
        }
        let mut names = self.0.clone();
        for name in text.split('/') {
            match name {
                "" | "." => {}
                ".." if !may_ascend => return Err(invalid("must not have \"..\"")),
                ".." => {
                    let left = names.pop();
                    left.ok_or_else(|| invalid("leads out of the repository"))?;
                }
                name => names.push(name.to_owned()),
            }
        }
        Ok(RepositoryPath(names))
    }

    /// Whether this is the root.
    pub(crate) fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether another path is this one or below it.
    pub(crate) fn contains(&self, other: &RepositoryPath) -> bool {
        other.0.starts_with(&self.0)
    }

    /// Where it is below a folder.
    pub(crate) fn below(&self, folder: &Path) -> PathBuf {
        let mut path = folder.to_owned();
        path.extend(&self.0);
        path
    }
}

impl fmt::Display for RepositoryPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("/"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> RepositoryPath {
        RepositoryPath::parse(text).expect("a path")
    }

    #[test]
    fn a_path_has_names_only() {
        for (text, wanted) in [
            ("", ""),
            ("/", ""),
            (".", ""),
            ("a", "a"),
            ("/a/b/", "a/b"),
            ("./a//b", "a/b"),
            ("a b/ü", "a b/ü"),
            ("-a", "-a"),
        ] {
            assert_eq!(path(text).to_string(), wanted, "{text:?}");
            assert_eq!(path(text).is_root(), wanted.is_empty());
        }
        let long = "a/".repeat(600);
        for text in [
            "..", "../x", "a/../b", "/../x", "a\\..\\b", "a\0b", "a\nb", &long,
        ] {
            assert!(RepositoryPath::parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_relative_path_stays_in_the_repository() {
        for (from, text, wanted) in [
            ("charts/a", "../b", Some("charts/b")),
            ("charts/a", "../../b", Some("b")),
            ("charts/a", "./sub", Some("charts/a/sub")),
            ("a", "..", Some("")),
            ("a", "../..", None),
            ("", "../x", None),
            ("a/b", "../../../a", None),
            ("a", "/etc", None),
        ] {
            let found = path(from).resolve(text).ok().map(|it| it.to_string());
            assert_eq!(found.as_deref(), wanted, "{from} {text}");
        }
    }

    #[test]
    fn a_folder_contains_itself_and_what_is_below() {
        assert!(path("a").contains(&path("a/b")) && path("").contains(&path("a")));
        assert!(path("a").contains(&path("a")));
        assert!(!path("a").contains(&path("ab")) && !path("a/b").contains(&path("a")));
        let below = path("a/b").below(Path::new("tmp"));
        assert_eq!(below, Path::new("tmp/a/b"));
    }
}
