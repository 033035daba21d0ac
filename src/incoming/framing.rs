//! How a body is framed: exactly one length, or exactly `chunked`, or no body (RFC 9112 section 6).

use http::{HeaderMap, Version, header};

use super::malformed::Malformed;
use crate::model::{
    arrival::Framing,
    header_values::{Occurrence, occurrence},
};

/// Reads the framing headers; hyper has merged equal lengths and dropped a length beside `chunked`.
/// On HTTP/2 a body may come without any (RFC 9113 section 8.1); `ends` says that there is none.
pub fn read(headers: &HeaderMap, version: Version, ends: bool) -> Result<Framing, Malformed> {
    expectation(headers)?;
    match occurrence(headers, &header::TRANSFER_ENCODING) {
        Occurrence::Absent => match length(headers)? {
            Framing::None => Ok(implicit(version, ends)),
            framing @ (Framing::Length(_) | Framing::Chunked) => Ok(framing),
        },
        Occurrence::Once(coding)
            if coding.eq_ignore_ascii_case(b"chunked")
                && version == Version::HTTP_11
                && !headers.contains_key(header::CONTENT_LENGTH) =>
        {
            Ok(Framing::Chunked)
        }
        Occurrence::Once(_) | Occurrence::Repeated => Err(Malformed::Framing),
    }
}

/// The framing of a head without framing fields.
pub fn implicit(version: Version, ends: bool) -> Framing {
    if version == Version::HTTP_2 && !ends {
        Framing::Chunked
    } else {
        Framing::None
    }
}

fn length(headers: &HeaderMap) -> Result<Framing, Malformed> {
    let mut framing = Framing::None;
    for value in headers.get_all(header::CONTENT_LENGTH) {
        let digits = value.as_bytes();
        if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
            return Err(Malformed::Framing);
        }
        let length = std::str::from_utf8(digits)
            .ok()
            .and_then(|text| text.parse::<u64>().ok());
        let length = Framing::Length(length.ok_or(Malformed::Framing)?);
        if framing != Framing::None && framing != length {
            return Err(Malformed::Framing);
        }
        framing = length;
    }
    Ok(framing)
}

fn expectation(headers: &HeaderMap) -> Result<(), Malformed> {
    match occurrence(headers, &header::EXPECT) {
        Occurrence::Absent => Ok(()),
        Occurrence::Once(value) if value.eq_ignore_ascii_case(b"100-continue") => Ok(()),
        Occurrence::Once(_) | Occurrence::Repeated => Err(Malformed::Expectation),
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn framing_is_one_length_or_chunked_or_refused() {
        type Fields = &'static [(&'static str, &'static str)];
        let cases: [(Fields, Result<Framing, Malformed>); 11] = [
            (&[], Ok(Framing::None)),
            (&[("content-length", "0")], Ok(Framing::Length(0))),
            (&[("content-length", "007")], Ok(Framing::Length(7))),
            (
                &[("content-length", "7"), ("content-length", "7")],
                Ok(Framing::Length(7)),
            ),
            (
                &[("content-length", "7"), ("content-length", "8")],
                Err(Malformed::Framing),
            ),
            (&[("content-length", "+7")], Err(Malformed::Framing)),
            (
                &[("content-length", "99999999999999999999")],
                Err(Malformed::Framing),
            ),
            (&[("transfer-encoding", "Chunked")], Ok(Framing::Chunked)),
            (
                &[("transfer-encoding", "gzip, chunked")],
                Err(Malformed::Framing),
            ),
            (
                &[("transfer-encoding", ",chunked")],
                Err(Malformed::Framing),
            ),
            (
                &[
                    ("transfer-encoding", "chunked"),
                    ("transfer-encoding", "chunked"),
                ],
                Err(Malformed::Framing),
            ),
        ];
        for (fields, expected) in cases {
            let mut headers = HeaderMap::new();
            for (name, value) in fields {
                headers.append(
                    http::HeaderName::from_static(name),
                    HeaderValue::from_static(value),
                );
            }
            assert_eq!(
                read(&headers, Version::HTTP_11, false),
                expected,
                "{fields:?}"
            );
        }
    }
}
