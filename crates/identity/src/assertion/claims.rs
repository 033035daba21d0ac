//! The claims of an assertion.

use std::time::Duration;

use aws_lc_rs::digest;
use serde::Serialize;

use crate::model::{
    access::GroupName, app::AppId, identity_headers::GroupsHeader, principal::Principal,
};

/// Time from the issue of an assertion to its expiry.
pub(super) const LIFETIME: Duration = Duration::from_secs(300);

/// What an assertion says: who sends a request to which app.
#[derive(Clone, Copy, Debug)]
pub struct AssertedIdentity<'r> {
    /// The app that the token is for.
    pub audience: &'r AppId,
    /// The person who was let in.
    pub person: &'r Principal,
    /// The group that let the person in, if a group did. It stands for a list that is too long.
    pub admitting_group: Option<&'r GroupName>,
}

/// The claims that stay the same from one token to the next.
#[derive(Debug, Serialize)]
pub(super) struct IdentityClaims<'r> {
    iss: &'r str,
    aud: &'r str,
    sub: &'r str,
    #[serde(skip_serializing_if = "Option::is_none")]
    preferred_username: Option<&'r str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    email: Option<&'r str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    groups: Option<Vec<&'r str>>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    groups_truncated: bool,
}

/// All claims of one token.
#[derive(Debug, Serialize)]
pub(super) struct Assertion<'r> {
    #[serde(flatten)]
    pub(super) identity: &'r IdentityClaims<'r>,
    /// When it was issued, in seconds since 1970.
    pub(super) iat: i64,
    /// When it expires, in seconds since 1970.
    pub(super) exp: i64,
    /// Its random id.
    pub(super) jti: String,
}

impl<'r> IdentityClaims<'r> {
    /// The claims about this identity, by the same rules as the identity headers: an absent or
    /// empty claim is left out, and of a list of groups that is too long only one is named.
    pub(super) fn new(issuer: &'r str, identity: &AssertedIdentity<'r>) -> IdentityClaims<'r> {
        let AssertedIdentity {
            audience,
            person,
            admitting_group,
        } = *identity;
        let (groups, groups_truncated) = match &person.headers.groups {
            GroupsHeader::Absent => (None, false),
            GroupsHeader::Whole(_) => {
                let names = person.groups().iter().map(GroupName::as_str);
                (Some(names.collect()), false)
            }
            GroupsHeader::TooLong => (admitting_group.map(|group| vec![group.as_str()]), true),
        };
        IdentityClaims {
            iss: issuer,
            aud: audience.as_str(),
            sub: &person.subject,
            preferred_username: given(person.preferred_username.as_deref()),
            email: given(person.email.as_deref()),
            groups,
            groups_truncated,
        }
    }

    /// A hash of all of them. Claims that differ have another.
    pub(super) fn fingerprint(&self) -> Option<[u8; 32]> {
        let text = serde_json::to_vec(self).ok()?;
        let mut hash = [0; 32];
        hash.copy_from_slice(digest::digest(&digest::SHA256, &text).as_ref());
        Some(hash)
    }
}

fn given(text: Option<&str>) -> Option<&str> {
    text.filter(|text| !text.is_empty())
}
