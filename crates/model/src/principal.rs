//! A person, as the identity provider describes them.

use super::{
    access::GroupName,
    identity_headers::{GroupsHeader, IdentityHeaders},
};

/// A person of the configured issuer. Identity is issuer and subject; an e-mail address authorises
/// nothing.
#[derive(Clone, Debug)]
pub struct Principal {
    /// The `sub` claim.
    pub subject: Box<str>,
    /// Name for pages: the first of name, preferred user name, e-mail address, subject.
    pub display_name: Box<str>,
    /// The `email` claim.
    pub email: Option<Box<str>>,
    /// The `preferred_username` claim.
    pub preferred_username: Option<Box<str>>,
    /// Whether one of the groups is an admin group, or the source of the token says so.
    pub is_admin: bool,
    /// The person's id in another system, where it is known.
    pub other_id: Option<Box<str>>,
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
    /// The `preferred_username` claim.
    pub preferred_username: Option<String>,
    /// The group claim, in the provider's order.
    pub groups: Vec<GroupName>,
}

impl Principal {
    /// Makes a person; `admin_groups` come from the configuration.
    pub fn new(claims: PersonClaims, admin_groups: &[GroupName]) -> Principal {
        let PersonClaims {
            subject,
            name,
            email,
            preferred_username,
            groups,
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
            preferred_username: preferred_username.map(Into::into),
            is_admin: false,
            other_id: None,
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

    /// The same person without groups, for when they are unknown.
    pub fn without_groups(&self) -> Principal {
        let headers = IdentityHeaders {
            groups: GroupsHeader::Absent,
            ..self.headers.clone()
        };
        Principal {
            is_admin: false,
            groups: Box::default(),
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

    /// The groups, sorted.
    pub fn groups(&self) -> &[GroupName] {
        &self.groups
    }
}
