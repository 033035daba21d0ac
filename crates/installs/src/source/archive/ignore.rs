//! `.helmignore`: files of a chart's folder that are not part of the chart.

use super::glob::Glob;
use crate::source::error::SourceError;

/// Largest file, in bytes: each rule is compared with each file of the chart.
const MAX_FILE: usize = 16 << 10;

/// Helm always ignores hidden files among the templates.
const DEFAULT_RULE: &str = "templates/.?*";

/// The rules of a `.helmignore`, and the one that Helm adds.
#[derive(Clone, Debug)]
pub(super) struct IgnoreRules(Vec<Rule>);

#[derive(Clone, Debug)]
struct Rule {
    pattern: Glob,
    is_negated: bool,
    is_for_folders: bool,
    /// Compared with the whole path, not with the last name only.
    is_for_paths: bool,
}

impl IgnoreRules {
    /// Reads the rules.
    ///
    /// # Errors
    /// Permanent, with a rule that Helm does not know, or if there are too many.
    pub(super) fn parse(text: &str) -> Result<IgnoreRules, SourceError> {
        if text.len() > MAX_FILE {
            let what = format!(".helmignore is larger than {MAX_FILE} bytes");
            return Err(SourceError::permanent(what));
        }
        let lines = text.trim_start_matches('\u{feff}').lines();
        let rules = lines.map(str::trim).chain([DEFAULT_RULE]);
        let rules = rules.filter(|rule| !rule.is_empty() && !rule.starts_with('#'));
        let rules: Result<Vec<Rule>, SourceError> = rules.map(Rule::parse).collect();
        Ok(IgnoreRules(rules?))
    }

    /// Whether a path of the chart is ignored. Of an ignored folder, nothing is packed.
    pub(super) fn is_ignored(&self, path: &str, is_folder: bool) -> bool {
        self.0.iter().any(|rule| rule.ignores(path, is_folder))
    }
}

impl Rule {
    fn parse(text: &str) -> Result<Rule, SourceError> {
        let (rule, is_negated) = match text.strip_prefix('!') {
            Some(rule) => (rule, true),
            None => (text, false),
        };
        let (rule, is_for_folders) = match rule.strip_suffix('/') {
            Some(rule) => (rule, true),
            None => (rule, false),
        };
        let pattern = match rule.contains("**") {
            true => None,
            false => Glob::parse(rule.strip_prefix('/').unwrap_or(rule)),
        };
        let invalid = || format!(".helmignore has an invalid rule {text:?}");
        Ok(Rule {
            pattern: pattern.ok_or_else(|| SourceError::permanent(invalid()))?,
            is_negated,
            is_for_folders,
            is_for_paths: rule.contains('/'),
        })
    }

    /// A negated rule of Helm ignores all that does not match it.
    fn ignores(&self, path: &str, is_folder: bool) -> bool {
        if self.is_for_folders && !is_folder {
            return self.is_negated;
        }
        let text = match self.is_for_paths {
            true => path,
            false => path.rsplit('/').next().unwrap_or(path),
        };
        self.pattern.matches(text) != self.is_negated
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_ignore_names_paths_and_folders() {
        for (rule, path, is_folder, wanted) in [
            ("*.swp", "x.swp", false, true),
            ("*.swp", "a/b/x.swp", false, true),
            ("*.swp", "x.swpx", false, false),
            (".git/", ".git", true, true),
            (".git/", ".git", false, false),
            ("/ci", "ci", true, true),
            ("/ci", "a/ci", true, false),
            ("a/b", "a/b", false, true),
            ("a/b", "x/a/b", false, false),
            ("a/*", "a/b", false, true),
            ("a/*", "a/b/c", false, false),
            ("?.txt", "a.txt", false, true),
            ("?.txt", "ab.txt", false, false),
            ("[a-c].txt", "b.txt", false, true),
            ("[^a-c].txt", "b.txt", false, false),
            ("[^a-c].txt", "d.txt", false, true),
            ("\\*.txt", "*.txt", false, true),
            ("\\*.txt", "a.txt", false, false),
            ("!keep.txt", "keep.txt", false, false),
            ("!keep.txt", "other.txt", false, true),
            ("# comment", "# comment", false, false),
            ("", "templates/.x.yaml", false, true),
            ("", "templates/x.yaml", false, false),
            ("a*b*c", "axxbyyc", false, true),
            ("a*b*c", "axxbyy", false, false),
        ] {
            let rules = IgnoreRules::parse(rule).expect("rules");
            assert_eq!(rules.is_ignored(path, is_folder), wanted, "{rule} {path}");
        }
    }

    #[test]
    fn rules_that_helm_does_not_know_are_refused() {
        for rule in ["a/**", "**", "[a", "[", "[]", "a\\", "[a-]", "*["] {
            let error = IgnoreRules::parse(rule).expect_err(rule);
            assert!(error.message().contains(".helmignore"), "{error}");
        }
    }
}
