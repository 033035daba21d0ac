//! The id of a provider where people sign in, beside the default one.

use std::fmt;

/// Longest id, in bytes.
const MAX_LENGTH: usize = 32;
/// Names with another meaning: the default provider in addresses, the accounts of service tokens,
/// and the accounts and groups of Kubernetes itself.
const RESERVED: [&str; 3] = ["default", "service", "system"];

/// Lower-case letters, digits and hyphens. An id has no colon, so no account of one provider has a
/// name that begins with `<id>:` of another one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ProviderId(Box<str>);

impl ProviderId {
    /// `None` for a text that is no id, and for a name with another meaning.
    pub fn new(text: &str) -> Option<ProviderId> {
        let is_allowed =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        let is_id = (1..=MAX_LENGTH).contains(&text.len())
            && text.bytes().all(is_allowed)
            && !RESERVED.contains(&text);
        is_id.then(|| ProviderId(text.into()))
    }

    /// The id.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name here of an account or a group of this provider: `<id>:<name>`.
    pub fn qualify(&self, name: &str) -> String {
        format!("{}:{name}", self.0)
    }

    /// The name at this provider of an account or a group; `None`: it is not of this provider.
    pub fn unqualify<'n>(&self, name: &'n str) -> Option<&'n str> {
        name.strip_prefix(&*self.0)?.strip_prefix(':')
    }

    /// Whether a reader may take a name for one of this provider. Apps may ignore case, and blanks
    /// or slashes at the beginning.
    pub fn is_resembled_by(&self, name: &str) -> bool {
        let is_ignored = |c: char| c == '/' || c.is_whitespace() || c.is_control();
        let name = name.trim_start_matches(is_ignored);
        let before_colon = name.split_once(':').map(|(before, _)| before);
        before_colon.is_some_and(|id| id.eq_ignore_ascii_case(&self.0))
    }
}

impl fmt::Display for ProviderId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_can_stand_in_an_address_and_before_a_colon() {
        for good in ["corp", "a", "x-1", &*"a".repeat(MAX_LENGTH)] {
            assert!(ProviderId::new(good).is_some(), "{good}");
        }
        let long = "a".repeat(MAX_LENGTH + 1);
        let others = ["default", "service", "system", &*long];
        for bad in ["", "Corp", "a:b", "a/b", "a b", "é", "a_b"]
            .into_iter()
            .chain(others)
        {
            assert!(ProviderId::new(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn a_name_belongs_to_one_provider() {
        let corp = ProviderId::new("corp").expect("an id");
        assert_eq!(corp.qualify("alice"), "corp:alice");
        assert_eq!(corp.unqualify("corp:alice"), Some("alice"));
        assert_eq!(corp.unqualify("corp:a:b"), Some("a:b"));
        for other in [
            "alice",
            "corporate:alice",
            "corp",
            "Corp:alice",
            "x:corp:alice",
        ] {
            assert_eq!(corp.unqualify(other), None, "{other}");
        }
    }

    #[test]
    fn a_name_that_apps_may_take_for_one_of_the_provider_resembles_it() {
        let corp = ProviderId::new("corp").expect("an id");
        for name in [
            "corp:alice",
            "corp:",
            "Corp:alice",
            "CORP:alice",
            "/corp:alice",
            "//corp:alice",
            " \tcorp:alice",
            "\0corp:alice",
            "\u{a0}corp:alice",
        ] {
            assert!(corp.is_resembled_by(name), "{name:?}");
        }
        for name in ["", "corp", "corporate:alice", "x:corp:alice", "x/corp:a"] {
            assert!(!corp.is_resembled_by(name), "{name:?}");
        }
    }
}
