//! The identity headers that name a person to an app (docs/behaviour.md#headers).
//!
//! Values are computed once per person, not per request. A missing claim gives no header.

use http::{HeaderName, HeaderValue};
use percent_encoding::{AsciiSet, CONTROLS, percent_encode};

use super::access::GroupName;

/// The identity as a token that the gateway signs, for apps with `assertion = true`.
pub const ASSERTION: HeaderName = HeaderName::from_static("x-ludgate-assertion");

/// Longer `X-Forwarded-Groups`, in bytes, are cut to the group that admitted the person.
const GROUPS_LIMIT: usize = 8 * 1024;
/// The separator of the list and the escape itself are escaped in names.
const IN_A_GROUP: &AsciiSet = &CONTROLS.add(b',').add(b'%');
const IN_A_TEXT: &AsciiSet = &CONTROLS.add(b'%');
/// Readers of the header trim blanks at the ends, which would turn one name into another.
const WITH_BLANKS: &AsciiSet = &CONTROLS.add(b',').add(b'%').add(b' ');

/// The values of `X-Forwarded-User`, `-Email`, `-Preferred-Username` and `-Groups`.
#[derive(Clone, Debug, Default)]
pub struct IdentityHeaders {
    /// `X-Forwarded-User`: the subject.
    pub user: Option<HeaderValue>,
    /// The e-mail address from the provider.
    pub email: Option<HeaderValue>,
    /// The preferred user name.
    pub preferred_username: Option<HeaderValue>,
    /// The comma-separated groups.
    pub groups: GroupsHeader,
}

/// The value of `X-Forwarded-Groups`.
#[derive(Clone, Debug, Default)]
pub enum GroupsHeader {
    /// No group claim, or an empty one.
    #[default]
    Absent,
    /// The whole list.
    Whole(HeaderValue),
    /// The list is too long: only the admitting group is sent, with a header that says so.
    TooLong,
}

impl IdentityHeaders {
    /// Computes the values; groups are given in the provider's order.
    pub fn new(
        subject: &str,
        email: Option<&str>,
        username: Option<&str>,
        groups: &[GroupName],
    ) -> Self {
        IdentityHeaders {
            user: text_value(subject),
            email: email.and_then(text_value),
            preferred_username: username.and_then(text_value),
            groups: groups_value(groups),
        }
    }
}

/// One group, encoded for `X-Forwarded-Groups`.
pub fn group_value(group: &GroupName) -> Option<HeaderValue> {
    HeaderValue::from_str(&encode_group(group)).ok()
}

fn groups_value(groups: &[GroupName]) -> GroupsHeader {
    if groups.is_empty() {
        return GroupsHeader::Absent;
    }
    let list = groups
        .iter()
        .map(encode_group)
        .collect::<Vec<_>>()
        .join(",");
    if list.len() > GROUPS_LIMIT {
        return GroupsHeader::TooLong;
    }
    HeaderValue::from_str(&list).map_or(GroupsHeader::Absent, GroupsHeader::Whole)
}

fn encode_group(group: &GroupName) -> String {
    encode(group.as_str(), IN_A_GROUP)
}

fn text_value(text: &str) -> Option<HeaderValue> {
    (!text.is_empty())
        .then(|| HeaderValue::from_str(&encode(text, IN_A_TEXT)).ok())
        .flatten()
}

/// Different names give different texts, since the escape itself is always escaped.
fn encode(text: &str, set: &'static AsciiSet) -> String {
    let set = if text.starts_with(' ') || text.ends_with(' ') {
        WITH_BLANKS
    } else {
        set
    };
    percent_encode(text.as_bytes(), set).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn groups(names: &[&str]) -> Vec<GroupName> {
        names.iter().filter_map(|n| GroupName::new(n)).collect()
    }

    #[test]
    fn a_group_name_cannot_add_a_group_to_the_list() {
        let made = IdentityHeaders::new(
            "s",
            None,
            None,
            &groups(&["a,b", "c\nd", "ü", "/path/x", "p%2Cq"]),
        );
        let GroupsHeader::Whole(value) = made.groups else {
            panic!("expected a list")
        };
        assert_eq!(value, "a%2Cb,c%0Ad,%C3%BC,path/x,p%252Cq");
    }

    #[test]
    fn a_list_that_does_not_fit_is_cut_not_sent() {
        let many: Vec<String> = (0..500)
            .map(|n| format!("a-rather-long-group-name-{n:04}"))
            .collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert!(matches!(
            IdentityHeaders::new("s", None, None, &groups(&many)).groups,
            GroupsHeader::TooLong
        ));
    }

    #[test]
    fn no_two_names_look_alike_to_an_app() {
        let value = |name: &str| {
            IdentityHeaders::new(name, None, None, &[])
                .user
                .expect("a value")
        };
        let names = [
            "alice",
            " alice",
            "alice ",
            "\talice",
            "a%20b",
            "a b",
            " a b",
            "m%C3%BCller",
            "müller",
        ];
        for one in names {
            for other in names.iter().filter(|other| **other != one) {
                let trimmed = |v: &HeaderValue| v.as_bytes().trim_ascii().to_vec();
                assert_ne!(
                    trimmed(&value(one)),
                    trimmed(&value(other)),
                    "{one:?} {other:?}"
                );
            }
        }
        let GroupsHeader::Whole(list) =
            IdentityHeaders::new("s", None, None, &groups(&["x", " admin"])).groups
        else {
            panic!("expected a list")
        };
        assert_eq!(list, "x,%20admin");
    }

    #[test]
    fn a_missing_claim_gives_no_header() {
        let made = IdentityHeaders::new("s", None, Some(""), &[]);
        assert!(made.email.is_none() && made.preferred_username.is_none());
        assert!(matches!(made.groups, GroupsHeader::Absent));
    }
}
