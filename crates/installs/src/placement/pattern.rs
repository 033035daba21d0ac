//! Patterns of the names of namespaces that installations may create.

use std::{fmt, str::FromStr};

/// Stands for the namespace of the installation.
const PLACEHOLDER: &str = "{namespace}";

/// A pattern such as `{namespace}-*`. `{namespace}` is the namespace of the installation, and `*`
/// any text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamespacePattern(String);

/// The text is no pattern.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no pattern of namespaces: it may have lower-case letters, digits, hyphens, `*` and \
     `{{namespace}}`"
)]
pub struct InvalidNamespacePattern(String);

impl FromStr for NamespacePattern {
    type Err = InvalidNamespacePattern;

    fn from_str(text: &str) -> Result<NamespacePattern, InvalidNamespacePattern> {
        let rest = text.replace(PLACEHOLDER, "");
        let is_accepted = |letter: char| matches!(letter, 'a'..='z' | '0'..='9' | '-' | '*');
        match !text.is_empty() && rest.chars().all(is_accepted) {
            true => Ok(NamespacePattern(text.to_owned())),
            false => Err(InvalidNamespacePattern(text.to_owned())),
        }
    }
}

impl fmt::Display for NamespacePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl NamespacePattern {
    /// The pattern of names that begin with the namespace of the installation and a hyphen.
    pub fn own_prefix() -> NamespacePattern {
        NamespacePattern(format!("{PLACEHOLDER}-*"))
    }

    /// The pattern for the installations of one namespace.
    pub(super) fn filled(&self, own: &str) -> String {
        self.0.replace(PLACEHOLDER, own)
    }

    /// Whether installations of the namespace `own` may create the namespace `name`.
    pub(super) fn matches(&self, own: &str, name: &str) -> bool {
        let pattern = self.filled(own);
        let mut parts = pattern.split('*');
        let first = parts.next().unwrap_or_default();
        let Some(mut rest) = name.strip_prefix(first) else {
            return false;
        };
        let Some(last) = parts.next_back() else {
            return rest.is_empty();
        };
        for part in parts {
            match rest.split_once(part) {
                Some((_, after)) => rest = after,
                None => return false,
            }
        }
        rest.ends_with(last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_matches_whole_names() {
        for (pattern, name, wanted) in [
            ("{namespace}-*", "team-a", true),
            ("{namespace}-*", "team-", true),
            ("{namespace}-*", "team", false),
            ("{namespace}-*", "teams-a", false),
            ("{namespace}-*", "a-team-a", false),
            ("app-*-{namespace}", "app-x-team", true),
            ("app-*-{namespace}", "app-x-teams", false),
            ("app-*-*-x", "app-a-b-x", true),
            ("app-*-*-x", "app-a-x", false),
            ("sandbox", "sandbox", true),
            ("sandbox", "sandbox-2", false),
            ("*", "x", true),
        ] {
            let read: NamespacePattern = pattern.parse().expect("a pattern");
            assert_eq!(read.matches("team", name), wanted, "{pattern} {name}");
            assert_eq!(read.to_string(), pattern);
        }
        assert_eq!("{namespace}-*".parse(), Ok(NamespacePattern::own_prefix()));
    }

    #[test]
    fn other_texts_are_refused() {
        for text in ["", "A", "a.b", "{name}-*", "a/b", "a b"] {
            let read: Result<NamespacePattern, _> = text.parse();
            let error = read.expect_err("refused").to_string();
            assert!(error.contains("`{namespace}`"), "{error}");
        }
    }
}
