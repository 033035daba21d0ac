//! What a registry asks for: the challenges of `WWW-Authenticate` (RFC 9110, section 11.6.1).

use std::collections::BTreeMap;

/// One way to authenticate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Challenge {
    /// The scheme, in lower case.
    pub(super) scheme: String,
    /// The parameters, with their names in lower case.
    pub(super) parameters: BTreeMap<String, String>,
}

/// The challenges of one header, up to the first place that cannot be read.
pub(super) fn parse(header: &str) -> Vec<Challenge> {
    let mut rest = header;
    let mut challenges: Vec<Challenge> = Vec::new();
    loop {
        rest = rest.trim_start_matches([' ', '\t', ',']);
        let (name, behind) = token(rest);
        if name.is_empty() {
            return challenges;
        }
        let name = name.to_ascii_lowercase();
        let value = behind.trim_start().strip_prefix('=');
        match (value, challenges.last_mut()) {
            (None, _) => {
                challenges.push(Challenge {
                    scheme: name,
                    parameters: BTreeMap::new(),
                });
                rest = behind;
            }
            (Some(value), Some(challenge)) => {
                let Some((value, behind)) = parameter(value.trim_start()) else {
                    return challenges;
                };
                challenge.parameters.insert(name, value);
                rest = behind;
            }
            // A parameter of nothing.
            (Some(_), None) => return challenges,
        }
    }
}

/// The token that a text begins with, and what is behind it.
fn token(text: &str) -> (&str, &str) {
    let is_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    let end = text.find(|c: char| !is_token(c)).unwrap_or(text.len());
    text.split_at(end)
}

/// A value in quotes, or a token, and what is behind it.
fn parameter(text: &str) -> Option<(String, &str)> {
    let Some(quoted) = text.strip_prefix('"') else {
        let (value, behind) = token(text);
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

    fn shown(header: &str) -> Vec<String> {
        let challenges = parse(header).into_iter();
        let challenges = challenges.map(|challenge| {
            let parameters = challenge.parameters.into_iter();
            let parameters: Vec<String> = parameters.map(|(k, v)| format!("{k}={v}")).collect();
            format!("{} {}", challenge.scheme, parameters.join("; "))
        });
        challenges.collect()
    }

    #[test]
    fn schemes_and_their_parameters_are_read() {
        assert_eq!(
            shown(
                "Bearer realm=\"https://auth.test/token\", Service=registry.test,scope=\"a:b:pull,push\""
            ),
            ["bearer realm=https://auth.test/token; scope=a:b:pull,push; service=registry.test"]
        );
        assert_eq!(
            shown("Basic realm = \"a \\\"b\\\"\", Negotiate, BEARER realm=x"),
            ["basic realm=a \"b\"", "negotiate ", "bearer realm=x"]
        );
    }

    #[test]
    fn what_cannot_be_read_ends_the_list() {
        assert!(shown("").is_empty());
        assert!(shown("=x").is_empty());
        assert!(shown("realm=x").is_empty());
        assert_eq!(shown("Bearer realm=\"open"), ["bearer "]);
        assert_eq!(shown("Bearer realm=\"x\\"), ["bearer "]);
        assert_eq!(shown("Basic a==, Bearer realm=x"), ["basic "]);
    }
}
