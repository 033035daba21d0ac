//! gRPC calls by their request headers (specification "gRPC over HTTP2").

use std::time::Duration;

use http::{HeaderMap, HeaderValue, StatusCode, header};

/// A gRPC call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GrpcCall {
    /// The client's deadline for the whole call; `None`: no deadline.
    pub timeout: Option<Duration>,
}

impl GrpcCall {
    /// `None` for any other request, including gRPC-Web, which is made for HTTP/1.1.
    pub fn from_headers(headers: &HeaderMap) -> Option<GrpcCall> {
        let kind = headers.get(header::CONTENT_TYPE)?.as_bytes();
        let rest = kind.strip_prefix(b"application/grpc")?;
        let timeout = || timeout(headers.get("grpc-timeout")?);
        matches!(rest.first(), None | Some(b'+' | b';')).then(|| GrpcCall { timeout: timeout() })
    }
}

/// At most eight digits and a unit; other values are ignored.
fn timeout(value: &HeaderValue) -> Option<Duration> {
    let (digits, unit) = value
        .to_str()
        .ok()?
        .split_at_checked(value.len().checked_sub(1)?)?;
    if digits.len() > 8 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let count: u64 = digits.parse().ok()?;
    match unit {
        "H" => Some(Duration::from_secs(count * 3600)),
        "M" => Some(Duration::from_secs(count * 60)),
        "S" => Some(Duration::from_secs(count)),
        "m" => Some(Duration::from_millis(count)),
        "u" => Some(Duration::from_micros(count)),
        "n" => Some(Duration::from_nanos(count)),
        _ => None,
    }
}

/// The gRPC status code for an HTTP status ("HTTP to gRPC Status Code Mapping"), except 504: our
/// deadline is `DEADLINE_EXCEEDED` (4).
pub fn status_code(status: StatusCode) -> u16 {
    match status {
        StatusCode::BAD_REQUEST => 13,
        StatusCode::UNAUTHORIZED => 16,
        StatusCode::FORBIDDEN => 7,
        StatusCode::NOT_FOUND => 12,
        StatusCode::GATEWAY_TIMEOUT => 4,
        StatusCode::TOO_MANY_REQUESTS
        | StatusCode::BAD_GATEWAY
        | StatusCode::SERVICE_UNAVAILABLE => 14,
        _ => 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(fields: &[(&'static str, &'static str)]) -> Option<GrpcCall> {
        let fields = fields.iter().map(|(name, value)| {
            (
                http::HeaderName::from_static(name),
                HeaderValue::from_static(value),
            )
        });
        GrpcCall::from_headers(&fields.collect())
    }

    #[test]
    fn a_call_is_known_by_its_content_type_and_waits_as_long_as_it_says() {
        let kind = "content-type";
        for other in [
            "application/json",
            "application/grpc-web",
            "application/grpcx",
            "text/plain",
        ] {
            assert_eq!(parse(&[(kind, other)]), None, "{other}");
        }
        for (value, millis) in [
            ("1S", Some(1000)),
            ("100m", Some(100)),
            ("2H", Some(7_200_000)),
            ("3M", Some(180_000)),
            ("5000u", Some(5)),
            ("1000000n", Some(1)),
            ("123456789S", None),
            ("S", None),
            ("", None),
            ("-1S", None),
            ("1s", None),
        ] {
            let call = parse(&[(kind, "application/grpc+proto"), ("grpc-timeout", value)])
                .expect("a call");
            assert_eq!(
                call.timeout.map(|timeout| timeout.as_millis()),
                millis,
                "{value:?}"
            );
        }
        assert_eq!(
            parse(&[(kind, "application/grpc")]),
            Some(GrpcCall { timeout: None })
        );
    }
}
