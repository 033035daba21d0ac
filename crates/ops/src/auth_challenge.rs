//! How a server asks for credentials: the challenges of `WWW-Authenticate` (RFC 9110, section
//! 11.6.1).

use std::collections::BTreeMap;

/// One way to authenticate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthChallenge {
    /// The scheme, in lower case.
    pub scheme: String,
    /// The parameters, with their names in lower case.
    pub parameters: BTreeMap<String, String>,
}

/// The challenges of one header, up to the first place that cannot be read.
pub fn parse(header: &str) -> Vec<AuthChallenge> {
    let mut challenges: Vec<AuthChallenge> = Vec::new();
    let mut rest = header;
    loop {
        rest = rest.trim_start_matches([' ', '\t', ',']);
        let (name, behind) = split_token(rest);
        if name.is_empty() {
            return challenges;
        }
        let name = name.to_ascii_lowercase();
        let Some(value) = behind.trim_start().strip_prefix('=') else {
            challenges.push(AuthChallenge {
                scheme: name,
                parameters: BTreeMap::new(),
            });
            rest = behind;
            continue;
        };
        let parsed = parameter(value.trim_start());
        let (Some((value, behind)), Some(challenge)) = (parsed, challenges.last_mut()) else {
            return challenges;
        };
        challenge.parameters.insert(name, value);
        rest = behind;
    }
}

/// The token that a text begins with, and what is behind it.
fn split_token(text: &str) -> (&str, &str) {
    let is_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    let end = text.find(|c: char| !is_token(c)).unwrap_or(text.len());
    text.split_at(end)
}

/// A value in quotes, or a token, and what is behind it.
fn parameter(text: &str) -> Option<(String, &str)> {
    let Some(quoted) = text.strip_prefix('"') else {
        let (value, behind) = split_token(text);
        return (!value.is_empty()).then(|| (value.to_owned(), behind));
    };
    let mut value = String::new();
    let mut letters = quoted.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return Some((value, quoted.get(at + 1..)?)),
            '\\' => value.push(letters.next()?.1),
            other => value.push(other),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemes_and_parameters_are_read_up_to_the_first_error() {
        for (header, wanted) in [
            (
                "Bearer realm=\"https://a.test/token\",Service=r.test, scope=\"x:pull,push\"",
                "bearer realm=https://a.test/token scope=x:pull,push service=r.test",
            ),
            (
                "Basic realm = \"a \\\"b\\\"\", BEARER realm=x",
                "basic realm=a \"b\"; bearer realm=x",
            ),
            (
                "Basic realm=a, Negotiate, Bearer",
                "basic realm=a; negotiate; bearer",
            ),
            ("", ""),
            ("=x", ""),
            ("realm=x", ""),
            ("Bearer realm=\"open", "bearer"),
            ("Bearer realm=\"x\\", "bearer"),
            ("Basic a==, Bearer realm=x", "basic"),
        ] {
            let challenges = parse(header).into_iter().map(|challenge| {
                let parameters = challenge.parameters.iter();
                let parameters = parameters.map(|(name, value)| format!(" {name}={value}"));
                format!("{}{}", challenge.scheme, parameters.collect::<String>())
            });
            assert_eq!(
                challenges.collect::<Vec<_>>().join("; "),
                wanted,
                "{header}"
            );
        }
    }
}
