//! The access rule of an app, and the name of a group.
//!
//! Invariant: an unknown value becomes [`Access::Unknown`], which denies every caller.

use std::fmt;

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
    /// An unknown value, as written. It denies every caller.
    Unknown(Box<str>),
}

impl Access {
    /// Parses `public`, `user`, `group:<name>`, `owner:<subject>`.
    pub fn parse(written: &str) -> Access {
        match written.split_once(':') {
            None if written == "public" => Access::Public,
            None if written == "user" => Access::User,
            Some(("group", name)) => match GroupName::new(name) {
                Some(group) => Access::Group(group),
                None => Access::Unknown(written.into()),
            },
            Some(("owner", subject)) if !subject.is_empty() => Access::Owner(subject.into()),
            _ => Access::Unknown(written.into()),
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
            Access::Unknown(written) => write!(f, "{written:?} (not understood: denied)"),
        }
    }
}

/// A group name in its compared form: without one leading `/`, otherwise exact and case-sensitive.
/// `/other/phusers` is not `phusers`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupName(Box<str>);

impl GroupName {
    /// `None` for an empty name or one over 256 bytes.
    pub fn new(written: &str) -> Option<GroupName> {
        let name = written.strip_prefix('/').unwrap_or(written);
        (!name.is_empty() && name.len() <= 256).then(|| GroupName(name.into()))
    }

    /// The name without its leading slash.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for GroupName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
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
        ] {
            assert_eq!(Access::parse(written).kind(), kind, "{written:?}");
        }
    }

    #[test]
    fn a_leading_slash_is_no_part_of_a_group_but_a_path_is() {
        assert_eq!(GroupName::new("/phusers"), GroupName::new("phusers"));
        assert_ne!(GroupName::new("/other/phusers"), GroupName::new("/phusers"));
        assert_ne!(GroupName::new("PHUSERS"), GroupName::new("phusers"));
    }
}
