//! One clause of an access rule: what it requires of a person.

use std::fmt;

use crate::group_name::GroupName;

/// Longest JSON pointer, in bytes.
const MAX_POINTER: usize = 256;
/// Longest value of a claim that is compared, in bytes.
pub const MAX_CLAIM_VALUE: usize = 256;
/// Longest local part and longest domain of an e-mail address, in bytes (RFC 5321 section
/// 4.5.3.1).
const MAX_LOCAL: usize = 64;
const MAX_DOMAIN: usize = 255;

/// One requirement of a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Clause {
    /// Any person who signed in at the configured issuer.
    User,
    /// Members of one group.
    Group(GroupName),
    /// One person; where the clause admits, an admin too.
    Owner(Box<str>),
    /// A verified e-mail address.
    Email(EmailPattern),
    /// A value of a claim.
    Claim(ClaimTest),
}

impl Clause {
    /// Parses `user`, `group:<name>`, `owner:<subject>`, `email:<address>`, `email:*@<domain>`,
    /// `claim:<JSON pointer>=<value>`.
    pub fn parse(written: &str) -> Option<Clause> {
        match written.split_once(':') {
            None if written == "user" => Some(Clause::User),
            Some(("group", name)) => GroupName::new(name).map(Clause::Group),
            Some(("owner", subject)) if !subject.is_empty() => Some(Clause::Owner(subject.into())),
            Some(("email", address)) => EmailPattern::parse(address).map(Clause::Email),
            Some(("claim", test)) => ClaimTest::parse(test).map(Clause::Claim),
            Some(_) | None => None,
        }
    }

    /// The group that it names.
    pub fn group(&self) -> Option<&GroupName> {
        if let Clause::Group(group) = self {
            Some(group)
        } else {
            None
        }
    }

    /// The claim that it names.
    pub fn claim(&self) -> Option<&ClaimPointer> {
        if let Clause::Claim(test) = self {
            Some(&test.pointer)
        } else {
            None
        }
    }
}

impl fmt::Display for Clause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Clause::User => f.write_str("user"),
            Clause::Group(group) => write!(f, "group:{group}"),
            Clause::Owner(subject) => write!(f, "owner:{subject}"),
            Clause::Email(pattern) => write!(f, "email:{pattern}"),
            Clause::Claim(test) => write!(f, "claim:{}={}", test.pointer, test.value),
        }
    }
}

/// One e-mail address, or all addresses of a domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EmailPattern {
    /// What stands before the `@`: exact and case-sensitive. `None`: anything.
    local: Option<Box<str>>,
    /// Compared without regard to case. Subdomains are other domains.
    domain: Box<str>,
}

impl EmailPattern {
    /// Parses an address, or `*@<domain>`.
    pub fn parse(written: &str) -> Option<EmailPattern> {
        let (local, domain) = written.split_once('@')?;
        let is_local = (1..=MAX_LOCAL).contains(&local.len())
            && !local.contains(|c: char| c.is_whitespace() || c.is_control());
        let is_label = |label: &str| {
            let mut bytes = label.bytes();
            !label.is_empty() && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        };
        let is_domain = domain.len() <= MAX_DOMAIN && domain.split('.').all(is_label);
        let local = match local {
            "*" => None,
            // Any other wildcard would be taken for one, and is none.
            _ if local.contains('*') => return None,
            exact => Some(exact.into()),
        };
        (is_local && is_domain).then(|| EmailPattern {
            local,
            domain: domain.to_ascii_lowercase().into(),
        })
    }

    /// Whether an address is meant. Does not allocate.
    pub fn matches(&self, address: &str) -> bool {
        let Some((local, domain)) = address.split_once('@') else {
            return false;
        };
        !local.is_empty()
            && domain.eq_ignore_ascii_case(&self.domain)
            && self.local.as_deref().is_none_or(|exact| exact == local)
    }

    /// The domain, where every address of it is meant.
    pub fn whole_domain(&self) -> Option<&str> {
        self.local.is_none().then_some(&*self.domain)
    }
}

impl fmt::Display for EmailPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}@{}",
            self.local.as_deref().unwrap_or("*"),
            self.domain
        )
    }
}

/// A value that a claim must have, alone or in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimTest {
    /// The claim.
    pub pointer: ClaimPointer,
    /// The value: exact and case-sensitive. Numbers and booleans are compared as JSON writes them.
    pub value: Box<str>,
}

impl ClaimTest {
    /// Parses `<JSON pointer>=<value>`. The pointer ends at the first `=`.
    pub fn parse(written: &str) -> Option<ClaimTest> {
        let (pointer, value) = written.split_once('=')?;
        let is_value = (1..=MAX_CLAIM_VALUE).contains(&value.len());
        let pointer = ClaimPointer::new(pointer).filter(|_| is_value)?;
        Some(ClaimTest {
            pointer,
            value: value.into(),
        })
    }
}

/// A JSON pointer to a claim (RFC 6901), such as `/department` or `/realm_access/roles`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClaimPointer(Box<str>);

impl ClaimPointer {
    /// `None` unless it is a valid pointer without `=`, of 2 to 256 bytes.
    pub fn new(text: &str) -> Option<ClaimPointer> {
        let names = text.strip_prefix('/').filter(|names| !names.is_empty())?;
        let is_escaped = |(at, _): (usize, &str)| {
            let next = names.as_bytes().get(at + 1);
            matches!(next, Some(b'0' | b'1'))
        };
        let is_pointer = text.len() <= MAX_POINTER
            && !names.contains(|c: char| c == '=' || c.is_control())
            && names.match_indices('~').all(is_escaped);
        is_pointer.then(|| ClaimPointer(text.into()))
    }

    /// The pointer.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ClaimPointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clause_is_read_exactly_or_not_at_all() {
        for written in [
            "user",
            "group:phusers",
            "owner:alice",
            "email:alice@example.com",
            "email:*@example.com",
            "email:o'neil+x@mail.example.com",
            "claim:/department=sales",
            "claim:/a~1b/~0c=d=e",
            "claim:/n=3",
        ] {
            let clause = Clause::parse(written).map(|clause| clause.to_string());
            assert_eq!(clause.as_deref(), Some(written));
        }
        for bad in [
            "",
            "User",
            "public",
            "admins",
            "group:",
            "owner:",
            "email:",
            "email:alice",
            "email:@example.com",
            "email:alice@",
            "email:a@b@example.com",
            "email:al*@example.com",
            "email:*@*.example.com",
            "email:*@.example.com",
            "email:*@example.com.",
            "email:a b@example.com",
            "claim:/x",
            "claim:/x=",
            "claim:x=y",
            "claim:/=y",
            "claim:=y",
            "claim:/a~2b=y",
            "claim:/a~=y",
            "deny:user",
        ] {
            assert_eq!(Clause::parse(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn the_domain_of_an_address_has_no_case_and_the_local_part_has() {
        let matches = |written: &str, address: &str| {
            EmailPattern::parse(written)
                .expect("a pattern")
                .matches(address)
        };
        assert!(matches("alice@Example.com", "alice@EXAMPLE.COM"));
        assert!(!matches("alice@example.com", "Alice@example.com"));
        assert!(matches("*@example.com", "Alice@Example.Com"));
        for other in [
            "",
            "alice",
            "@example.com",
            "alice@mail.example.com",
            "alice@example.com.evil.test",
            "alice@evil.test@example.com",
            "alice@example.com@evil.test",
            "alice@example.com ",
        ] {
            assert!(!matches("*@example.com", other), "{other:?}");
        }
    }
}
