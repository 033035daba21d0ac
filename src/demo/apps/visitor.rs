//! The identity headers of a request, as the sample apps read them.
//!
//! The gateway writes these headers and removes any of the same name from outside, so an app behind
//! it may trust them.

use std::borrow::Cow;

use http::{HeaderMap, HeaderName};
use percent_encoding::percent_decode_str;

/// The subject, which identifies the person.
pub const USER: HeaderName = HeaderName::from_static("x-forwarded-user");
/// The preferred user name.
pub const PREFERRED_USERNAME: HeaderName =
    HeaderName::from_static("x-forwarded-preferred-username");
/// The e-mail address from the provider.
pub const EMAIL: HeaderName = HeaderName::from_static("x-forwarded-email");
/// The groups, separated by commas, each percent-encoded.
pub const GROUPS: HeaderName = HeaderName::from_static("x-forwarded-groups");
/// Present if the list holds only the group that admitted the person.
pub const GROUPS_TRUNCATED: HeaderName = HeaderName::from_static("x-forwarded-groups-truncated");
/// All identity headers, in the order of the page.
pub const IDENTITY: [HeaderName; 5] = [PREFERRED_USERNAME, USER, EMAIL, GROUPS, GROUPS_TRUNCATED];

/// Characters of a name that are shown.
const NAME_LIMIT: usize = 64;
/// The name without identity headers, such as for a developer who calls the app directly.
const UNKNOWN: &str = "unknown user";

/// The preferred user name, else the subject.
pub fn name(headers: &HeaderMap) -> String {
    let shown = |name: &HeaderName| {
        let shown: String = readable(&text(headers, name)?)
            .chars()
            .take(NAME_LIMIT)
            .collect();
        (!shown.trim().is_empty()).then_some(shown)
    };
    shown(&PREFERRED_USERNAME)
        .or_else(|| shown(&USER))
        .unwrap_or_else(|| UNKNOWN.to_owned())
}

/// The groups in the header, decoded.
pub fn groups(headers: &HeaderMap) -> Vec<String> {
    let list = text(headers, &GROUPS).unwrap_or_default();
    list.split(',')
        .map(|group| {
            percent_decode_str(group.trim())
                .decode_utf8_lossy()
                .into_owned()
        })
        .filter(|group| !group.is_empty())
        .collect()
}

/// Whether the gateway cut the list of groups.
pub fn has_more_groups(headers: &HeaderMap) -> bool {
    headers.contains_key(GROUPS_TRUNCATED)
}

fn text<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<Cow<'h, str>> {
    headers
        .get(name)
        .map(|value| String::from_utf8_lossy(value.as_bytes()))
}

/// The gateway encodes a name only if it cannot be sent as it is, so `100%20sure` may be a name.
/// Only names that would have been encoded are decoded.
fn readable(sent: &str) -> String {
    match percent_decode_str(sent).decode_utf8() {
        Ok(decoded) if !could_be_sent(&decoded) => decoded.replace(char::is_control, " "),
        Ok(_) | Err(_) => sent.to_owned(),
    }
}

fn could_be_sent(name: &str) -> bool {
    name.trim() == name
        && name
            .bytes()
            .all(|byte| byte == b' ' || byte.is_ascii_graphic())
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn headers(name: HeaderName, value: &'static [u8]) -> HeaderMap {
        HeaderMap::from_iter([(name, HeaderValue::from_bytes(value).unwrap())])
    }

    #[test]
    fn a_name_reads_as_the_person_writes_it() {
        for (sent, shown) in [
            ("ada", "ada"),
            ("Zo%C3%AB M%C3%BCller", "Zoë Müller"),
            ("100%20sure", "100%20sure"),
            ("50%", "50%"),
            ("a%0Ab", "a b"),
            ("%FF", "%FF"),
        ] {
            assert_eq!(name(&headers(PREFERRED_USERNAME, sent.as_bytes())), shown);
        }
    }

    #[test]
    fn a_missing_name_is_replaced_and_a_long_one_cut() {
        assert_eq!(name(&HeaderMap::new()), "unknown user");
        assert_eq!(name(&headers(PREFERRED_USERNAME, b"  ")), "unknown user");
        assert_eq!(name(&headers(USER, b"sub-1")), "sub-1");
        assert_eq!(name(&headers(USER, &[b'a'; 500])).len(), NAME_LIMIT);
        assert_eq!(name(&headers(USER, b"\xff!")), "\u{fffd}!");
    }

    #[test]
    fn a_comma_inside_a_group_does_not_split_it() {
        assert_eq!(
            groups(&headers(GROUPS, b"staff,a%2Cb, %C3%BC,,p%252Cq")),
            ["staff", "a,b", "ü", "p%2Cq"]
        );
        assert!(groups(&HeaderMap::new()).is_empty());
    }
}
