//! Why access was granted or denied.

use crate::model::{
    access::compound::ClauseIndex, authentication::InsufficientAuthentication, path_rule::RuleIndex,
};

/// Why access was granted, and by which rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Admission {
    /// Why.
    pub grounds: Grounds,
    /// The rule of the app.
    pub rule: RuleIndex,
}

/// Why access was denied, and by which rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Denial {
    /// Why.
    pub denied: Denied,
    /// The rule of the app.
    pub rule: RuleIndex,
}

/// Why access was granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grounds {
    /// The app is public.
    Public,
    /// A CORS preflight to an app that takes them without a person.
    Preflight,
    /// The app is the console, which authorizes its own requests.
    Console,
    /// The app is open to everyone who signs in.
    User,
    /// A member of the app's group.
    Group,
    /// The owner.
    Owner,
    /// A member of an admin group, for an app that has an owner.
    Admin,
    /// A clause of a rule with several. Of clauses that must all match, the last one.
    Clause(ClauseKind, ClauseIndex),
}

impl Grounds {
    /// Whether the request was permitted because of the person.
    pub fn needs_person(self) -> bool {
        match self {
            Grounds::Public | Grounds::Preflight | Grounds::Console => false,
            Grounds::User
            | Grounds::Group
            | Grounds::Owner
            | Grounds::Admin
            | Grounds::Clause(..) => true,
        }
    }

    /// One word for logs and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Grounds::Public => "public",
            Grounds::Preflight => "preflight",
            Grounds::Console => "console",
            Grounds::User => "user",
            Grounds::Group => "group",
            Grounds::Owner => "owner",
            Grounds::Admin => "admin",
            Grounds::Clause(kind, _) => kind.as_str(),
        }
    }
}

/// Why access was denied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denied {
    /// The caller is not signed in.
    Anonymous,
    /// Not a member of the app's group.
    NotInGroup,
    /// Not the owner, nor an admin where admins are let in.
    NotOwner,
    /// An account of another issuer, at an app for people of ours.
    OtherIssuer,
    /// No clause of a rule with several admits the person. This one is the first that would have
    /// had to match.
    NotAdmitted(ClauseIndex),
    /// This clause denies the person, whatever else matches.
    Excluded(ClauseIndex),
    /// The rule admits the person, but the app requires a more recent or another authentication.
    InsufficientAuthentication(InsufficientAuthentication),
    /// The app's access rule is not valid.
    UnknownAccess,
}

impl Denied {
    /// Whether the access rule itself denies access, so that another sign-in of the same person
    /// does not help.
    pub fn is_by_rule(self) -> bool {
        match self {
            Denied::NotInGroup
            | Denied::NotOwner
            | Denied::OtherIssuer
            | Denied::NotAdmitted(_)
            | Denied::Excluded(_)
            | Denied::UnknownAccess => true,
            Denied::Anonymous | Denied::InsufficientAuthentication(_) => false,
        }
    }
}

/// By what a clause admitted a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClauseKind {
    /// Being signed in.
    User,
    /// Membership of a group.
    Group,
    /// Being the owner.
    Owner,
    /// Being an admin, for an app that has an owner.
    Admin,
    /// A verified e-mail address.
    Email,
    /// A claim.
    Claim,
}

impl ClauseKind {
    /// One word for logs and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            ClauseKind::User => "user",
            ClauseKind::Group => "group",
            ClauseKind::Owner => "owner",
            ClauseKind::Admin => "admin",
            ClauseKind::Email => "email",
            ClauseKind::Claim => "claim",
        }
    }
}
