//! Values of header fields: of fields that may occur once, of comma-separated lists, and bearer
//! tokens.

use http::{HeaderMap, HeaderName, HeaderValue, header};

/// How often a field occurs. Two recipients may read different values of one that is repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Occurrence<'h> {
    /// Not at all.
    Absent,
    /// Once, with this value.
    Once(&'h [u8]),
    /// More than once.
    Repeated,
}

/// How often a field occurs.
pub fn occurrence<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Occurrence<'h> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => Occurrence::Absent,
        (Some(value), None) => Occurrence::Once(value.as_bytes()),
        (Some(_), Some(_)) => Occurrence::Repeated,
    }
}

/// The value of a field that occurs exactly once.
pub fn single<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h HeaderValue> {
    let mut values = headers.get_all(name).iter();
    values.next().filter(|_| values.next().is_none())
}

/// The members of a list, over all lines of the field (RFC 9110 section 5.6.1). Empty members
/// count. A comma in a quoted string or a comment splits too: no member is read that has one.
pub fn list<'h>(
    headers: &'h HeaderMap,
    name: &HeaderName,
) -> impl Iterator<Item = &'h [u8]> + use<'h> {
    headers.get_all(name).iter().flat_map(members)
}

/// The members of a list in one line.
pub fn members(line: &HeaderValue) -> impl Iterator<Item = &[u8]> {
    line.as_bytes()
        .split(|byte| *byte == b',')
        .map(<[u8]>::trim_ascii)
}

/// The token in an Authorization header with the scheme `Bearer` (RFC 6750 section 2.1). The case
/// of the scheme has no meaning (RFC 9110 section 11.1). The token may be empty.
pub fn bearer_token(authorization: &HeaderValue) -> Option<&str> {
    let (scheme, token) = authorization.to_str().ok()?.split_once(' ')?;
    let is_bearer = scheme.eq_ignore_ascii_case("bearer");
    is_bearer.then(|| token.trim_matches(' '))
}

/// Whether the media type of a body begins with one of these names.
pub fn has_media_type(headers: &HeaderMap, names: &[&[u8]]) -> bool {
    let Some(kind) = headers.get(header::CONTENT_TYPE) else {
        return false;
    };
    let begins_with = |name: &[u8]| {
        let begin = kind.as_bytes().get(..name.len());
        begin.is_some_and(|begin| begin.eq_ignore_ascii_case(name))
    };
    names.iter().any(|name| begins_with(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(lines: &[&'static str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(header::VIA, HeaderValue::from_static(line));
        }
        headers.append(header::HOST, HeaderValue::from_static("gw.test"));
        headers
    }

    #[test]
    fn a_repeated_field_has_no_single_value() {
        for (lines, expected) in [
            (&[][..], Occurrence::Absent),
            (&[""], Occurrence::Once(b"")),
            (&["a"], Occurrence::Once(b"a")),
            (&["a", "a"], Occurrence::Repeated),
            (&["a", "b", "c"], Occurrence::Repeated),
        ] {
            let headers = headers(lines);
            assert_eq!(occurrence(&headers, &header::VIA), expected, "{lines:?}");
            let value = match expected {
                Occurrence::Once(value) => Some(value),
                Occurrence::Absent | Occurrence::Repeated => None,
            };
            assert_eq!(
                single(&headers, &header::VIA).map(HeaderValue::as_bytes),
                value,
                "{lines:?}"
            );
        }
    }

    #[test]
    fn a_bearer_token_is_found_in_any_spelling_of_its_scheme() {
        for (value, expected) in [
            ("Bearer a.b", Some("a.b")),
            ("bearer  a.b ", Some("a.b")),
            ("BEARER a b", Some("a b")),
            ("Bearer ", Some("")),
            ("Bearer", None),
            ("Bearer\ta", None),
            ("Basic a", None),
            ("Bearer \u{fc}", None),
            ("", None),
        ] {
            let header = HeaderValue::from_bytes(value.as_bytes()).expect("a value");
            assert_eq!(bearer_token(&header), expected, "{value}");
        }
    }

    #[test]
    fn a_list_has_the_members_of_all_lines_without_blanks() {
        for (lines, expected) in [
            (&[][..], &[][..]),
            (&["a"], &["a"]),
            (&[" a ,\tb", "c"], &["a", "b", "c"]),
            (&["a,,b,", ""], &["a", "", "b", "", ""]),
        ] {
            let members: Vec<_> = list(&headers(lines), &header::VIA)
                .map(|member| String::from_utf8_lossy(member).into_owned())
                .collect();
            assert_eq!(members, expected, "{lines:?}");
        }
    }
}
