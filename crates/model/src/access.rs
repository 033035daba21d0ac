//! The access rule of an app.
//!
//! Invariant: an unknown value becomes [`Access::Unknown`], which denies every caller.

pub mod clause;
pub mod compound;

use std::fmt;

pub use crate::group_name::GroupName;
use clause::Clause;
use compound::{CompoundRule, Meaning, RuleError, WrittenRule};

/// The rule that admits callers to an app.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Access {
    /// Any caller; credentials are not checked.
    Public,
    /// Any person who signed in at the configured issuer.
    User,
    /// Members of one group.
    Group(GroupName),
    /// One person, or a member of the admin groups.
    Owner(Box<str>),
    /// Members of the admin groups only: for apps that have several owners.
    Admins,
    /// One person alone: admins are refused too.
    Person(PersonName),
    /// Several clauses, or one that is not among the above.
    Compound(Box<CompoundRule>),
    /// An unknown value, as written. It denies every caller.
    Unknown(Box<str>),
}

/// A person, by one of the claims that identify people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PersonName {
    /// The claim.
    pub claim: UsernameClaim,
    /// Its value: exact and case-sensitive.
    pub name: Box<str>,
}

/// A claim that identifies a person.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UsernameClaim {
    /// `preferred_username`. The provider must not let people choose each other's.
    #[default]
    PreferredUsername,
    /// `sub`.
    Subject,
}

impl UsernameClaim {
    /// The name of the claim.
    pub fn as_str(self) -> &'static str {
        match self {
            UsernameClaim::PreferredUsername => "preferred_username",
            UsernameClaim::Subject => "sub",
        }
    }

    /// The claim of this name.
    pub fn parse(name: &str) -> Option<UsernameClaim> {
        [UsernameClaim::PreferredUsername, UsernameClaim::Subject]
            .into_iter()
            .find(|claim| claim.as_str() == name)
    }
}

impl fmt::Display for PersonName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.claim.as_str(), self.name)
    }
}

impl Access {
    /// Parses a rule of one clause, such as `public`, `user` or `group:<name>`.
    pub fn parse(written: &str) -> Access {
        let rule = WrittenRule::Clause(written.to_owned());
        Access::from_written(&rule).unwrap_or_else(|_| Access::Unknown(written.into()))
    }

    /// Reads a rule of any number of clauses.
    ///
    /// # Errors
    /// See [`RuleError`].
    pub fn from_written(written: &WrittenRule) -> Result<Access, RuleError> {
        let rule = match CompoundRule::parse(written)? {
            Meaning::Public => return Ok(Access::Public),
            Meaning::Clause(Clause::User) => return Ok(Access::User),
            Meaning::Clause(Clause::Group(group)) => return Ok(Access::Group(group)),
            Meaning::Clause(Clause::Owner(subject)) => return Ok(Access::Owner(subject)),
            Meaning::Clause(clause @ (Clause::Email(_) | Clause::Claim(_))) => {
                CompoundRule::single(clause)
            }
            Meaning::Compound(rule) => rule,
        };
        Ok(Access::Compound(Box::new(rule)))
    }

    /// The group whose members it admits, where that is the whole rule.
    pub fn group(&self) -> Option<&GroupName> {
        if let Access::Group(group) = self {
            Some(group)
        } else {
            None
        }
    }

    /// The clauses, where there are several.
    pub fn compound(&self) -> Option<&CompoundRule> {
        if let Access::Compound(rule) = self {
            Some(rule)
        } else {
            None
        }
    }

    /// A label for logs and metrics, without the group or the person.
    pub fn kind(&self) -> &'static str {
        match self {
            Access::Public => "public",
            Access::User => "user",
            Access::Group(_) => "group",
            Access::Owner(_) => "owner",
            Access::Admins => "admins",
            Access::Person(_) => "person",
            Access::Compound(_) => "compound",
            Access::Unknown(_) => "unknown",
        }
    }
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Access::Public => f.write_str("public"),
            Access::User => f.write_str("user"),
            Access::Group(group) => write!(f, "group:{group}"),
            Access::Owner(subject) => write!(f, "owner:{subject}"),
            Access::Admins => f.write_str("admins"),
            Access::Person(person) => write!(f, "person:{person}"),
            Access::Compound(rule) => write!(f, "{rule}"),
            Access::Unknown(written) => write!(f, "{written:?} (not understood: denied)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_access_rule_is_read_exactly_or_denies() {
        for (written, kind) in [
            ("public", "public"),
            ("user", "user"),
            ("group:phusers", "group"),
            ("group:/phusers", "group"),
            ("owner:alice", "owner"),
            ("", "unknown"),
            ("Public", "unknown"),
            ("public ", "unknown"),
            ("null", "unknown"),
            ("group:", "unknown"),
            ("group:/", "unknown"),
            ("owner:", "unknown"),
            ("user:x", "unknown"),
            ("person:preferred_username=alice", "unknown"),
            ("email:alice@example.com", "compound"),
            ("email:alice", "unknown"),
            ("claim:/department=sales", "compound"),
            ("deny:group:phusers", "unknown"),
        ] {
            assert_eq!(Access::parse(written).kind(), kind, "{written:?}");
        }
    }
}
