//! Regular expressions of paths. Only those of a plain prefix can become a rule for paths.

use crate::model::{access::Access, path_rule::PathRule};

/// What a regular expression of a path means for a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RoutePattern {
    /// Each path of a rule with this prefix matches the expression.
    Prefix(String),
    /// A rule with this prefix would be for more paths than the expression.
    Narrower(String),
    /// It is no plain prefix.
    NoPrefix,
}

/// Ends of an expression that match every end of a path.
const OPEN_ENDS: [&str; 5] = ["", ".*", ".*$", "(/.*)?", "(?:/.*)?"];
/// Ends that match the path itself and all paths below it.
const SEGMENT_ENDS: [&str; 6] = [
    "(/.*)?$",
    "(?:/.*)?$",
    "(/|$)",
    "($|/)",
    "(?:/|$)",
    "(?:$|/)",
];
/// Ends that match the path itself alone, with or without a slash.
const EXACT_ENDS: [&str; 2] = ["$", "/?$"];

impl RoutePattern {
    /// Reads an expression. It is searched in the path, so a prefix begins with `^`.
    pub(crate) fn parse(expression: &str) -> RoutePattern {
        let Some((literal, end)) = expression.strip_prefix('^').and_then(literal_start) else {
            return RoutePattern::NoPrefix;
        };
        let below = literal.strip_suffix('/').filter(|_| literal != "/");
        // `/?` at the end: the slash is in the literal part.
        let (literal, end) = match (below, end.strip_prefix('?')) {
            (Some(trimmed), Some("")) => (trimmed, ""),
            (Some(trimmed), Some("$")) => (trimmed, "/?$"),
            (_, _) => (literal.as_str(), end),
        };
        let has_slash = literal.ends_with('/');
        let prefix = match literal {
            "/" => literal,
            _ => literal.trim_end_matches('/'),
        };
        if PathRule::new(prefix, Vec::new(), Access::Public).is_err() {
            return RoutePattern::NoPrefix;
        }
        let prefix = prefix.to_owned();
        if OPEN_ENDS.contains(&end) {
            // `^/a/` does not match `/a`, for which the rule would be too.
            match has_slash && prefix != "/" {
                true => RoutePattern::Narrower(prefix),
                false => RoutePattern::Prefix(prefix),
            }
        } else if SEGMENT_ENDS.contains(&end) && !has_slash {
            RoutePattern::Prefix(prefix)
        } else if EXACT_ENDS.contains(&end) && prefix != "/" {
            RoutePattern::Narrower(prefix)
        } else {
            RoutePattern::NoPrefix
        }
    }
}

/// The longest literal text at the start, and the rest. A dot is taken for itself, which matches
/// less than the expression. `None` where a part of the text is repeated or optional.
fn literal_start(expression: &str) -> Option<(String, &str)> {
    let mut literal = String::new();
    let mut rest = expression;
    while let Some(first) = rest.chars().next() {
        let after = rest.get(first.len_utf8()..).unwrap_or_default();
        let (c, after) = match first {
            '\\' => {
                let escaped = after.chars().next()?;
                // Escaped letters and digits are classes.
                if !escaped.is_ascii_punctuation() {
                    return None;
                }
                (escaped, after.get(1..).unwrap_or_default())
            }
            '.' if after.starts_with(['*', '+', '?', '{']) => break,
            c if is_literal(c) => (c, after),
            _ => break,
        };
        if after.starts_with(['*', '+', '{']) || (after.starts_with('?') && c != '/') {
            return None;
        }
        literal.push(c);
        rest = after;
        // What follows an optional slash is its end.
        if rest.starts_with('?') {
            break;
        }
    }
    literal.starts_with('/').then_some((literal, rest))
}

fn is_literal(c: char) -> bool {
    c.is_ascii_alphanumeric() || "/-_~.,:@!&'=".contains(c)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_prefixes_are_found_and_nothing_else() {
        for (expression, wanted) in [
            ("^/health", "/health"),
            ("^/health.*", "/health"),
            ("^/health.*$", "/health"),
            ("^/hooks/push(/.*)?$", "/hooks/push"),
            ("^/hooks(?:/|$)", "/hooks"),
            (r"^/robots\.txt", "/robots.txt"),
            ("^/robots.txt", "/robots.txt"),
            (r"^\/api\/v1", "/api/v1"),
            (r"^/a\-b_c~d", "/a-b_c~d"),
            ("^/a/?", "/a"),
            ("^/", "/"),
            ("^/.*", "/"),
        ] {
            let wanted = RoutePattern::Prefix(wanted.to_owned());
            assert_eq!(RoutePattern::parse(expression), wanted, "{expression}");
        }
        for (expression, wanted) in [
            ("^/static/", "/static"),
            ("^/static/.*", "/static"),
            ("^/ping$", "/ping"),
            ("^/ping/?$", "/ping"),
            (r"^/favicon\.ico$", "/favicon.ico"),
        ] {
            let wanted = RoutePattern::Narrower(wanted.to_owned());
            assert_eq!(RoutePattern::parse(expression), wanted, "{expression}");
        }
        for expression in [
            "",
            "^",
            ".*",
            "/health",
            "health",
            "^health",
            "^/$",
            "^/a|^/b",
            "^/(a|b)",
            "^/[ab]",
            "^/ab*",
            "^/ab?",
            "^/a+",
            r"^/\d+",
            r"^/a\w",
            "^/a.+",
            "^/a{2}",
            "(?i)^/a",
            "^/a//b",
            "^/../a",
            "^/a%2fb",
            "^/a;b",
            "^/ä",
            "^/a(/.*)?x",
            "^/a/(/.*)?$",
            r"^/a\",
            "^^/a",
            "^/a?b",
            "^/a/?b",
        ] {
            let found = RoutePattern::parse(expression);
            assert_eq!(found, RoutePattern::NoPrefix, "{expression}");
        }
    }
}
