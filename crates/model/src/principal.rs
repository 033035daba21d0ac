//! A person, as the identity provider describes them.

use super::{
    access::{GroupName, PersonName, UsernameClaim},
    authentication::AuthenticationEvent,
    identity_headers::{GroupsHeader, IdentityHeaders},
    known_claims::KnownClaims,
    uuid::Uuid,
};

/// A person of the configured issuer, or an account of a program. Identity is issuer and subject;
/// an e-mail address authorizes only if the provider verified it.
#[derive(Clone, Debug)]
pub struct Principal {
    /// The `sub` claim.
    pub subject: Box<str>,
    /// Name for pages: the first of name, preferred user name, e-mail address, subject.
    pub display_name: Box<str>,
    /// The `email` claim.
    pub email: Option<Box<str>>,
    /// The `email_verified` claim; false without one.
    pub is_email_verified: bool,
    /// The `preferred_username` claim.
    pub preferred_username: Option<Box<str>>,
    /// Whether one of the groups is an admin group, or the source of the token says so.
    pub is_admin: bool,
    /// An account of another issuer: the rule `user` does not admit it.
    pub is_foreign: bool,
    /// How and when the person authenticated.
    pub authentication: AuthenticationEvent,
    /// The person's id in another system, where it is known.
    pub other_id: Option<Box<str>>,
    /// The claims that access rules may name.
    pub claims: KnownClaims,
    /// The person may be in more groups than these.
    are_groups_partial: bool,
    /// Sorted for binary search on every request.
    groups: Box<[GroupName]>,
    /// The identity headers, computed once.
    pub headers: IdentityHeaders,
}

/// The claims from which a [`Principal`] is made.
#[derive(Clone, Debug, Default)]
pub struct PersonClaims {
    /// The `sub` claim.
    pub subject: String,
    /// The `name` claim.
    pub name: Option<String>,
    /// The `email` claim.
    pub email: Option<String>,
    /// The `email_verified` claim; false without one.
    pub is_email_verified: bool,
    /// The `preferred_username` claim.
    pub preferred_username: Option<String>,
    /// The group claim, in the provider's order.
    pub groups: Vec<GroupName>,
    /// The person may be in more groups than these: the claim is unknown or too long.
    pub are_groups_partial: bool,
    /// The claims that access rules may name.
    pub claims: KnownClaims,
    /// An account of another issuer, which the rule `user` does not admit.
    pub is_foreign: bool,
    /// How and when the person authenticated.
    pub authentication: AuthenticationEvent,
}

impl Principal {
    /// Makes a person; `admin_groups` come from the configuration.
    pub fn new(claims: PersonClaims, admin_groups: &[GroupName]) -> Principal {
        let PersonClaims {
            subject,
            name,
            email,
            is_email_verified,
            preferred_username,
            groups,
            are_groups_partial,
            claims,
            is_foreign,
            authentication,
        } = claims;
        let headers = IdentityHeaders::new(
            &subject,
            email.as_deref(),
            preferred_username.as_deref(),
            &groups,
        );
        let display_name = [
            name.as_deref(),
            preferred_username.as_deref(),
            email.as_deref(),
        ]
        .into_iter()
        .flatten()
        .find(|text| !text.is_empty())
        .unwrap_or(&subject)
        .into();
        let mut sorted = groups;
        sorted.sort();
        sorted.dedup();
        let mut person = Principal {
            subject: subject.into(),
            display_name,
            email: email.map(Into::into),
            is_email_verified,
            preferred_username: preferred_username.map(Into::into),
            is_admin: false,
            is_foreign,
            authentication,
            other_id: None,
            claims,
            are_groups_partial,
            groups: sorted.into(),
            headers,
        };
        person.is_admin = admin_groups.iter().any(|group| person.is_in(group));
        person
    }

    /// Whether the text is the person's subject or id in another system.
    pub fn is_identified_by(&self, name: &str) -> bool {
        *self.subject == *name || self.other_id.as_deref() == Some(name)
    }

    /// Whether the text identifies the person, or may do so: it is an Arvados uuid, and the
    /// person's is not known.
    pub fn may_be_identified_by(&self, name: &str) -> bool {
        let is_uuid = |text: &str| Uuid::new(text).is_some();
        let is_uuid_unknown = || self.other_id.is_none() && !is_uuid(&self.subject);
        self.is_identified_by(name) || (is_uuid(name) && is_uuid_unknown())
    }

    /// Whether the claim has this value.
    pub fn is_named(&self, person: &PersonName) -> bool {
        match person.claim {
            UsernameClaim::PreferredUsername => {
                self.preferred_username.as_deref() == Some(&*person.name)
            }
            UsernameClaim::Subject => *self.subject == *person.name,
        }
    }

    /// The e-mail address, if the provider verified it.
    pub fn verified_email(&self) -> Option<&str> {
        self.email.as_deref().filter(|_| self.is_email_verified)
    }

    /// The same person without groups and claims, for when they are unknown.
    pub fn without_groups(&self) -> Principal {
        let headers = IdentityHeaders {
            groups: GroupsHeader::Absent,
            ..self.headers.clone()
        };
        Principal {
            is_admin: false,
            are_groups_partial: true,
            groups: Box::default(),
            claims: KnownClaims::default(),
            headers,
            ..self.clone()
        }
    }

    /// Whether the display name is more than an account name.
    pub fn has_display_name(&self) -> bool {
        let account = [
            self.preferred_username.as_deref(),
            self.email.as_deref(),
            Some(&*self.subject),
        ];
        !account.contains(&Some(&*self.display_name))
    }

    /// Whether the person is a member of the group: exact and case-sensitive.
    pub fn is_in(&self, group: &GroupName) -> bool {
        self.groups.binary_search(group).is_ok()
    }

    /// Whether the person is a member of the group, or may be one.
    pub fn may_be_in(&self, group: &GroupName) -> bool {
        self.are_groups_partial || self.is_in(group)
    }

    /// Whether the person may be in more groups than are known.
    pub fn are_groups_partial(&self) -> bool {
        self.are_groups_partial
    }

    /// The groups, sorted.
    pub fn groups(&self) -> &[GroupName] {
        &self.groups
    }
}
